"""The broker's own side, under the test's control: what the conformance suite for brokers needs of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Literal, Protocol, TypeVar

from timebell.brokers.contract import (
    Away,
    Broker,
    BrokerQueue,
    Confirmed,
    Exchange,
    Intake,
    Message,
    Published,
    Received,
    Topology,
)

Fault = Literal[
    "stop",  # nobody answers any more, and every connection ends
    "cut",  # every connection ends, and a new one can be made at once
    "block",  # connections stay, and nothing that is published is taken, nor answered
    "full",  # one queue takes no more, and says so
    "delete",  # one queue is no more, nor what is bound to it
    "otherwise",  # one queue is there, and is of another sort than ours
]

Answer = TypeVar("Answer")

# A broker may need long to come back on a machine that is busy, but not for ever.
PATIENCE: Final = timedelta(seconds=90)
# Between two looks at something that nobody tells us of.
PAUSE: Final = timedelta(milliseconds=20)

EXCHANGE: Final = "suite"
QUEUE: Final = "suite.one"
OTHER_QUEUE: Final = "suite.two"
KEY: Final = "one.key"
OTHER_KEY: Final = "two.key"
BODY_BYTES_MAX: Final = 1 << 20

TOPOLOGY: Final = Topology(
    exchanges=(Exchange(name=EXCHANGE),),
    queues=(
        BrokerQueue(name=QUEUE, exchange=EXCHANGE, keys=("one.#",)),
        BrokerQueue(name=OTHER_QUEUE, exchange=EXCHANGE, keys=("two.#",)),
    ),
)


class BrokerSide(Protocol):
    """A broker on which nothing is declared yet; each check gets a new one, or a part of one that is its own."""

    @property
    def faults(self) -> frozenset[Fault]:
        """Those that it can show."""

    @property
    def settling(self) -> timedelta:
        """How long nothing has to come until it is believed that nothing will."""

    def broker(self) -> Broker:
        """Another process's way to it, not opened yet."""

    async def show(self, fault: Fault, queue: str = QUEUE) -> None:
        """Show this fault; it has begun when this returns. Those that are about one queue are about this one."""

    async def mend(self, fault: Fault, queue: str = QUEUE) -> None:
        """End it. What can be is as it was when this returns, though connections have yet to be made."""


Check = Callable[[BrokerSide], Awaitable[None]]


def name_of(check: Check) -> str:
    return str(getattr(check, "__name__", check))


@asynccontextmanager
async def opened(side: BrokerSide, topology: Topology = TOPOLOGY) -> AsyncIterator[Broker]:
    """A broker that is open for as long as the block lasts."""
    broker = side.broker()
    try:
        await in_time(broker.open(topology))
        assert broker.is_there
        yield broker
    finally:
        await in_time(broker.close())


async def in_time(answer: Awaitable[Answer]) -> Answer:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        return await answer


def message(number: int = 0, *, key: str = KEY, exchange: str = EXCHANGE) -> Message:
    """One that is known by its number."""
    return Message(exchange=exchange, routing_key=key, body=b"%d" % number, message_id=f"message {number}")


def messages(count: int, *, first: int = 0, key: str = KEY) -> list[Message]:
    return [message(number, key=key) for number in range(first, first + count)]


def numbers(received: Sequence[Received]) -> list[int]:
    return [int(one.body) for one in received]


async def publish(broker: Broker, sent: Sequence[Message]) -> list[Published]:
    answers = list(await in_time(broker.publish(sent)))
    assert len(answers) == len(sent)
    return answers


async def publish_well(broker: Broker, sent: Sequence[Message]) -> None:
    """All of these arrive."""
    wrong = [answer for answer in await publish(broker, sent) if not isinstance(answer, Confirmed)]
    assert not wrong, wrong[:5]


async def publish_until_confirmed(broker: Broker, sent: Message) -> None:
    """A broker that comes back does so at its own time; until then it may answer whatever it likes."""

    async def is_confirmed() -> bool:
        return isinstance((await publish(broker, [sent]))[0], Confirmed)

    await until(is_confirmed)


async def publish_until_away(broker: Broker) -> None:
    """That a broker is gone may be noticed by nobody before something is published."""

    async def is_away() -> bool:
        return isinstance((await publish(broker, [message(-1, key=OTHER_KEY)]))[0], Away)

    await until(is_away)


async def until_there(broker: Broker, there: bool = True) -> None:
    async def is_so() -> bool:
        return broker.is_there is there

    await until(is_so)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:
            if await condition():
                return
            await asyncio.sleep(PAUSE.total_seconds())


@asynccontextmanager
async def taking(
    broker: Broker, queue: str = QUEUE, *, prefetch: int = 100, body_bytes_max: int = BODY_BYTES_MAX
) -> AsyncIterator[Intake]:
    async with broker.intake(queue, prefetch=prefetch, body_bytes_max=body_bytes_max) as intake:
        yield intake


async def receive(intake: Intake, count: int, *, most: int = 50) -> list[Received]:
    """The next so many. More are not asked for."""
    received: list[Received] = []
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while len(received) < count:
            asked = min(most, count - len(received))
            batch = await intake.take(asked)
            assert 1 <= len(batch) <= asked
            received += batch
    return received


async def receive_all(side: BrokerSide, queue: str = QUEUE) -> list[Received]:
    """Whatever is in the queue, over a connection of its own, which leaves it empty."""
    received: list[Received] = []
    async with opened(side) as broker, taking(broker, queue) as intake:
        while True:
            try:
                async with asyncio.timeout(side.settling.total_seconds()):
                    batch = await intake.take(50)
            except TimeoutError:
                return received
            received += batch
            await intake.acknowledge(batch)


async def nothing_comes(side: BrokerSide, intake: Intake) -> None:
    try:
        async with asyncio.timeout(side.settling.total_seconds()):
            batch = await intake.take(50)
    except TimeoutError:
        return
    raise AssertionError(f"nothing was to come, but {numbers(batch)} did")
