"""One connection to a broker: pika behind a face that has types. Nothing else imports it.

Pika does the handshake, the heartbeats and all that is asked and answered. What is written and read for each message
goes past it: it is handed over and looked at as bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import Any, Final

from pika import ConnectionParameters, PlainCredentials, SSLOptions, exceptions
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.frame import decode_frame

from timebell.brokers.rabbitmq.address import Address, Host
from timebell.brokers.rabbitmq.frames import FRAME_END, FRAME_OVERHEAD
from timebell.brokers.rabbitmq.refusals import Closed, Unreachable, refused_certificate, refused_login
from timebell.version import __version__

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 2.0

# A part of a host's addresses may lead nowhere, and another be tried within the time for all.
_SOCKET_SECONDS: Final = 2.0
_READ_BYTES: Final = 64 * 1024
# What was sent only in part is copied for each part, so one write is not much more than a socket takes.
_WRITE_BYTES: Final = 256 * 1024

# To linger, for no time at all.
_RESET: Final = Struct("ii").pack(1, 0)

_frame_head: Final = Struct(">BHI").unpack_from

# Looks at a frame of its channel, by its kind; False leaves it to pika.
TakeFrame = Callable[[int, bytes], bool]


class _Connection(AsyncioConnection):  # type: ignore[misc]
    """Pika's, that lets somebody else look at the frames first."""

    def __init__(self, parameters: Any, **callbacks: Any) -> None:
        self._frame_buffer = b""
        self.takers: dict[int, TakeFrame] = {}
        self.told: Closed | None = None
        super().__init__(parameters, custom_ioloop=asyncio.get_running_loop(), **callbacks)

    def give_up(self, reason: str) -> None:
        """End it without a word to the other side, and have nothing arrive there of what is still on its way: the
        system would see to it that all is delivered, unless it is told to reset the connection."""
        if not self.is_closed and not (self._opened and self._transport is None):
            if self._transport is not None:
                with suppress(OSError):
                    self._transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._terminate_stream(exceptions.AMQPConnectionError(reason))

    def emit(self, data: bytes, frames: int) -> None:
        self.bytes_sent += len(data)
        self.frames_sent += frames
        if self._transport is not None:
            self._adapter_emit_data(data)

    def _proto_connection_made(self, transport: Any) -> None:
        transport._MAX_RECV_BYTES = _READ_BYTES
        super()._proto_connection_made(transport)

    def _terminate_stream(self, error: Exception | None) -> None:
        # Before a connection is open pika tells only what it guesses the reason to be.
        if isinstance(error, exceptions.ConnectionClosedByBroker):
            self.told = Closed(error.reply_code, error.reply_text)
        super()._terminate_stream(error)

    def _on_data_available(self, data: bytes) -> None:
        if not self._opened:
            super()._on_data_available(data)
            return
        if self._frame_buffer:
            data = self._frame_buffer + data
        position, size = 0, len(data)
        while size - position >= FRAME_OVERHEAD:
            kind, number, length = _frame_head(data, position)
            end = position + length + FRAME_OVERHEAD
            if length + FRAME_OVERHEAD > self.params.frame_max:
                raise exceptions.InvalidFrameError("a frame is larger than was agreed")
            if end > size:
                break
            if data[end - 1] != FRAME_END:
                raise exceptions.InvalidFrameError("a frame does not end where it should")
            taker = self.takers.get(number)
            if taker is not None and taker(kind, data[position + 7 : end - 1]):
                self.frames_received += 1
            else:
                self._process_frame(decode_frame(data[position:end])[1])
            position = end
        self._frame_buffer = data[position:]
        self.bytes_received += position


