"""Takes messages from one queue, over one channel after another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Final

from timebell.brokers.contract import Received
from timebell.brokers.rabbitmq.address import Address
from timebell.brokers.rabbitmq.frames import acknowledged, given_back
from timebell.brokers.rabbitmq.link import REFUSED_SECONDS, Link, Pauses
from timebell.brokers.rabbitmq.reading import Contents, Delivery
from timebell.brokers.rabbitmq.refusals import NOT_FOUND, Closed, Unreachable, refused_declaration
from timebell.brokers.rabbitmq.wire import Channel, Wire
from timebell.errors import ConfigurationError
from timebell.logs import Logger

log = Logger("timebell.brokers")

START_SECONDS: Final = 5.0
# A quorum queue that is declared anew before everybody has heard of its end gets the takers of the old one, and what it
# hands to them is taken for what they have seen already. They would wait for ever.
DELETED_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 300.0
# What AMQP has room for.
PREFETCH_MAX: Final = 65_535

# A tag says which channel it came over, beside the number that the broker gave it there.
_TAG_BITS: Final = 64
_TAG: Final = (1 << _TAG_BITS) - 1


class RabbitIntake:
    """Keeps what came until it is taken. A channel that is lost takes along what was not acknowledged."""

    _lives = count(1)

    def __init__(
        self, queue: str, address: Address, names: Iterable[str], *, prefetch: int, body_bytes_max: int
    ) -> None:
        if not 1 <= prefetch <= PREFETCH_MAX:
            raise ConfigurationError(f"prefetch: {prefetch} is not from 1 to {PREFETCH_MAX}")
        self.queue = queue
        self._address = address
        self._names = names
        self._prefetch = prefetch
        self._body_bytes_max = body_bytes_max
        self._waiting: deque[Received] = deque()
        self._arrived = asyncio.Event()
        self._is_over = False
        self._channel: Channel | None = None
        self._contents = Contents(body_bytes_max)
        self._life = 0
        self._taken = 0
        self._unsettled: set[int] = set()
        self._oldest = 1
        self._keeping: asyncio.Task[None] | None = None
        # How the first try ended that had an end: something can be taken, or we are refused.
        self._first: asyncio.Future[None] | None = None

    async def take(self, most: int) -> Sequence[Received]:
        while not self._waiting:
            if self._is_over:
                raise RuntimeError(f"nothing more comes from the queue {self.queue!r}: the intake is over")
            self._arrived.clear()
            await self._arrived.wait()
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """In one word for all up to the first that is still open, and in one for each that is behind it."""
        channel, tags = self._channel, self._settle(received)
        if channel is None or not tags:
            return
        last = 0
        highest = tags[-1]
        settled = set(tags)
        while self._oldest <= highest and self._oldest not in self._unsettled:
            if self._oldest in settled:
                last = self._oldest
            self._oldest += 1
        if last:
            channel.write(acknowledged(channel.number, last, is_multiple=True))
        for tag in tags:
            if tag > last:
                channel.write(acknowledged(channel.number, tag, is_multiple=False))

    async def give_back(self, received: Sequence[Received]) -> None:
        channel = self._channel
        for tag in self._settle(received):
            if channel is not None:
                channel.write(given_back(channel.number, tag))

    async def start(self, link: Link, declare: Callable[[Wire], Awaitable[None]], pauses: Pauses) -> None:
        """Begin. Where the broker is there, what it refuses for good is raised; where it is not, it is waited for."""
        first = self._first = asyncio.get_running_loop().create_future()
        self._keeping = asyncio.create_task(
            self._keep(link, declare, pauses), name=f"timebell intake {self.queue}"
        )
        if link.wire is not None:
            await asyncio.wait({first}, timeout=START_SECONDS)
        # Nobody waits for it any more, so a refusal is told in a line from here on.
        self._settle_first(None)
        if (refusal := first.exception()) is not None:
            raise refusal

    async def end(self) -> None:
        """What was not acknowledged goes back, and whoever waits is told."""
        self._is_over = True
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait({keeping})
        self._arrived.set()

    async def _keep(self, link: Link, declare: Callable[[Wire], Awaitable[None]], pauses: Pauses) -> None:
        """Take over whatever connection there is."""
        told = ""
        while True:
            try:
                wire = await link.there()
                # Somebody may have deleted what we take from.
                await declare(wire)
                await self._take_over(wire)
                pauses.start_over()
                told = ""
            except Unreachable as error:
                log.debug("nothing can be taken for now", queue=self.queue, reason=str(error))
            except ConfigurationError as refusal:
                if self._settle_first(refusal):
                    return
                if told != str(refusal):
                    told = str(refusal)
                    log.warning("nothing can be taken; it is tried again", queue=self.queue, reason=told)
                await asyncio.sleep(REFUSED_SECONDS)
            except Exception as error:
                log.error("taking failed; it is tried again", queue=self.queue, exc_info=error)
            await asyncio.sleep(pauses.next())

    async def _take_over(self, wire: Wire) -> None:
        """Take over this connection, as long as the broker lets us."""
        ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def end(why: str, wait_seconds: float = 0.0) -> None:
            self._forget()
            if not ended.done():
                log.info("what was taken and not acknowledged comes again", queue=self.queue, reason=why)
                ended.set_result(wait_seconds)

        channel = await wire.channel(lambda why: end(str(why)))
        try:
            await channel.call("basic_qos", prefetch_count=self._prefetch)
            channel.watch_cancel(lambda: end("the queue was deleted", DELETED_SECONDS))
            self._remember(channel)
            await self._consume(channel)
            self._settle_first(None)
            await self._until_quiet(ended)
        finally:
            # If it did not end by itself it is we who end it, and nobody has to be told.
            ended.cancel()
            self._forget()
            await channel.close()
        if not ended.cancelled():
            await asyncio.sleep(ended.result())

    async def _until_quiet(self, ended: asyncio.Future[float]) -> None:
        """Until it ends, or nothing comes for long: whoever waits in vain, for whatever reason, begins anew."""
        taken = -1
        while not ended.done() and (taken != self._taken or self._unsettled):
            taken = self._taken
            await asyncio.wait({ended}, timeout=QUIET_SECONDS)

    async def _consume(self, channel: Channel) -> None:
        try:
            await channel.call("basic_consume", queue=self.queue, on_message_callback=lambda *_: None)
        except Closed as closed:
            if closed.code == NOT_FOUND and "no queue" in closed.words:
                raise ConfigurationError(
                    f"broker_url: there is no queue {self.queue!r} ({closed.words}); declare it before taking from it"
                ) from closed
            about = f"taking from the queue {self.queue!r}"
            refusal = refused_declaration(self._address, closed, about, self._names)
            raise refusal or Unreachable(closed.words) from closed

    def _remember(self, channel: Channel) -> None:
        self._channel = channel
        self._life = next(self._lives)
        self._oldest = 1
        self._contents = Contents(self._body_bytes_max)
        channel.look(self._take_frame)

    def _forget(self) -> None:
        """Whatever came over the channel comes again."""
        self._channel = None
        self._life = 0
        self._waiting.clear()
        self._unsettled.clear()

    def _take_frame(self, kind: int, payload: bytes) -> bool:
        taken = self._contents.take(kind, payload)
        if isinstance(taken, Delivery):
            if self._channel is not None:
                self._taken += 1
                self._unsettled.add(taken.tag)
                self._waiting.append(self._received(taken))
                self._arrived.set()
            return True
        return taken is True

    def _received(self, delivery: Delivery) -> Received:
        properties = delivery.properties
        return Received(
            queue=self.queue,
            exchange=delivery.exchange,
            routing_key=delivery.routing_key,
            body=delivery.body,
            body_bytes=delivery.body_bytes,
            tag=self._life << _TAG_BITS | delivery.tag,
            is_redelivered=delivery.is_redelivered,
            content_type=properties.content_type,
            type=properties.type,
            message_id=properties.message_id,
            correlation_id=properties.correlation_id,
            timestamp=properties.timestamp,
            headers=properties.headers,
        )

    def _settle_first(self, refusal: ConfigurationError | None) -> bool:
        """Whether somebody waited to hear how the first try went."""
        first = self._first
        if first is None or first.done():
            return False
        if refusal is None:
            first.set_result(None)
        else:
            first.set_exception(refusal)
        return True

    def _settle(self, received: Iterable[Received]) -> list[int]:
        """Those that came over this channel and are still open, in the order in which they came."""
        mine = {one.tag & _TAG for one in received if one.tag >> _TAG_BITS == self._life}
        tags = sorted(mine & self._unsettled)
        self._unsettled.difference_update(tags)
        return tags
