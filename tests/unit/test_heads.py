"""Heads have a limit and a deadline. What comes after a head has others."""

from __future__ import annotations

import asyncio

import pytest_asyncio
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from timebell.web.server.heads import BoundedHeads
from timebell.web.server.listening import Listener


class Wire(asyncio.Transport):
    """Keeps what is sent to the client."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        """Everything was sent at once."""

    def resume_reading(self) -> None:
        """Everything was sent at once."""


class Client:
    """One connection to an application that answers with the size of the body."""

    def __init__(self) -> None:
        server = Listener(self._answer)._server
        self.wire = Wire()
        self.protocol = BoundedHeads(config=server.config, server_state=server.server_state, app_state={})
        self.protocol.connection_made(self.wire)
        self._tasks = server.server_state.tasks

    def is_awaited(self) -> bool:
        """Whether the client is cut off unless something comes soon."""
        return self.protocol._deadline is not None

    async def answers(self) -> bytes:
        await asyncio.gather(*self._tasks)
        return self.wire.sent

    @staticmethod
    async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)


@pytest_asyncio.fixture
async def client() -> Client:
    return Client()


async def test_only_a_head_has_to_come_soon(client: Client) -> None:
    assert client.is_awaited()
    client.protocol.data_received(b"GET / HTTP/1.1\r\n")
    assert client.is_awaited()
    client.protocol.data_received(b"\r\n")
    # However long the answer takes, and whenever the next request comes.
    assert not client.is_awaited()
    assert b"0 bytes" in await client.answers()
    assert not client.is_awaited()
    client.protocol.data_received(b"GET /")
    assert client.is_awaited()


async def test_a_body_that_comes_in_one_piece_with_its_head_is_no_head(client: Client) -> None:
    body = b"x" * 200_000
    client.protocol.data_received(b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n\r\n" + body)
    answers = await client.answers()
    assert (answers[:12], answers[-12:]) == (b"HTTP/1.1 200", b"200000 bytes")


async def test_a_head_of_many_small_pieces_has_a_limit(client: Client) -> None:
    client.protocol.data_received(b"GET / HTTP/1.1\r\n")
    for _ in range(70):
        client.protocol.data_received(b"x: " + b"y" * 1_000 + b"\r\n")
    assert b"malformed_http" in client.wire.sent
    assert client.wire.is_closing()