class Channel:
    """One channel of a connection. What is written waits for the end of the turn, and goes out with all the rest."""

    def __init__(self, wire: Wire, inner: Any, on_closed: Callable[[Closed | Unreachable], None]) -> None:
        self._wire = wire
        self._inner = inner
        self._on_closed = on_closed
        self._asked: asyncio.Future[None] | None = None
        self._why: Closed | Unreachable | None = None
        self.number: int = inner.channel_number
        self.pending: list[bytes] = []
        self.pending_frames = 0
        inner.add_on_close_callback(self._closed)

    @property
    def is_open(self) -> bool:
        return self._why is None

    @property
    def frame_bytes_max(self) -> int:
        return self._wire.frame_bytes_max

    def look(self, taker: TakeFrame) -> None:
        """Have the frames of this channel shown to somebody before pika."""
        self._wire.takers[self.number] = taker

    def watch_cancel(self, cancelled: Callable[[], None]) -> None:
        """Have it called when the broker ends what we take by itself."""
        self._inner.add_on_cancel_callback(lambda _frame: cancelled())

    def write(self, data: bytes, frames: int = 1) -> None:
        if self._why is None:
            if not self.pending:
                self._wire.flush_soon(self)
            self.pending.append(data)
            self.pending_frames += frames

    async def call(self, method: str, **arguments: object) -> None:
        """Ask for something by the name that pika has for it, and wait for the answer."""
        if self._why is not None:
            raise self._why
        await self._answered(partial(getattr(self._inner, method), callback=self.on_answer, **arguments))

    async def opened(self) -> None:
        await self._answered(lambda: None)

    def on_answer(self, _said: object) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    async def close(self) -> None:
        """What was written before goes out before. What was not acknowledged on it goes to others."""
        if self._why is None:
            self._wire.flush(self)
            # From here on nothing may be written: the broker ends a connection for the first word to a closed channel.
            self._why = Unreachable("it was closed")
            with suppress(Closed, Unreachable):
                await self._answered(self._inner.close, CLOSE_SECONDS)

    async def _answered(self, ask: Callable[[], object], seconds: float = ANSWER_SECONDS) -> None:
        self._asked = asyncio.get_running_loop().create_future()
        try:
            ask()
            async with asyncio.timeout(seconds):
                await self._asked
        except TimeoutError:
            raise Unreachable(f"no answer within {seconds:.0f} s") from None
        except exceptions.AMQPError as error:
            raise self._why or Unreachable(why(error)) from error
        finally:
            self._asked = None

    def _closed(self, _inner: object, error: BaseException) -> None:
        self._why = (
            Closed(error.reply_code, error.reply_text)
            if isinstance(error, exceptions.ChannelClosedByBroker)
            else Unreachable(why(error))
        )
        self.pending = []
        self.pending_frames = 0
        self._wire.takers.pop(self.number, None)
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(self._why)
        self._on_closed(self._why)


class Wire:
    """One connection that is open, until `lost` says why it is not any more."""

    def __init__(self, inner: _Connection, host: Host, lost: asyncio.Future[str]) -> None:
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._dirty: list[Channel] = []
        self.host = host
        self.lost = lost
        self.takers = inner.takers
        self.frame_bytes_max: int = inner.params.frame_max

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    @property
    def received_bytes(self) -> int:
        """All that ever came."""
        return int(self._inner.bytes_received)

    @property
    def silence_seconds(self) -> float:
        """For how long a broker that has nothing to say may give no sign of life: it beats twice as often as agreed."""
        return float(self._inner.params.heartbeat) / 2

    async def channel(self, on_closed: Callable[[Closed | Unreachable], None] = lambda _why: None) -> Channel:
        """A new one. Whoever asks is told when it is closed, by whomever."""
        try:
            inner = self._inner.channel(on_open_callback=lambda said: channel.on_answer(said))
        except exceptions.AMQPError as error:
            raise Unreachable(why(error)) from error
        channel: Channel = Channel(self, inner, on_closed)
        await channel.opened()
        return channel

    def flush_soon(self, channel: Channel) -> None:
        if not self._dirty:
            self._loop.call_soon(self._flush_all)
        self._dirty.append(channel)

    def flush(self, channel: Channel) -> None:
        """In writes of a bounded size; each is of whole frames."""
        pieces, channel.pending = channel.pending, []
        frames, channel.pending_frames = channel.pending_frames, 0
        start = size = 0
        for end, piece in enumerate(pieces, start=1):
            size += len(piece)
            if size >= _WRITE_BYTES or end == len(pieces):
                self._inner.emit(b"".join(pieces[start:end]), frames)
                start, size, frames = end, 0, 0

    def give_up(self, reason: str) -> None:
        self._inner.give_up(reason)

    async def close(self) -> None:
        """In order, or else without it."""
        if self.is_open:
            self._flush_all()
            try:
                self._inner.close()
            except exceptions.AMQPError:
                self._inner.give_up("closed")
            await asyncio.wait({self.lost}, timeout=CLOSE_SECONDS)
        if self.is_open:
            self._inner.give_up("closed")
            await asyncio.wait({self.lost}, timeout=CLOSE_SECONDS)

    def _flush_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for channel in dirty:
            self.flush(channel)


