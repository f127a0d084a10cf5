"""A broker that lives in this process, for tests, the sandbox and simulations: what it says is what RabbitMQ would.

Nothing of it outlives the process. Whoever wants to see it fail, or to connect twice, makes the `LocalServer` and gives
it to each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from datetime import datetime
from functools import partial
from typing import Final

from timebell.brokers.contract import Away, Heard, Intake, Message, Published, Received, Topology, all_away
from timebell.brokers.local_server import Answer, Connection, Entry, LocalServer, Subscription
from timebell.errors import ConfigurationError
from timebell.logs import Logger

log = Logger("timebell.brokers")

PUBLISH_SECONDS: Final = 10.0
RECONNECT_SECONDS: Final = 0.05


class LocalIntake:
    """Keeps what was handed out until it is taken. A lost connection takes along what was not."""

    def __init__(self, queue: str, *, prefetch: int, body_bytes_max: int) -> None:
        self.queue = queue
        self.is_over = False
        self._prefetch = prefetch
        self._body_bytes_max = body_bytes_max
        self._waiting: deque[Received] = deque()
        self._arrived = asyncio.Event()
        self._subscription: Subscription | None = None

    async def take(self, most: int) -> Sequence[Received]:
        while not self._waiting:
            if self.is_over:
                raise RuntimeError(f"nothing more comes from the queue {self.queue!r}: the intake is over")
            self._arrived.clear()
            await self._arrived.wait()
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    async def acknowledge(self, received: Sequence[Received]) -> None:
        if self._subscription is not None:
            self._subscription.acknowledge([one.tag for one in received])

    async def give_back(self, received: Sequence[Received]) -> None:
        if self._subscription is not None:
            self._subscription.give_back([one.tag for one in received])

    def follow(self, connection: Connection | None) -> bool:
        """Take over this connection from now on, unless it does already; whether it can."""
        if connection is None:
            self._subscription = None
            self._waiting.clear()
            return False
        if self._subscription is None or self._subscription.is_over:
            self._subscription = connection.subscribe(
                self.queue, prefetch=self._prefetch, deliver=self._deliver
            )
        return self._subscription is not None

    def end(self) -> None:
        """What was not acknowledged goes back, and whoever waits is told."""
        self.is_over = True
        if self._subscription is not None:
            self._subscription.end()
        self._subscription = None
        self._waiting.clear()
        self._arrived.set()

    def _deliver(self, tag: int, entry: Entry) -> None:
        message = entry.message
        self._waiting.append(
            Received(
                queue=self.queue,
                exchange=message.exchange,
                routing_key=message.routing_key,
                body=message.body[: self._body_bytes_max],
                body_bytes=len(message.body),
                tag=tag,
                is_redelivered=entry.is_redelivered,
                content_type=message.content_type,
                type=message.type,
                message_id=message.message_id,
                correlation_id=message.correlation_id,
                timestamp=_in_seconds(message.timestamp),
                headers={
                    name: _in_seconds(value) if isinstance(value, datetime) else value
                    for name, value in message.headers.items()
                },
            )
        )
        self._arrived.set()


class LocalBroker:
    """One process's way to a server, which is its own unless it is given one."""

    def __init__(self, server: LocalServer | None = None) -> None:
        self.server = server or LocalServer()
        self._topology = Topology()
        self._connection: Connection | None = None
        self._intakes: dict[LocalIntake, None] = {}
        self._watchers: list[Callable[[bool], None]] = []
        self._is_there = False
        self._is_closed = False
        self._why_away = "the broker was not opened yet"
        self._connecting: asyncio.TimerHandle | None = None
        # What the server tells is heard in the process that opened this, whoever makes the server do something.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None

    @property
    def is_there(self) -> bool:
        return self._is_there

    def watch(self, changed: Callable[[bool], None]) -> None:
        self._watchers.append(changed)

    async def open(self, topology: Topology) -> None:
        """Whether or not it is there: it is connected to as soon as it is. Each who opens it adds what they need."""
        self._check_open()
        if self._connection is not None:
            self._connection.declare(topology)
        self._topology += topology
        if self._loop is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        try:
            self._connect()
        except ConfigurationError:
            self.server.leave(self)
            self._loop = None
            raise

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        connection = self._connection
        if connection is None or not self._is_there:
            return all_away(len(messages), self._why_away, heard)
        coming = _Coming([connection.publish(message) for message in messages], heard)
        await coming.wait(connection)
        if coming.is_late and self.server.is_blocked and self._connection is connection:
            # Whoever hears that it is away must not find later that it arrived.
            self.cut()
        return coming.answers

    @asynccontextmanager
    async def intake(self, queue: str, *, prefetch: int, body_bytes_max: int) -> AsyncIterator[Intake]:
        self._check_open()
        intake = LocalIntake(queue, prefetch=prefetch, body_bytes_max=body_bytes_max)
        if not intake.follow(self._connection) and self._is_there:
            raise ConfigurationError(f"broker: there is no queue {queue!r}; declare it before taking from it")
        self._intakes[intake] = None
        try:
            yield intake
        finally:
            self._intakes.pop(intake, None)
            intake.end()

    async def close(self) -> None:
        self.die()
        self._why_away = "the broker was closed"
        self._connection = None
        for intake in self._intakes:
            intake.end()
        self._notice()

    def cut(self) -> None:
        """Lose this one connection, as a network does; it is made again."""
        if self._connection is not None:
            self._connection.end()
            self.tell()

    def die(self) -> None:
        """Be gone without a word, as a process that was killed. What was not acknowledged comes to others."""
        self._is_closed = True
        self.server.leave(self)
        if self._connecting is not None:
            self._connecting.cancel()

    def tell(self) -> None:
        if self._loop is not None:
            self._loop.call_soon(self._look, context=self._context)

    def _look(self) -> None:
        """Something is different at the server: find out what, and go on."""
        if self._is_closed:
            return
        if self._connection is not None and not self._connection.is_open:
            self._connection = None
            self._why_away = "the connection was lost"
            for intake in self._intakes:
                intake.follow(None)
            self._notice()
        if self._connection is None:
            self._connect_soon()
        else:
            self._restore(self._connection)

    def _connect_soon(self) -> None:
        if self._connecting is None and self.server.is_up and self._loop is not None:
            self._connecting = self._loop.call_later(
                RECONNECT_SECONDS, self._reconnect, context=self._context
            )

    def _reconnect(self) -> None:
        self._connecting = None
        if self._connection is None and not self._is_closed:
            try:
                self._connect()
            except ConfigurationError as error:
                log.error("the broker was found, and refuses us", reason=str(error))

    def _connect(self) -> None:
        connection = self.server.connect(self)
        if connection is None:
            self._why_away = "the broker is not there"
            return
        try:
            connection.declare(self._topology)
        except ConfigurationError:
            self._why_away = "what is declared there is not what we need"
            connection.end()
            raise
        self._connection = connection
        self._restore(connection)

    def _restore(self, connection: Connection) -> None:
        """Have every intake go on. A queue that was deleted is declared anew."""
        left = [intake for intake in self._intakes if not intake.follow(connection)]
        if left:
            try:
                connection.declare(self._topology)
            except ConfigurationError as error:
                log.error("what was deleted at the broker cannot be declared anew", reason=str(error))
        for intake in left:
            if not intake.follow(connection):
                log.error("there is no such queue at the broker", queue=intake.queue)
        self._notice()

    def _notice(self) -> None:
        """Tell the watchers if it is there now and was not, or the other way round."""
        is_there = self._connection is not None and not self.server.is_blocked
        if self._connection is not None and not is_there:
            self._why_away = "the broker takes nothing for now"
        if is_there != self._is_there:
            self._is_there = is_there
            for changed in self._watchers:
                changed(is_there)

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the broker was closed; make another one")


