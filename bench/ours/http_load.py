"""Requests over many connections, each sending its next when the last was answered, with as little ado as possible."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import cast

from timebell.errors import TimebellError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_DEADLINE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it is written to the connection."""

    raw: bytes


class _Load:
    """How many are left to send, and to be answered."""

    def __init__(self, request: Request, count: int) -> None:
        self.raw = request.raw
        self.to_send = count
        self.to_answer = count
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self) -> None:
        self.to_answer -= 1
        if self.to_answer == 0 and not self.over.done():
            self.over.set_result(None)

    def failed(self, reason: str) -> None:
        if not self.over.done():
            self.over.set_exception(TimebellError(f"bench: {reason}"))


class _Connection(asyncio.Protocol):
    def __init__(self, load: _Load) -> None:
        self._load = load
        self._read = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is one without being a subclass.
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        if self._load.to_send > 0 and self._transport is not None:
            self._load.to_send -= 1
            self._transport.write(self._load.raw)

    def data_received(self, data: bytes) -> None:
        self._read += data
        end = self._read.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._read, 0, end + 2)
        if length is None or len(self._read) < end + 4 + int(length[1]):
            return
        if not self._read.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            self._load.failed(f"a request was refused: {self._read[:500]!r}")
            return
        self._read = b""
        self._load.answered()
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if self._load.to_answer:
            self._load.failed("a connection was lost")


async def send_all(port: int, request: Request, count: int, connections: int) -> float:
    """The same request so many times; how many seconds that took."""
    load = _Load(request, count)
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
        for _ in range(min(connections, count))
    ]
    try:
        began = time.perf_counter()
        for _, connection in opened:
            connection.send()
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await load.over
        return time.perf_counter() - began
    finally:
        for transport, _ in opened:
            transport.close()
