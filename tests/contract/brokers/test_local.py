"""The broker in one process keeps the contract, and can be made to fail where a real one would."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.brokers.local_side import LocalSide
from tests.simulation.loop import VirtualLoop
from timebell.brokers.contract import (
    Away,
    BrokerQueue,
    Confirmed,
    Exchange,
    Published,
    Refused,
    Returned,
    Topology,
)
from timebell.brokers.local import PUBLISH_SECONDS, RECONNECT_SECONDS, LocalBroker
from timebell.brokers.local_server import Fate, LocalServer
from timebell.brokers.topics import matches
from timebell.errors import ConfigurationError
from timebell.testing.broker_side import (
    EXCHANGE,
    OTHER_QUEUE,
    QUEUE,
    TOPOLOGY,
    message,
    messages,
    nothing_comes,
    numbers,
    receive,
    taking,
    until,
    until_there,
)
from timebell.testing.broker_suite import CHECKS, Check, name_of


@pytest.mark.req("S-1.1")
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
async def test_it_conforms(check: Check) -> None:
    await check(LocalSide())


@asynccontextmanager
async def opened(server: LocalServer) -> AsyncIterator[LocalBroker]:
    broker = LocalBroker(server)
    await broker.open(TOPOLOGY)
    yield broker
    await broker.close()


def held(server: LocalServer, queue: str = QUEUE) -> list[int]:
    return [int(one.body) for one in server.messages(queue)]


def sorts(answers: Sequence[Published]) -> list[type]:
    return [type(answer) for answer in answers]


@pytest.mark.parametrize(
    ("fate", "answer", "arrived"),
    [
        (Fate(), Confirmed, [0, 1, 2]),
        (Fate(sort="lose"), Away, [0, 2]),
        (Fate(sort="lose_confirm"), Away, [0, 1, 2]),
        (Fate(sort="return"), Returned, [0, 2]),
        (Fate(sort="refuse"), Refused, [0, 2]),
    ],
)
async def test_one_message_may_have_a_fate_of_its_own(fate: Fate, answer: type, arrived: list[int]) -> None:
    server = LocalServer()
    server.fate = lambda sent: fate if sent.body == b"1" else Fate()
    async with opened(server) as broker:
        assert sorts(await broker.publish(messages(3))) == [Confirmed, answer, Confirmed]
        assert held(server) == arrived
        assert broker.is_there


def test_an_answer_may_be_late_and_too_late() -> None:
    """In virtual time, as a simulation has it."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        server = LocalServer()
        async with opened(server) as broker:
            server.fate = lambda sent: Fate(seconds=3.0 * int(sent.body))
            begun = loop.time()
            assert sorts(await broker.publish(messages(3))) == [Confirmed] * 3
            assert loop.time() == begun + 6
            server.fate = lambda sent: Fate(seconds=2 * PUBLISH_SECONDS * int(sent.body))
            begun = loop.time()
            assert sorts(await broker.publish(messages(2, first=0))) == [Confirmed, Away]
            assert loop.time() == begun + PUBLISH_SECONDS
            assert held(server) == [0, 1, 2, 0, 1]

    run_virtually(scene())


@pytest.mark.parametrize(("seconds", "answer", "arrived"), [(3, Confirmed, [0, 1]), (13, Away, [])])
def test_what_is_sent_to_a_blocked_broker_is_read_when_it_is_not(
    seconds: float, answer: type, arrived: list[int]
) -> None:
    """If that is in time. Else the connection is given up, and nothing arrives after its sender was answered."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        server = LocalServer()
        async with opened(server) as broker:
            loop.call_later(seconds, server.unblock)
            server.block()
            assert sorts(await broker.publish(messages(2))) == [answer] * 2
            assert loop.time() == min(seconds, PUBLISH_SECONDS)
            await until_there(broker)
            assert loop.time() >= seconds
            assert held(server) == arrived

    run_virtually(scene())


def test_a_connection_that_is_lost_while_an_answer_is_awaited() -> None:
    """What was answered before is known, and what was not may have arrived all the same."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        server = LocalServer()
        async with opened(server) as broker:
            server.fate = lambda sent: Fate(seconds=2.0 * int(sent.body))
            loop.call_later(3, server.stop)
            assert sorts(await broker.publish(messages(4))) == [Confirmed, Confirmed, Away, Away]
            assert loop.time() == 3
            assert held(server) == [0, 1, 2, 3]
            heard: asyncio.Queue[bool] = asyncio.Queue()
            broker.watch(heard.put_nowait)
            assert sorts(await broker.publish([message(4)])) == [Away]
            loop.call_later(60, server.start)
            while not await heard.get():
                pass
            assert broker.is_there
            assert loop.time() == pytest.approx(63 + RECONNECT_SECONDS)

    run_virtually(scene())


def run_virtually(scene: object) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(scene)  # type: ignore[arg-type]
    finally:
        loop.close()
    assert loop.bugs == []


