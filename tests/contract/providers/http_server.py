"""A real HTTPS server, written against the protocol alone, that behaves as a test tells it to.

It reads what arrives as any server would and hands it to the service that a test put behind it; the service's checks
are those of its own documentation.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import trustme

HEAD_BYTES_MAX = 100_000
TRICKLE_SECONDS = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What arrived. Names of headers are in lower case; one that came twice is in `repeated`."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    repeated: frozenset[str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def written(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Some Reason"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode() + self.body


def as_json(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
        body=json.dumps(value).encode(),
    )


Service = Callable[[Request], Response]


class HttpServer:
    """Serves `service` on a port of its own. `manner` is how it answers what the service took."""

    def __init__(self, service: Service, *, trusted: trustme.CA | None = None) -> None:
        self.service = service
        self.manner = "answer"
        self.connections = 0
        self.port = 0
        self._trusted = trusted
        self._server: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{'https' if self._trusted else 'http'}://localhost:{self.port}"

    async def open(self, *, is_trusted: bool = True) -> None:
        """Listen, on the same port as before if there was one."""
        context = None
        if self._trusted is not None:
            issuer = self._trusted if is_trusted else trustme.CA()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            issuer.issue_cert("localhost").configure_cert(context)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for conversation in list(self._conversations):
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        conversation = asyncio.current_task()
        assert conversation is not None
        self._conversations.add(conversation)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._converse(reader, writer):
                    pass
        finally:
            self._conversations.discard(conversation)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether there may be another on the same connection."""
        response = self.service(await _read_request(reader))
        match self.manner:
            case "hang":
                await self._ended.wait()
            case "close":
                return False
            case "trickle":
                await self._trickle(writer, response)
            case "cut":
                writer.write(response.written()[:-1])
                await writer.drain()
                return False
            case _:
                writer.write(response.written())
                await writer.drain()
        return True

    async def _trickle(self, writer: asyncio.StreamWriter, response: Response) -> None:
        for byte in response.written():
            writer.write(bytes([byte]))
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), TRICKLE_SECONDS)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    assert len(head) < HEAD_BYTES_MAX
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    assert version == "HTTP/1.1"
    pairs = [(name.lower(), value.strip()) for name, value in (line.split(":", 1) for line in lines)]
    headers = dict(pairs)
    assert "transfer-encoding" not in headers, "a body whose length is known is sent with its length"
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    names = [name for name, _ in pairs]
    return Request(
        method=method,
        path=url.path,
        query=dict(parse_qsl(url.query)),
        headers=headers,
        repeated=frozenset(name for name in names if names.count(name) > 1),
        body=body,
    )
