"""The conformance suite for brokers: what every broker must do, ours and anybody's.

A test brings a `BrokerSide`, the broker itself under the test's control, and runs each of the `CHECKS` against it:

    @pytest.mark.parametrize("check", CHECKS, ids=name_of)
    async def test_mine_conforms(check: Check, mine: BrokerSide) -> None:
        await check(mine)

A check that needs a fault which the side cannot show returns without asking for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from timebell.brokers.contract import (
    Away,
    BrokerQueue,
    Confirmed,
    Exchange,
    Header,
    Message,
    Published,
    Received,
    Refused,
    Returned,
    Topology,
)
from timebell.testing.broker_fault_checks import FAULT_CHECKS
from timebell.testing.broker_intake_checks import INTAKE_CHECKS
from timebell.testing.broker_side import (
    EXCHANGE,
    KEY,
    OTHER_QUEUE,
    QUEUE,
    BrokerSide,
    Check,
    Fault,
    in_time,
    message,
    messages,
    name_of,
    nothing_comes,
    numbers,
    opened,
    publish,
    publish_well,
    receive,
    receive_all,
    taking,
)

__all__ = ["CHECKS", "BrokerSide", "Check", "Fault", "name_of"]

MANY: Final = 2_000
CALLS: Final = 200

FULL: Final = Message(
    exchange=EXCHANGE,
    routing_key="one.κλειδί",
    body='{"text": "grüße"}'.encode(),
    content_type="application/json; charset=utf-8",
    type="SuiteMessage",
    message_id="acme/42/2026-11-17T09:00:00.000000Z",
    correlation_id="✓ " + "c" * 200,
    timestamp=datetime(2026, 11, 17, 9, 0, 59, 999_999, tzinfo=UTC),
    headers={
        "text": "grüße",
        "long-text": "x" * 10_000,
        "no-text": "",
        "one": 1,
        "negative": -2_147_483_649,
        "large": 9_223_372_036_854_775_807,
        "yes": True,
        "no": False,
        "nothing": None,
        "bytes": b"\x00\xff\xfe",
        "instant": datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC),
        "cloudEvents:specversion": "1.0",
    },
)
BARE: Final = Message(exchange=EXCHANGE, routing_key="one", body=b"", content_type=None)


async def a_message_arrives_as_it_was(side: BrokerSide) -> None:
    """AMQP knows seconds only, so an instant loses what is below."""
    async with opened(side) as broker, taking(broker) as intake:
        await publish_well(broker, [FULL, BARE])
        full, bare = await receive(intake, 2)
        _same(full, replace(FULL, timestamp=datetime(2026, 11, 17, 9, 0, 59, tzinfo=UTC)))
        _same(bare, BARE)
        assert bare.headers == {}


def _same(received: Received, sent: Message) -> None:
    assert received.queue == QUEUE
    assert received.body_bytes == len(sent.body)
    assert not received.is_redelivered
    for name in ("exchange", "routing_key", "body", "content_type", "type", "message_id", "correlation_id"):
        assert getattr(received, name) == getattr(sent, name), name
    assert received.timestamp == sent.timestamp
    for header, value in sent.headers.items():
        assert (type(received.headers[header]), received.headers[header]) == (type(value), value), header


async def bodies_of_any_length_arrive_whole(side: BrokerSide) -> None:
    bodies = [bytes(range(256)) * 4_000, b"", b"x", b"y" * 131_072, b"z" * 131_065]
    async with opened(side) as broker, taking(broker) as intake:
        await publish_well(
            broker, [Message(exchange=EXCHANGE, routing_key=KEY, body=body) for body in bodies]
        )
        assert [one.body for one in await receive(intake, len(bodies))] == bodies


async def many_are_confirmed_in_one_call(side: BrokerSide) -> None:
    """Each once, in the order in which they were handed over; and once acknowledged they are gone."""
    async with opened(side) as broker:
        await publish_well(broker, messages(MANY))
        async with taking(broker) as intake:
            received: list[int] = []
            while len(received) < MANY:
                batch = await receive(intake, min(50, MANY - len(received)))
                received += numbers(batch)
                await in_time(intake.acknowledge(batch))
            assert received == list(range(MANY))
            await nothing_comes(side, intake)
    assert await receive_all(side) == []


async def each_answer_is_heard_once_and_before_the_last(side: BrokerSide) -> None:
    """Whatever it is. Whoever asked need not wait for the others of the call."""
    heard: dict[int, Published] = {}
    twice: list[int] = []

    def hear(place: int, answer: Published) -> None:
        if place in heard:
            twice.append(place)
        heard[place] = answer

    async with opened(side) as broker:
        sent = [message(number, key=KEY if number % 3 else "nobody.binds") for number in range(60)]
        sent[7] = message(7, exchange="x" * 300)
        answers = await in_time(broker.publish(sent, hear))
        assert [heard[place] for place in range(len(sent))] == list(answers)
        assert {type(answers[place]) for place in (0, 1, 7)} == {Returned, Confirmed, Refused}
        assert not twice
    heard.clear()
    answers = await in_time(broker.publish(sent, hear))
    assert {type(answer) for answer in answers} == {Away}
    assert [heard[place] for place in range(len(sent))] == list(answers)


async def many_calls_at_once_are_confirmed(side: BrokerSide) -> None:
    """Whatever two calls have in common, the order within each of them is kept."""
    async with opened(side) as broker:
        calls = [messages(5, first=5 * call) for call in range(CALLS)]
        await asyncio.gather(*(publish_well(broker, call) for call in calls))
    received = numbers(await receive_all(side))
    assert sorted(received) == list(range(5 * CALLS))
    places = {number: place for place, number in enumerate(received)}
    for call in range(CALLS):
        own = [places[number] for number in range(5 * call, 5 * call + 5)]
        assert own == sorted(own)


async def calls_one_after_another_keep_their_order(side: BrokerSide) -> None:
    async with opened(side) as broker, taking(broker) as intake:
        for number in range(50):
            await publish_well(broker, [message(number)])
        assert numbers(await receive(intake, 50)) == list(range(50))


async def nothing_at_all_can_be_published(side: BrokerSide) -> None:
    async with opened(side) as broker:
        assert await publish(broker, []) == []


async def a_key_that_nobody_binds_is_returned(side: BrokerSide) -> None:
    async with opened(side) as broker, taking(broker) as intake:
        sent = [message(0), message(1, key="nobody"), message(2), message(3, key="nobody"), message(4)]
        answers = await publish(broker, sent)
        assert [type(answer) for answer in answers] == [Confirmed, Returned, Confirmed, Returned, Confirmed]
        assert all(answer.reason for answer in answers if isinstance(answer, Returned))
        assert numbers(await receive(intake, 3)) == [0, 2, 4]
        await nothing_comes(side, intake)


async def one_id_may_be_in_flight_many_times(side: BrokerSide) -> None:
    """A duplicate is published with the id of the first, so an id says nothing of which one was returned."""
    async with opened(side) as broker:
        good = [replace(message(number), message_id="same") for number in range(40)]
        sent = [replace(one, routing_key="nobody") if int(one.body) % 3 == 1 else one for one in good]
        expected = [Returned if one.routing_key == "nobody" else Confirmed for one in sent]
        answers = await publish(broker, sent)
        assert [type(answer) for answer in answers] == expected
        calls = await asyncio.gather(*(publish(broker, [one]) for one in sent))
        assert [type(answer) for (answer,) in calls] == expected
    arrived = [int(one.body) for one in sent if one.routing_key == KEY]
    assert Counter(numbers(await receive_all(side))) == Counter(arrived * 2)


async def an_exchange_that_is_not_there_refuses(side: BrokerSide) -> None:
    """And whatever else was handed over with it arrives; it may do so twice, if the answer to it was lost."""
    async with opened(side) as broker, taking(broker) as intake:
        for _ in range(2):
            sent = [
                message(number, exchange="not.there" if number in {1, 4} else EXCHANGE) for number in range(6)
            ]
            answers = await publish(broker, sent)
            assert [type(answer) for answer in answers] == [
                Refused if one.exchange == "not.there" else Confirmed for one in sent
            ]
            assert all("not.there" in answer.reason for answer in answers if isinstance(answer, Refused))
        assert broker.is_there
        await publish_well(broker, [message(9)])
        received: list[int] = []
        while 9 not in received:
            received += numbers(await receive(intake, 1))
        assert set(received) == {0, 2, 3, 5, 9}


async def what_cannot_be_carried_is_refused(side: BrokerSide) -> None:
    """AMQP's short strings have up to 255 bytes, its whole numbers 64 bits, and all headers together fit into a frame;
    `CC` and `BCC` are lists for RabbitMQ, which closes the channel over anything else. The others go on."""
    long = "ä" * 128
    async with opened(side) as broker:
        wrong = [
            replace(message(), routing_key="one." + long),
            replace(message(), exchange=long),
            replace(message(), message_id=long),
            replace(message(), correlation_id=long),
            replace(message(), type=long),
            replace(message(), content_type=long),
            replace(message(), message_id="\ud800"),
            *(replace(message(), headers=headers) for headers in _unwritable()),
        ]
        for one in wrong:
            answers = await publish(broker, [message(1), one, message(2)])
            assert [type(answer) for answer in answers] == [Confirmed, Refused, Confirmed], one
        assert broker.is_there
    assert numbers(await receive_all(side)) == [1, 2] * len(wrong)


def _unwritable() -> list[dict[str, Header]]:
    return [
        {"n" * 256: 1},
        {"number": 1 << 63},
        {"number": -(1 << 63) - 1},
        {"text": "\ud800"},
        {"text": "x" * 200_000},
        {"CC": "one.more"},
        {"BCC": None},
    ]


async def keys_match_as_topics_do(side: BrokerSide) -> None:
    """`*` is one word and `#` any number of them; a queue gets a message once, however many of its keys match."""
    bound: dict[str, tuple[str, ...]] = {
        "exact": ("a.b",),
        "one-word": ("a.*", "*.c"),
        "any": ("a.#", "#.z"),
        "between": ("a.#.d",),
    }
    routes: dict[str, set[str]] = {
        "a": {"any"},
        "a.b": {"exact", "one-word", "any"},
        "a.c": {"one-word", "any"},
        "b.c": {"one-word"},
        "a.d": {"one-word", "any", "between"},
        "a.b.c.d": {"any", "between"},
        "a.z": {"one-word", "any"},
        "z": {"any"},
        "b.z.z": {"any"},
        "b": set(),
        "": set(),
        "aa.b": set(),
        "a..d": {"any", "between"},
        "*.b": set(),
    }
    topology = Topology(
        exchanges=(Exchange(name=EXCHANGE),),
        queues=tuple(BrokerQueue(name=name, exchange=EXCHANGE, keys=keys) for name, keys in bound.items()),
    )
    async with opened(side, topology) as broker:
        answers = await publish(
            broker, [Message(exchange=EXCHANGE, routing_key=key, body=key.encode()) for key in routes]
        )
        assert [isinstance(answer, Confirmed) for answer in answers] == [bool(to) for to in routes.values()]
        for queue in bound:
            expected = [key for key, to in routes.items() if queue in to]
            async with taking(broker, queue) as intake:
                received = await receive(intake, len(expected))
                assert [one.routing_key for one in received] == expected
                await nothing_comes(side, intake)


async def the_other_exchanges_route_too(side: BrokerSide) -> None:
    """By the whole key, to everybody, and the one without a name straight to a queue."""
    topology = Topology(
        exchanges=(Exchange(name="suite.exact", sort="direct"), Exchange(name="suite.all", sort="fanout")),
        queues=(
            BrokerQueue(name=QUEUE, exchange="suite.exact", keys=("a.b",)),
            BrokerQueue(name=OTHER_QUEUE, exchange="suite.all", keys=("ignored",)),
        ),
    )
    async with opened(side, topology) as broker:
        answers = await publish(
            broker,
            [
                message(0, exchange="suite.exact", key="a.b"),
                message(1, exchange="suite.exact", key="a.*"),
                message(2, exchange="suite.all", key="anything"),
                message(3, exchange="", key=QUEUE),
                message(4, exchange="", key="no.such.queue"),
            ],
        )
        assert [type(answer) for answer in answers] == [Confirmed, Returned, Confirmed, Confirmed, Returned]
        for queue, expected in [(QUEUE, [0, 3]), (OTHER_QUEUE, [2])]:
            async with taking(broker, queue) as intake:
                assert numbers(await receive(intake, len(expected))) == expected
                await nothing_comes(side, intake)


CHECKS: Final[tuple[Check, ...]] = (
    a_message_arrives_as_it_was,
    bodies_of_any_length_arrive_whole,
    many_are_confirmed_in_one_call,
    each_answer_is_heard_once_and_before_the_last,
    many_calls_at_once_are_confirmed,
    calls_one_after_another_keep_their_order,
    nothing_at_all_can_be_published,
    a_key_that_nobody_binds_is_returned,
    one_id_may_be_in_flight_many_times,
    an_exchange_that_is_not_there_refuses,
    what_cannot_be_carried_is_refused,
    keys_match_as_topics_do,
    the_other_exchanges_route_too,
    *INTAKE_CHECKS,
    *FAULT_CHECKS,
)
