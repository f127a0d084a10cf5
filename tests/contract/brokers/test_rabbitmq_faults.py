"""What only a real broker can do: to be killed, to be silent, and to hand over what somebody made up to do harm."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace

import pytest
from pika import BasicProperties
from pika.exceptions import UnroutableError

from tests.contract.brokers.rabbit_server import PASSWORD, RabbitServer
from tests.contract.brokers.rabbit_side import rabbit_side, until_line
from tests.log_lines import kept_lines
from timebell.brokers import UNREADABLE_HEADERS
from timebell.brokers.contract import (
    Away,
    Broker,
    BrokerQueue,
    Confirmed,
    Exchange,
    Received,
    Returned,
    Topology,
)
from timebell.brokers.rabbitmq import RabbitBroker, outlets, publishing
from timebell.brokers.rabbitmq import intake as intake_module
from timebell.testing.broker_side import (
    EXCHANGE,
    OTHER_KEY,
    OTHER_QUEUE,
    QUEUE,
    TOPOLOGY,
    in_time,
    message,
    messages,
    nothing_comes,
    numbers,
    opened,
    publish,
    publish_until_confirmed,
    publish_well,
    receive,
    receive_all,
    taking,
    until,
    until_there,
)

# A quorum queue whose broker is killed within a second of being declared may be without a leader for a while.
SETTLED_SECONDS = 1.5


async def test_a_broker_that_is_killed_loses_nothing(rabbit: RabbitServer) -> None:
    """Publishing and taking go on by themselves when it is back: what was confirmed arrives, if need be twice."""
    async with rabbit_side(rabbit, is_alone=True) as side, opened(side) as broker:
        confirmed: set[int] = set()
        received: set[int] = set()
        stop = asyncio.Event()
        publishing = asyncio.ensure_future(_publish_on(broker, confirmed, stop))
        taking_on = asyncio.ensure_future(_take_on(broker, received))
        try:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            await _until_more(confirmed, 100)
            while loop.time() - begun < SETTLED_SECONDS:
                await _until_more(confirmed, 1)
            await asyncio.to_thread(rabbit.kill)
            await until_there(broker, False)
            count = len(confirmed)
            await asyncio.to_thread(rabbit.start)
            await until_there(broker)
            await _until_more(confirmed, 100)
            assert len(confirmed) > count
            stop.set()
            await in_time(publishing)
            await _until_received(received, confirmed, taking_on)
        finally:
            for worker in (publishing, taking_on):
                worker.cancel()
            rabbit.start()


async def _publish_on(broker: Broker, confirmed: set[int], stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        answers = await publish(broker, messages(10, first=number))
        assert {type(answer) for answer in answers} <= {Confirmed, Away, Returned}
        confirmed |= {number + place for place, answer in enumerate(answers) if answer == Confirmed()}
        number += 10
        if answers[-1] != Confirmed():
            await until_there(broker)


async def _take_on(broker: Broker, received: set[int]) -> None:
    async with taking(broker) as intake:
        while True:
            batch = await intake.take(50)
            received.update(numbers(batch))
            await in_time(intake.acknowledge(batch))


async def _until_received(received: set[int], confirmed: set[int], taking_on: asyncio.Future[None]) -> None:
    async def are_received() -> bool:
        if taking_on.done():
            taking_on.result()
        return confirmed <= received

    await until(are_received)


async def _until_more(confirmed: set[int], more: int) -> None:
    goal = len(confirmed) + more

    async def are_more() -> bool:
        return len(confirmed) >= goal

    await until(are_more)


async def test_two_that_are_alike_but_for_the_queue_are_told_apart(rabbit: RabbitServer) -> None:
    """One id, one body, one key: between them the queue is unbound, so the first arrives and the second does not."""
    async with rabbit_side(rabbit) as side, opened(side) as broker:
        for name in ("first", "second"):
            one = replace(message(7), message_id="same", headers={"name": name})
            if name == "second":
                with side.channel() as channel:
                    channel.queue_unbind(QUEUE, EXCHANGE, "one.#")
            answers = await publish(broker, [one, replace(one, routing_key=OTHER_KEY)])
            kind = Confirmed if name == "first" else Returned
            assert [type(answer) for answer in answers] == [kind, Confirmed]


async def test_what_somebody_deleted_is_declared_again(rabbit: RabbitServer) -> None:
    """Also where nobody takes from it: what comes back, or finds no exchange, has it looked for."""
    async with rabbit_side(rabbit) as side, opened(side) as broker:
        await publish_well(broker, [message(1, key=OTHER_KEY)])
        with side.channel() as channel:
            channel.queue_delete(OTHER_QUEUE)
        assert isinstance((await publish(broker, [message(2, key=OTHER_KEY)]))[0], Returned)
        await publish_until_confirmed(broker, message(3, key=OTHER_KEY))
        async with taking(broker, OTHER_QUEUE) as intake:
            assert numbers(await receive(intake, 1)) == [3]


async def test_what_was_not_taken_before_a_cut_comes_once(rabbit: RabbitServer) -> None:
    """It waited here, and is in the queue again; whoever takes it must be able to acknowledge it."""
    async with rabbit_side(rabbit) as side, opened(side) as broker:
        async with taking(broker) as intake:
            await publish_well(broker, messages(5))
            (first,) = await receive(intake, 1)
            await side.show("cut")
            await until_there(broker, False)
            await until_there(broker)
            again = await receive(intake, 5)
            assert numbers(again) == [0, 1, 2, 3, 4]
            assert all(one.tag != first.tag for one in again)
            await in_time(intake.acknowledge(again))
            await nothing_comes(side, intake)
        async with taking(broker) as intake:
            await nothing_comes(side, intake)


async def test_all_who_took_from_a_deleted_queue_go_on(rabbit: RabbitServer) -> None:
    """None of them declares it anew before the others have heard: those would be handed nothing any more."""
    async with (
        rabbit_side(rabbit) as side,
        opened(side) as one,
        opened(side) as two,
        taking(one, prefetch=1) as first,
        taking(two, prefetch=1) as second,
    ):
        await publish_well(one, messages(2))
        both = [*await receive(first, 1), *await receive(second, 1)]
        assert sorted(numbers(both)) == [0, 1]
        await side.show("delete")
        await publish_until_confirmed(one, message(2))
        await publish_well(one, [message(3)])
        both = [*await receive(first, 1), *await receive(second, 1)]
        assert sorted(numbers(both)) == [2, 3]


async def test_whoever_only_takes_declares_what_was_deleted(rabbit: RabbitServer) -> None:
    async with rabbit_side(rabbit) as side, opened(side) as broker, taking(broker) as intake:
        await side.show("delete")
        with side.channel() as channel:

            async def arrives() -> bool:
                try:
                    channel.basic_publish(EXCHANGE, "one.key", b"1", mandatory=True)
                except UnroutableError:
                    return False
                return True

            await until(arrives)
        assert numbers(await receive(intake, 1)) == [1]


async def test_whoever_hears_nothing_for_long_begins_anew(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And loses nothing by it. Whoever holds something is left alone."""
    monkeypatch.setattr(intake_module, "QUIET_SECONDS", 0.05)
    async with rabbit_side(rabbit) as side, opened(side) as broker, taking(broker) as intake:
        taken: list[Received] = []
        for number in range(3):
            await publish_well(broker, [message(number)])
            taken += await receive(intake, 1)
            if number:
                await in_time(intake.acknowledge(taken))
            await nothing_comes(side, intake)
        assert numbers(taken) == [0, 1, 2]
        lives = [one.tag >> 64 for one in taken]
        assert lives[0] == lives[1] < lives[2]


