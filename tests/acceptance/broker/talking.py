"""Other services, as the product meets them: one that asks, one that receives. They use a library of their own.

Whoever asks has every message confirmed, and sends again what was not: it may have arrived all the same. Whoever
receives writes down what came before it acknowledges, so that nothing is missing of what the broker let go.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from typing import Any, Final, TypeVar

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from tests.acceptance.broker.checking import Fired, written

EXCHANGE: Final = "timebell"
REQUESTS: Final = "timebell.requests"
CANCELS: Final = "timebell.cancels"
DUE: Final = "timebell.due"
DEAD: Final = "timebell.dead"

_LOST: Final = (AMQPError, ChannelInvalidStateError, OSError, RuntimeError, TimeoutError)
_CONNECT_SECONDS: Final = 5.0
_CONFIRM_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.2
_AT_ONCE: Final = 250
_PREFETCH: Final = 1_000
_ACK_SECONDS: Final = 0.05

Answer = TypeVar("Answer")

# That a broker is away is told by the test; the library would say so several times a second.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message on its way to Timebell."""

    key: str
    body: bytes
    type: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One message as it came."""

    body: bytes
    headers: Mapping[str, Any]
    type: str | None
    message_id: str | None
    correlation_id: str | None
    content_type: str | None
    timestamp: datetime | None
    delivery_mode: int
    routing_key: str
    is_redelivered: bool
    received_at: datetime

    @property
    def fields(self) -> dict[str, Any]:
        content = json.loads(self.body)
        assert isinstance(content, dict), content
        return content

    @property
    def id(self) -> str:
        return str(self.fields["id"])

    def fired(self) -> Fired:
        said = self.fields
        assert said["type"] == self.type == "ScheduleDue", said
        return Fired(
            id=said["id"],
            tenant=said["tenant"],
            scheduled_for=said["scheduled_for"],
            fired_at=datetime.fromisoformat(said["fired_at"]),
            message_id=self.message_id,
            received_at=self.received_at,
            is_redelivered=self.is_redelivered,
        )


def request(
    id: str, *, at: datetime | None = None, correlation_id: str | None = None, **fields: Any
) -> Letter:
    """A `ScheduleRequest`."""
    asked = {"type": "ScheduleRequest", "id": id, **fields}
    if at is not None:
        asked["at"] = written(at)
    if isinstance(start := asked.get("dtstart"), datetime):
        asked["dtstart"] = written(start)
    return Letter(key="schedule.request", body=json.dumps(asked).encode(), correlation_id=correlation_id)


def cancel(id: str, **fields: Any) -> Letter:
    """A `ScheduleCancel`."""
    asked = {"type": "ScheduleCancel", "id": id, **fields}
    return Letter(key="schedule.cancel", body=json.dumps(asked).encode())


def each_host(url: str) -> list[str]:
    """A URL for each of the hosts that one names."""
    login, _, rest = url.rpartition("@")
    hosts, slash, vhost = rest.partition("/")
    return [f"{login}@{host}{slash}{vhost}" for host in hosts.split(",")]


class Line:
    """A connection that is made again whenever it was lost, for as long as it is asked to. Where the URL names several
    hosts it is made to one after the other."""

    def __init__(self, url: str) -> None:
        self._urls = cycle(each_host(url))
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._lost = asyncio.Event()

    async def channel(self) -> AbstractChannel:
        if self._channel is None or self._lost.is_set():
            await self.close()
            lost = self._lost = asyncio.Event()
            self._connection = await aio_pika.connect(next(self._urls), timeout=_CONNECT_SECONDS)
            self._connection.close_callbacks.add(lambda *_: lost.set())
            self._channel = self._connection.channel(on_return_raises=True)
            await self._channel.initialize(timeout=_CONNECT_SECONDS)
            self._channel.close_callbacks.add(lambda *_: lost.set())
        return self._channel

    async def lost(self) -> None:
        await self._lost.wait()

    def give_up(self) -> None:
        self._lost.set()

    async def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(*_LOST):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await connection.close()


async def asked_again(
    line: Line, ask: Callable[[AbstractChannel], Awaitable[Answer]], seconds: float
) -> Answer:
    """Until the broker answers."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                async with asyncio.timeout(_CONFIRM_SECONDS):
                    return await ask(await line.channel())
            except _LOST:
                line.give_up()
                await asyncio.sleep(_PAUSE_SECONDS)