class _Coming:
    """Answers, each so many seconds after it was asked for; what did not come by then counts as lost."""

    def __init__(self, due: Sequence[Answer], heard: Heard | None) -> None:
        self._due = due
        self._heard = heard
        self._all: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = set(range(len(due)))
        self.is_late = False
        self.answers: list[Published] = [Away("the answer did not come in time") for _ in due]

    async def wait(self, connection: Connection) -> None:
        """Until the last one, or the deadline, or the end of the connection."""
        waited = 0.0
        for place, (answer, _) in enumerate(self._due):
            if isinstance(answer, asyncio.Future):
                answer.add_done_callback(partial(self._read, place))
        for instant in sorted({0.0, *(min(seconds, PUBLISH_SECONDS) for _, seconds in self._due)}):
            if instant:
                await asyncio.wait(
                    (connection.ended, self._all),
                    timeout=instant - waited,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            else:
                await asyncio.sleep(0)
            if not connection.is_open or self._all.done():
                break
            waited = instant
            for place in sorted(place for place in self._left if self._due[place][1] <= instant):
                answer = self._due[place][0]
                assert not isinstance(answer, asyncio.Future)
                self._answer(place, answer)
        late, self._left = self._left, set()
        self.is_late = bool(late)
        for place in sorted(late):
            self._tell(place)

    def _read(self, place: int, answer: asyncio.Future[Published]) -> None:
        if place in self._left:
            self._answer(place, answer.result())

    def _answer(self, place: int, answer: Published) -> None:
        self.answers[place] = answer
        self._left.discard(place)
        self._tell(place)
        if not self._left and not self._all.done():
            self._all.set_result(None)

    def _tell(self, place: int) -> None:
        if self._heard is not None:
            self._heard(place, self.answers[place])


def _in_seconds(instant: datetime | None) -> datetime | None:
    """AMQP knows no less."""
    return instant.replace(microsecond=0) if instant is not None else None
