"""The two questions that whoever watches the process may ask, and what becomes of bad ones."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from timebell.errors import PortInUse
from timebell.web.health import HOST, HealthServer

Ask = Callable[[bytes], Awaitable[tuple[int, bytes]]]


class Watched:
    def __init__(self) -> None:
        self.complaints: list[str] = []

    async def ask(self) -> list[str]:
        return self.complaints


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest_asyncio.fixture
async def ask(watched: Watched) -> AsyncIterator[Ask]:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    server = HealthServer(watched.ask)
    await server.start(port)

    async def send(request: bytes) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request)
        writer.write_eof()
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return (int(head.split()[1]), body) if head else (0, b"")

    yield send
    await server.close()


async def test_a_process_that_lives_and_is_ready(ask: Ask) -> None:
    assert await ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (200, b'{"status":"ok"}\n')
    assert await ask(b"GET /readyz?x=1 HTTP/1.1\r\n\r\n") == (200, b'{"status":"ready"}\n')
    assert await ask(b"HEAD /readyz HTTP/1.0\r\n\r\n") == (200, b"")


async def test_a_process_that_is_not_ready_says_why(ask: Ask, watched: Watched) -> None:
    watched.complaints = ["the database does not answer"]
    status, body = await ask(b"GET /readyz HTTP/1.1\r\n\r\n")
    assert status == 503
    assert json.loads(body)["reasons"] == ["the database does not answer"]
    assert (await ask(b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /jobs HTTP/1.1\r\n\r\n", 404),
        (b"POST /readyz HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /readyz SMTP\r\n\r\n", 400),
        (b"GET /readyz HTTP/1.1\r\n", 0),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 0),
    ],
)
async def test_bad_questions(ask: Ask, request_: bytes, status: int) -> None:
    assert (await ask(request_))[0] == status
    assert (await ask(b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200


async def test_a_port_that_is_taken(watched: Watched) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PortInUse, match="--port"):
        await HealthServer(watched.ask).start(taken.getsockname()[1])