async def test_a_cut_before_the_confirm_leaves_it_open_whether_it_arrived() -> None:
    server = LocalServer()
    async with opened(server) as broker:
        publishing = asyncio.ensure_future(broker.publish(messages(2)))
        await asyncio.sleep(0)
        broker.cut()
        assert sorts(await publishing) == [Away, Away]
        assert held(server) == [0, 1]


async def test_one_connection_is_cut_and_the_other_goes_on() -> None:
    server = LocalServer()
    async with opened(server) as one, opened(server) as two, taking(one) as intake:
        await two.publish(messages(3))
        assert numbers(await receive(intake, 3)) == [0, 1, 2]
        async with taking(two) as other:
            one.cut()
            again = await receive(other, 3)
            assert [(int(each.body), each.is_redelivered) for each in again] == [
                (0, True),
                (1, True),
                (2, True),
            ]
            assert two.is_there
            await until_there(one)
            await other.acknowledge(again)
            assert held(server) == []


async def test_a_process_dies_without_a_word() -> None:
    """What it had not acknowledged goes to others, and it does not come back."""
    server = LocalServer()
    heard: list[bool] = []
    async with (
        opened(server) as one,
        opened(server) as two,
        taking(one) as intake,
        taking(two, prefetch=1) as other,
    ):
        one.watch(heard.append)
        await two.publish(messages(3))
        mine = numbers(await receive(intake, 2))
        one.cut()
        one.die()
        rest = await receive(other, 1)
        for _ in range(2):
            await other.acknowledge(rest[-1:])
            rest += await receive(other, 1)
        assert sorted(numbers(rest)) == [0, 1, 2]
        assert {int(each.body) for each in rest if each.is_redelivered} == set(mine)
        server.stop()
        server.start()
        await until_there(two)
        assert heard == []


async def test_queues_are_bounded() -> None:
    """By how many they hold, and by how much: what was handed out counts until it is acknowledged."""
    server = LocalServer(messages_max=3, bytes_max=1_000)
    async with opened(server) as broker, taking(broker) as intake:
        assert sorts(await broker.publish(messages(4))) == [Confirmed, Confirmed, Confirmed, Refused]
        taken = await receive(intake, 3)
        assert sorts(await broker.publish([message(4)])) == [Refused]
        await intake.acknowledge(taken[:1])
        assert sorts(await broker.publish(messages(2, first=4))) == [Confirmed, Refused]
        assert held(server) == [1, 2, 4]
        server.limit(QUEUE, messages_max=100)
        large = [replace(message(), body=b"x" * length) for length in (300, 600, 98)]
        assert sorts(await broker.publish(large)) == [Confirmed, Confirmed, Refused]


async def test_one_queue_of_two_is_full() -> None:
    """As with RabbitMQ: it is refused, though the other has it."""
    server = LocalServer()
    both = tuple(BrokerQueue(name=name, exchange=EXCHANGE, keys=("both",)) for name in (QUEUE, OTHER_QUEUE))
    async with opened(server) as broker:
        await broker.open(Topology(queues=both))
        server.limit(QUEUE, messages_max=0)
        (answer,) = await broker.publish([message(1, key="both")])
        assert isinstance(answer, Refused)
        assert QUEUE in answer.reason
        assert (held(server, QUEUE), held(server, OTHER_QUEUE)) == ([], [1])


async def test_what_comes_again_stands_where_it_stood() -> None:
    server = LocalServer()
    async with opened(server) as broker:
        async with taking(broker, prefetch=3) as one, taking(broker, prefetch=3) as two:
            await broker.publish(messages(9))
            first, second = await receive(one, 3), await receive(two, 3)
            assert (numbers(first), numbers(second)) == ([0, 2, 4], [1, 3, 5])
            await one.acknowledge(first[1:2])
            # Room for one more.
            assert numbers(await receive(one, 1)) == [6]
        assert held(server) == [0, 1, 3, 4, 5, 6, 7, 8]
        async with taking(broker, prefetch=8) as intake:
            assert numbers(await receive(intake, 8)) == held(server)


async def test_what_is_deleted_while_away_is_declared_anew() -> None:
    server = LocalServer()
    async with opened(server) as broker, taking(broker) as intake:
        server.stop()
        server.delete_queue(QUEUE)
        server.start()
        await until_there(broker, False)
        await until_there(broker)
        assert sorts(await broker.publish([message(1)])) == [Confirmed]
        assert numbers(await receive(intake, 1)) == [1]


