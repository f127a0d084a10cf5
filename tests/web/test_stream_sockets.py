"""A stream over a real socket, to clients that leave, or stay and do not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest_asyncio

from tests.web.streams_support import add_person, show
from tests.web.support import Site, open_site
from timebell.testing.database import TestDatabase
from timebell.web.operation.surface import Surface
from timebell.web.server.listening import Front, Listener
from timebell.web.streams.streams import Pace

LONG = "x" * 40_000


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url) as opened:
        opened.surface.streams.pace = Pace(look_seconds=0.05, send_seconds=0.3)
        yield opened
        opened.surface.stopping.set()


class Door:
    """A server in this process, and the connections that it has."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.listener = Listener(front)
        self.address = ("127.0.0.1", 0)

    @property
    def connections(self) -> int:
        return len(self.listener._server.server_state.connections)


@asynccontextmanager
async def opened_door(site: Site) -> AsyncIterator[Door]:
    front = Front(site.surface.complaints)
    front.open(site.app)
    door = Door(front)
    await door.listener.start(*door.address)
    assert door.listener._socket is not None
    door.address = door.listener._socket.getsockname()
    try:
        yield door
    finally:
        site.surface.stopping.set()
        await front.close(1.0)
        await door.listener.close()


def asking(site: Site, person: UUID) -> bytes:
    lines = [
        "GET /v1/inbox/stream?after=0 HTTP/1.1",
        "Host: bell.test",
        f"Authorization: Bearer {site.keys['read']}",
        f"Timebell-Actor: {person}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def until_gone(door: Door, surface: Surface) -> None:
    """Each look is a turn of the database, so this waits and does not spin."""
    async with asyncio.timeout(20):
        while door.connections or surface.streams.count:
            await surface.tenants.ensure_default()


async def test_who_never_reads_is_cut_off_and_leaves_nothing_behind(site: Site) -> None:
    ada = await add_person(site)
    for _ in range(10):
        await show(site, ada, *[LONG] * 30)
    async with opened_door(site) as door:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, door.address)
            await loop.sock_sendall(client, asking(site, ada))
            head = await asyncio.wait_for(loop.sock_recv(client, 100), 10)
            assert head.startswith(b"HTTP/1.1 200")
            # Closing alone would wait for ever until the rest is sent.
            await until_gone(door, site.surface)


async def test_who_leaves_is_noticed_at_once(site: Site) -> None:
    ada = await add_person(site)
    async with opened_door(site) as door:
        reader, writer = await asyncio.open_connection(*door.address[:2])
        writer.write(asking(site, ada))
        async with asyncio.timeout(10):
            await reader.readuntil(b"id: 0")
        assert (door.connections, site.surface.streams.count) == (1, 1)
        writer.close()
        await until_gone(door, site.surface)


async def test_a_server_that_stops_says_so_and_does_not_wait(site: Site) -> None:
    ada = await add_person(site)
    async with opened_door(site) as door:
        reader, writer = await asyncio.open_connection(*door.address[:2])
        writer.write(asking(site, ada))
        async with asyncio.timeout(10):
            await reader.readuntil(b"id: 0")
            site.surface.stopping.set()
            await door.front.close(5.0)
            told = await reader.readuntil(b"0\r\n\r\n")
        assert b'event: end\ndata: {"reason":"stopping"}' in told
        writer.close()