class Caller:
    """Asks for things. What is not confirmed is sent again, so that the other side has to know it when it sees it."""

    def __init__(self, url: str) -> None:
        self._line = Line(url)
        self.sent_again = 0

    async def send(self, *letters: Letter, seconds: float = 120.0) -> None:
        """Returns when the broker has confirmed each."""
        for first in range(0, len(letters), _AT_ONCE):
            left = list(letters[first : first + _AT_ONCE])

            async def send_some(channel: AbstractChannel, left: list[Letter] = left) -> None:
                exchange = await channel.get_exchange(EXCHANGE, ensure=False)
                answers = await asyncio.gather(
                    *(self._send_one(exchange, letter) for letter in left), return_exceptions=True
                )
                unsure = [each for each, answer in zip(left, answers, strict=True) if answer is not None]
                left[:] = unsure
                self.sent_again += len(unsure)
                for answer in answers:
                    if isinstance(answer, BaseException):
                        raise answer

            await asked_again(self._line, send_some, seconds)

    async def _send_one(self, exchange: aio_pika.abc.AbstractExchange, letter: Letter) -> None:
        message = aio_pika.Message(
            letter.body,
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            headers=dict(letter.headers),
            type=letter.type,
            correlation_id=letter.correlation_id,
        )
        await exchange.publish(message, letter.key, mandatory=True, timeout=_CONFIRM_SECONDS)

    async def depth(self, queue: str, *, seconds: float = 60.0) -> int:
        """How many messages wait in a queue that is there."""

        async def ask(channel: AbstractChannel) -> int:
            found = await channel.declare_queue(queue, passive=True, timeout=_CONFIRM_SECONDS)
            return int(found.declaration_result.message_count or 0)

        return await asked_again(self._line, ask, seconds)

    async def close(self) -> None:
        await self._line.close()


class Ear:
    """Receives from one queue, for as long as it is open, over as many connections as that takes."""

    def __init__(self, url: str, queue: str) -> None:
        self._line = Line(url)
        self._queue = queue
        self._last: AbstractIncomingMessage | None = None
        self._acknowledging: asyncio.Task[None] | None = None
        self.heard: list[Heard] = []

    async def run(self) -> None:
        while True:
            try:
                channel = await self._line.channel()
                await channel.set_qos(prefetch_count=_PREFETCH, timeout=_CONNECT_SECONDS)
                queue = await channel.get_queue(self._queue, ensure=False)
                await queue.consume(self._hear, timeout=_CONNECT_SECONDS)
                await self._line.lost()
            except _LOST:
                self._line.give_up()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _hear(self, message: AbstractIncomingMessage) -> None:
        self.heard.append(
            Heard(
                body=message.body,
                headers=message.headers,
                type=message.type,
                message_id=message.message_id,
                correlation_id=message.correlation_id,
                content_type=message.content_type,
                timestamp=message.timestamp,
                delivery_mode=int(message.delivery_mode or 0),
                routing_key=message.routing_key or "",
                is_redelivered=bool(message.redelivered),
                received_at=datetime.now(UTC),
            )
        )
        if self._last is None:
            asyncio.get_running_loop().call_later(_ACK_SECONDS, self._acknowledge)
        self._last = message

    def _acknowledge(self) -> None:
        """All that came since, at once: one by one would take longer than all the rest."""
        last, self._last = self._last, None
        if last is not None:
            self._acknowledging = asyncio.create_task(_acknowledged(last))

    async def close(self) -> None:
        self._acknowledge()
        if self._acknowledging is not None:
            await self._acknowledging
        await self._line.close()

    def fired(self) -> Sequence[Fired]:
        return [each.fired() for each in self.heard]

    def ids(self) -> list[str]:
        return [each.id for each in self.heard]


async def _acknowledged(last: AbstractIncomingMessage) -> None:
    with suppress(*_LOST):
        await last.ack(multiple=True)


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Caller]:
    caller = Caller(url)
    try:
        yield caller
    finally:
        await caller.close()


@asynccontextmanager
async def listening(url: str, queue: str = DUE) -> AsyncIterator[Ear]:
    """Everything that comes to a queue while the block lasts. A queue or a broker that is not there is waited for."""
    ear = Ear(url, queue)
    running = asyncio.create_task(ear.run())
    try:
        yield ear
    finally:
        running.cancel()
        await asyncio.wait([running])
        await ear.close()