async def test_what_is_declared_otherwise_while_away_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is there to hear a refusal then, so it is a line in the log; and it is tried again as things change."""
    server = LocalServer()

    async def is_told() -> bool:
        return bool(caplog.records)

    async with opened(server) as broker, taking(broker) as intake:
        server.delete_queue(QUEUE)
        server.declare_queue(QUEUE, "classic")
        server.cut()
        with caplog.at_level(logging.ERROR, logger="timebell.brokers"):
            await until_there(broker, False)
            await until(is_told)
        assert "refuses us" in caplog.text
        (answer,) = await broker.publish([message(1)])
        assert answer == Away("what is declared there is not what we need")
        server.delete_queue(QUEUE)
        await until_there(broker)
        assert sorts(await broker.publish([message(2)])) == [Confirmed]
        assert numbers(await receive(intake, 1)) == [2]


async def test_what_was_handed_out_and_not_taken_comes_once_after_a_cut() -> None:
    server = LocalServer()
    heard: list[bool] = []
    async with opened(server) as broker, taking(broker) as intake:
        broker.watch(heard.append)
        await broker.publish(messages(4))
        assert numbers(await receive(intake, 1)) == [0]
        broker.cut()
        await until_there(broker, False)
        await until_there(broker)
        again = await receive(intake, 4)
        assert [(int(each.body), each.is_redelivered) for each in again] == [(n, True) for n in range(4)]
        await nothing_comes(LocalSide(), intake)
        server.delete_queue(OTHER_QUEUE)
        server.block()
        server.unblock()
        await asyncio.sleep(0)
        assert heard == [False, True], "nothing is told that did not change"


async def test_one_that_was_refused_may_be_opened_again() -> None:
    server = LocalServer()
    server.declare_queue(QUEUE, "classic")
    broker = LocalBroker(server)
    with pytest.raises(ConfigurationError, match="as a classic queue and not as a quorum one; delete it"):
        await broker.open(TOPOLOGY)
    assert (await broker.publish([message(1)]))[0] == Away("what is declared there is not what we need")
    server.delete_queue(QUEUE)
    await broker.open(TOPOLOGY)
    assert sorts(await broker.publish([message(2)])) == [Confirmed]
    await broker.close()


async def test_a_queue_that_nobody_declared_is_not_taken_from() -> None:
    async with opened(LocalServer()) as broker:
        with pytest.raises(ConfigurationError, match=r"no queue 'other'; declare it"):
            async with broker.intake("other", prefetch=1, body_bytes_max=1):
                pass


async def test_a_closed_broker_stays_closed() -> None:
    server = LocalServer()
    async with opened(server) as broker, taking(broker) as intake:
        waiting = asyncio.ensure_future(intake.take(1))
        await asyncio.sleep(0)
        await broker.close()
        with pytest.raises(RuntimeError, match="the intake is over"):
            await waiting
        with pytest.raises(RuntimeError, match="make another one"):
            await broker.open(TOPOLOGY)
        with pytest.raises(RuntimeError, match="make another one"):
            async with taking(broker):
                pass


async def test_each_broker_has_a_server_of_its_own_unless_it_is_given_one() -> None:
    one, two = LocalBroker(), LocalBroker()
    await one.open(TOPOLOGY)
    with pytest.raises(ConfigurationError, match="'suite' is there as topic and not as direct"):
        await LocalBroker(one.server).open(Topology(exchanges=(Exchange(name=EXCHANGE, sort="direct"),)))
    await two.open(Topology(exchanges=(Exchange(name=EXCHANGE, sort="direct"),)))
    await one.close()
    await two.close()


async def test_watchers_are_called_in_the_process_that_opened_it() -> None:
    """A simulated process that stands still must not hear of anything meanwhile."""
    process: ContextVar[str] = ContextVar("process", default="nobody")
    heard: list[tuple[str, bool]] = []
    server = LocalServer()
    broker = LocalBroker(server)
    broker.watch(lambda is_there: heard.append((process.get(), is_there)))

    async def open_there() -> None:
        process.set("one")
        await broker.open(TOPOLOGY)

    await asyncio.create_task(open_there())
    server.stop()
    assert heard == [("one", True)]
    await until_there(broker, False)
    server.start()
    await until_there(broker)
    assert heard == [("one", True), ("one", False), ("one", True)]
    await broker.close()


def means(binding: list[str], key: list[str]) -> bool:
    """The same in the plainest words."""
    if not binding:
        return not key
    if binding[0] == "#":
        return means(binding[1:], key) or (bool(key) and means(binding, key[1:]))
    return bool(key) and binding[0] in ("*", key[0]) and means(binding[1:], key[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#", "a*"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "c", "a*"]), min_size=1, max_size=6),
)
def test_bindings_mean_what_the_protocol_says(binding: list[str], key: list[str]) -> None:
    assert matches(".".join(binding), ".".join(key)) == means(binding, key)


@pytest.mark.parametrize(
    ("binding", "key", "expected"),
    [
        ("", "", True),
        ("#", "", True),
        ("*", "", False),
        ("*", "a", True),
        ("*.*", ".", True),
        ("#.#.#", "", True),
        ("a.#", "a", True),
        ("a.#", "ab", False),
        ("#.b.#", "a.b.c", True),
        ("A", "a", False),
    ],
)
def test_bindings_at_the_edge(binding: str, key: str, expected: bool) -> None:
    assert matches(binding, key) is expected


def test_a_hostile_binding_costs_little() -> None:
    assert not matches(".".join(["#"] * 100 + ["x"]), ".".join(["a"] * 127))