async def test_a_silent_broker_is_answered_for(rabbit: RabbitServer) -> None:
    async with rabbit_side(rabbit) as side:
        side.publish_seconds = 0.5
        async with opened(side) as broker:
            await publish_well(broker, [message(1)])
            side.proxy.pause()
            answers = await publish(broker, messages(3))
            assert answers == [Away("no confirm within 0.5 s")] * 3
            side.proxy.resume()
            await publish_until_confirmed(broker, message(4))


async def test_a_connection_over_which_nothing_comes_is_given_up(rabbit: RabbitServer) -> None:
    """What was sent arrived, and nobody knows: it is sent once more when there is another, not every few seconds."""
    async with rabbit_side(rabbit) as side:
        broker = RabbitBroker(f"{side.url}?heartbeat=1", publish_seconds=1.0)
        try:
            await in_time(broker.open(TOPOLOGY))
            await publish_well(broker, [message(1)])
            side.proxy.lose_replies = True
            assert await publish(broker, messages(3)) == [Away("no confirm within 1 s")] * 3
            await until_there(broker, False)
            side.proxy.heal()
            await until_there(broker)
            await publish_well(broker, [message(4)])
        finally:
            await in_time(broker.close())


async def test_what_a_blocked_broker_has_not_read_never_arrives(rabbit: RabbitServer) -> None:
    """Whoever was told that it is away may have had it cancelled by the time that the broker reads again. The next
    connection knows that the broker is blocked before anything is sent over it."""
    async with rabbit_side(rabbit, is_alone=True) as side:
        user = rabbit.new_user()
        rights = rf"^{EXCHANGE}(\\..*)?$"
        rabbit.grant(user, side.vhost, configure=rights, write=rights, read=rights)
        broker = RabbitBroker(rabbit.url(side.vhost, user=user, password=PASSWORD), publish_seconds=1.0)
        try:
            await in_time(broker.open(TOPOLOGY))
            await publish_well(broker, [message(1)])
            with kept_lines() as lines:
                rabbit.block()
                try:
                    answers = await publish(broker, [message(2), *messages(3_000, first=100)])
                    assert {type(answer) for answer in answers} == {Away}
                    await until_line(lines, "the broker is back")
                    assert not broker.is_there
                finally:
                    rabbit.unblock()
            await until_there(broker)
            await publish_well(broker, [message(4)])
            assert numbers(await receive_all(side)) == [1, 4]
        finally:
            await in_time(broker.close())


