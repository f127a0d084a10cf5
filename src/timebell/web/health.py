"""`/healthz` and `/readyz` for whoever watches the process, on plain asyncio streams and the loopback address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

import orjson

from timebell.errors import PortInUse

HOST = "127.0.0.1"
_HEAD_BYTES_MAX = 8_192
_REQUEST_SECONDS = 5.0
_CONNECTIONS_MAX = 50

Complaints = Callable[[], Awaitable[Sequence[str]]]


class HealthServer:
    """Answers whether the process lives, and whether it does its work: `complaints` says what keeps it from it."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self._server: asyncio.Server | None = None
        self._open_count = 0

    async def start(self, port: int) -> None:
        try:
            self._server = await asyncio.start_server(self._serve, HOST, port, limit=_HEAD_BYTES_MAX)
        except OSError as error:
            raise PortInUse(
                f"port {port} on {HOST} cannot be had ({os.strerror(error.errno or 0)}); "
                "stop what uses it, or choose another with --port"
            ) from error

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open_count += 1
        try:
            if self._open_count <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Whoever asks badly, slowly or not at all gets no answer and costs nothing more.
            pass
        finally:
            self._open_count -= 1
            with suppress(OSError):
                writer.close()

    async def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _reply(HTTPStatus.BAD_REQUEST, {"status": "not understood"})
        method, path = words[0], words[1].split(b"?")[0]
        if path not in (b"/healthz", b"/readyz"):
            return _reply(HTTPStatus.NOT_FOUND, {"status": "not found"})
        if method not in (b"GET", b"HEAD"):
            return _reply(
                HTTPStatus.METHOD_NOT_ALLOWED, {"status": "only GET is answered"}, allow="GET, HEAD"
            )
        with_body = method == b"GET"
        if path == b"/healthz":
            return _reply(HTTPStatus.OK, {"status": "ok"}, with_body=with_body)
        reasons = list(await self._complaints())
        if reasons:
            content: dict[str, object] = {"status": "not ready", "reasons": reasons}
            return _reply(HTTPStatus.SERVICE_UNAVAILABLE, content, with_body=with_body)
        return _reply(HTTPStatus.OK, {"status": "ready"}, with_body=with_body)


def _reply(
    status: HTTPStatus, content: dict[str, object], *, with_body: bool = True, allow: str | None = None
) -> bytes:
    body = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "connection: close",
        *([f"allow: {allow}"] if allow else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body if with_body else b"")