async def connect(
    address: Address, host: Host, name: str, on_blocked: Callable[[str | None], None] = lambda _why: None
) -> Wire:
    """A connection to this node; or `Unreachable`, or a `ConfigurationError` where it refuses us for good.

    `on_blocked` hears why the broker takes nothing for the time being, and None when it does again.
    """
    _quieten()
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[None] = loop.create_future()
    lost: asyncio.Future[str] = loop.create_future()

    def on_open(_inner: object) -> None:
        if not opened.done():
            opened.set_result(None)

    def on_open_error(_inner: object, error: BaseException) -> None:
        _end(lost, why(error))
        if not opened.done():
            opened.set_exception(_unreached(address, inner.told, error))

    inner = _Connection(
        _parameters(address, host, name),
        on_open_callback=on_open,
        on_open_error_callback=on_open_error,
        on_close_callback=lambda _inner, error: _end(lost, why(error)),
    )
    inner.add_on_connection_blocked_callback(lambda _inner, said: on_blocked(said.method.reason or "blocked"))
    inner.add_on_connection_unblocked_callback(lambda _inner, _said: on_blocked(None))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await opened
    except BaseException as error:
        inner.give_up("not wanted any more")
        await asyncio.wait({lost}, timeout=CLOSE_SECONDS)
        if opened.done() and not opened.cancelled():
            opened.exception()
        if isinstance(error, TimeoutError):
            raise Unreachable(f"no answer within {CONNECT_SECONDS:.0f} s") from None
        raise
    return Wire(inner, host, lost)


def _end(lost: asyncio.Future[str], reason: str) -> None:
    if not lost.done():
        lost.set_result(reason)


def _parameters(address: Address, host: Host, name: str) -> Any:
    return ConnectionParameters(
        host=host.name,
        port=host.port,
        virtual_host=address.vhost,
        credentials=PlainCredentials(address.user, address.password),
        heartbeat=address.heartbeat_seconds,
        connection_attempts=1,
        retry_delay=0,
        socket_timeout=_SOCKET_SECONDS,
        stack_timeout=CONNECT_SECONDS,
        ssl_options=None if address.tls is None else SSLOptions(address.tls, host.name),
        client_properties={
            "product": "Timebell",
            "version": __version__,
            "information": "",
            "connection_name": f"timebell {name} {socket.gethostname()}:{os.getpid()}",
        },
    )


def _unreached(address: Address, told: Closed | None, error: BaseException) -> Exception:
    refusal = None if told is None else refused_login(address, told)
    if refusal is not None:
        return refusal
    root = _root(error)
    if isinstance(root, ssl.SSLError) and not isinstance(root, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return refused_certificate(root)
    if isinstance(root, exceptions.AuthenticationError):
        return Unreachable("it does not let anybody in by user and password")
    return Unreachable(why(error) if told is None else told.words)


def why(error: BaseException) -> str:
    """In a few words, whatever pika wrapped around it."""
    root = _root(error)
    if isinstance(root, exceptions.ConnectionClosedByBroker | exceptions.ChannelClosedByBroker):
        return Closed(root.reply_code, root.reply_text).words
    if isinstance(root, OSError) and root.strerror:
        return root.strerror
    known = next((words for kind, words in _WORDS.items() if isinstance(root, kind)), None)
    return known or str(root)[:300] or type(root).__name__


_WORDS: Final[dict[type[BaseException], str]] = {
    exceptions.IncompatibleProtocolError: "it does not speak AMQP 0-9-1",
    exceptions.ProbableAuthenticationError: "the connection was lost while signing in",
    exceptions.ProbableAccessDeniedError: "the connection was lost while the virtual host was opened",
    exceptions.StreamLostError: "the connection was lost",
    exceptions.AMQPHeartbeatTimeout: "nothing came for too long",
    exceptions.ConnectionClosedByClient: "it was closed",
    exceptions.ChannelClosedByClient: "it was closed",
    TimeoutError: "no answer in time",
}


def _root(error: BaseException) -> BaseException:
    for _ in range(10):
        several = getattr(error, "exceptions", None)
        inside = several[-1] if several else getattr(error, "exception", None)
        if inside is None and error.args and isinstance(error.args[0], BaseException):
            inside = error.args[0]
        if not isinstance(inside, BaseException):
            break
        error = inside
    return error


def _quieten() -> None:
    """Pika writes errors and tracebacks for each connection that fails, which we tell in a line. Whoever wants them all
    the same sets a level of its own."""
    logger = logging.getLogger("pika")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