async def test_a_queue_that_confirms_nothing_costs_no_connection(rabbit: RabbitServer) -> None:
    """The broker gives signs of life, so that it leads somewhere."""
    async with rabbit_side(rabbit) as side:
        broker = RabbitBroker(f"{side.url}?heartbeat=1", publish_seconds=1.5)
        heard: list[bool] = []
        try:
            await in_time(broker.open(TOPOLOGY))
            broker.watch(heard.append)
            rabbit.freeze(side.vhost, QUEUE)
            try:
                assert await publish(broker, [message(1)]) == [Away("no confirm within 1.5 s")]
            finally:
                rabbit.thaw(side.vhost, QUEUE)
            assert heard == []
            await publish_until_confirmed(broker, message(3))
        finally:
            await in_time(broker.close())


async def test_what_waits_for_an_answer_is_bounded(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes later waits; and a broker that says nothing of so much is connected to anew."""
    monkeypatch.setattr(outlets, "UNANSWERED_MAX", 20)
    async with rabbit_side(rabbit) as side:
        side.publish_seconds = 0.5
        async with opened(side) as broker:
            await asyncio.gather(*(publish_well(broker, messages(50)) for _ in range(10)))
            assert broker.is_there
            side.proxy.pause()
            answers = await publish(broker, messages(500))
            assert {type(answer) for answer in answers} == {Away}
            await until_there(broker, False)
            side.proxy.resume()
            await until_there(broker)
            await publish_until_confirmed(broker, message(4))


async def test_more_exchanges_than_channels_take_turns(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "OUTLETS_MAX", 3)
    names = [f"suite.{number}" for number in range(8)]
    topology = Topology(
        exchanges=tuple(Exchange(name=name, sort="fanout") for name in names),
        queues=tuple(BrokerQueue(name=QUEUE, exchange=name, keys=("k",)) for name in names),
    )
    async with rabbit_side(rabbit) as side, opened(side, topology) as broker:
        for number, name in enumerate(names * 2):
            await publish_well(broker, [message(number, exchange=name)])
        async with taking(broker) as intake:
            assert numbers(await receive(intake, 16)) == list(range(16))


async def test_headers_that_were_made_to_do_harm_are_in_nobodys_way(rabbit: RabbitServer) -> None:
    """Each is shown for what it is, can be acknowledged, and what stands behind it comes."""
    deep = b""
    for _ in range(3_000):
        deep = b"A" + struct.pack(">I", len(deep)) + deep
    bombs = [
        b"\x01n" + deep,
        b"\x01nT" + b"\xff" * 8,
        b"\x01nS\x00\x00\x00\x02\xff\xfe",
        b"\x02\xff\xfeV",
    ]
    async with rabbit_side(rabbit) as side, opened(side) as broker:
        with side.channel() as channel:
            for number, bomb in enumerate(bombs):
                channel.basic_publish("", QUEUE, b"%d" % number, _Raw(bomb))
                channel.basic_publish("", QUEUE, b"%d" % (100 + number))
        async with taking(broker) as intake:
            taken = await receive(intake, 2 * len(bombs))
            assert numbers(taken) == [part for number in range(len(bombs)) for part in (number, 100 + number)]
            assert not any(one.is_redelivered for one in taken)
            assert [UNREADABLE_HEADERS in one.headers for one in taken[::2]] == [True, True, False, False]
            await in_time(intake.acknowledge(taken))
            await publish_well(broker, [message(9)])
            assert numbers(await receive(intake, 1)) == [9]


class _Raw(BasicProperties):  # type: ignore[misc]
    """Headers that no library would write."""

    def __init__(self, table: bytes) -> None:
        super().__init__()
        self._table = table

    def encode(self) -> list[bytes]:
        return [struct.pack(">HI", 0x2000, len(self._table)), self._table]


async def test_a_cluster_is_found_by_any_of_its_nodes(rabbit: RabbitServer) -> None:
    """One of the hosts is nobody. Losing the connection is told in one line, and so is its return."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        async with rabbit_side(rabbit) as side:
            url = side.url.replace("@", f"@{nobody},")
            with kept_lines("pika") as lines:
                brokers = [RabbitBroker(url) for _ in range(4)]
                try:
                    for broker in brokers:
                        await in_time(broker.open(Topology()))
                        await until_there(broker)
                        heard: list[bool] = []
                        broker.watch(heard.append)
                        side.proxy.abort()
                        await _until_back(heard)
                finally:
                    for broker in brokers:
                        await in_time(broker.close())
    assert any(line["event"] == "the broker is back" for line in lines)
    assert "guest:guest" not in repr(lines)


async def _until_back(heard: list[bool]) -> None:
    async def is_back() -> bool:
        return heard[-2:] == [False, True]

    await until(is_back)


async def test_an_outage_is_told_once(rabbit: RabbitServer) -> None:
    """However often it is tried and however many connections were lost."""
    async with rabbit_side(rabbit) as side:
        with kept_lines() as lines:
            async with opened(side) as broker, taking(broker), taking(broker, OTHER_QUEUE):
                await side.show("stop")
                await until_there(broker, False)
                answers = [answer for _ in range(50) for answer in await publish(broker, messages(100))]
                assert {type(answer) for answer in answers} == {Away}
                await side.mend("stop")
                await publish_until_confirmed(broker, message(1))
                await until_line(lines, "the broker is back")
    ours = [line for line in lines if line["log_level"] in ("warning", "error") or "back" in line["event"]]
    assert [(line["log_level"], line["event"].partition(";")[0]) for line in ours] == [
        ("warning", "the broker is away"),
        ("info", "the broker is back"),
    ]
    assert ours[0]["host"] == f"127.0.0.1:{side.proxy.port}"
    assert ours[0]["reason"]


@pytest.mark.slow
async def test_a_connection_that_leads_nowhere_is_given_up(rabbit: RabbitServer) -> None:
    """No end of it, and no word over it: only that nothing comes says that it is lost."""
    async with rabbit_side(rabbit) as side:
        broker = RabbitBroker(f"{side.url}?heartbeat=1")
        try:
            await in_time(broker.open(Topology()))
            side.proxy.half_open()
            await until_there(broker, False)
            await until_there(broker)
        finally:
            await in_time(broker.close())
