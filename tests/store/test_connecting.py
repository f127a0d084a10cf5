"""A URL may name several hosts: one that is silent, away or not the primary must not keep us from the next."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from timebell.db import wakeup
from timebell.db.connecting import connect, urls_of
from timebell.db.pool import Database, Limits
from timebell.errors import DatabaseUnavailable
from timebell.testing.database import TestDatabase


@pytest_asyncio.fixture
async def silent_port() -> AsyncIterator[int]:
    """Accepts connections and never says a word, as a stalled machine does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield int(listener.getsockname()[1])


def with_first_host(url: str, host: str) -> str:
    before, _, after = url.rpartition("@")
    return f"{before}@{host},{after}"


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        (
            "postgresql://u:p@a:1,b:2/d?x=1,2",
            ["postgresql://u:p@a:1/d?x=1,2", "postgresql://u:p@b:2/d?x=1,2"],
        ),
        ("postgresql://[::1]:5432,[::2]/d", ["postgresql://[::1]:5432/d", "postgresql://[::2]/d"]),
        ("postgresql:///d?host=/run", ["postgresql:///d?host=/run"]),
        ("postgres://a", ["postgres://a"]),
        ("host=a dbname=d", ["host=a dbname=d"]),
    ],
)
def test_a_url_for_each_host(url: str, urls: list[str]) -> None:
    assert urls_of(url) == urls


async def test_a_silent_host_does_not_use_up_the_deadline(
    database_url: TestDatabase, silent_port: int
) -> None:
    url = with_first_host(database_url.url, f"127.0.0.1:{silent_port}")
    database = await Database.open(url, limits=Limits(connect=2.0))
    async with database.transaction() as session:
        assert await session.execute("SELECT 1") == "SELECT 1"
    await database.close()


async def test_nobody_answers_within_the_deadline(silent_port: int) -> None:
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await Database.open(
            f"postgresql://u@127.0.0.1:{silent_port},127.0.0.1:{silent_port}/d?sslmode=disable",
            limits=Limits(connect=0.4),
        )
    assert time.monotonic() - began < 2


async def test_the_wrong_kind_of_server_is_said_to_be_unavailable(database_url: TestDatabase) -> None:
    url = f"{database_url.url}&target_session_attrs=standby"
    with pytest.raises(DatabaseUnavailable, match="target_session_attrs"):
        await Database.open(url)
    with pytest.raises(ConnectionError):
        await connect(url, timeout=5)


async def test_a_server_that_became_read_only_is_left(database_url: TestDatabase) -> None:
    """All connections are opened anew, those that nobody has tried to write on included."""
    database = await Database.open(database_url.url, size=3)
    before = await _server_pids(database, 3)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await _write_where_nobody_may(database)
    assert not before & await _server_pids(database, 3)
    await database.close()


async def _server_pids(database: Database, count: int) -> set[int]:
    """Those behind so many connections at once."""
    everybody = asyncio.Barrier(count)

    async def pid() -> int:
        async with database.connection() as session, asyncio.timeout(10):
            await everybody.wait()
            return int(session.connection.get_server_pid())

    return set(await asyncio.gather(*(pid() for _ in range(count))))


async def _write_where_nobody_may(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute("SET LOCAL transaction_read_only = on")
        await session.execute("DELETE FROM timebell.jobs")


async def test_a_statement_that_nobody_answers_costs_its_deadline_once(database_url: TestDatabase) -> None:
    """Nothing is waited for on such a connection, neither a rollback nor a reset."""
    database = await Database.open(database_url.url, limits=Limits(statement=60.0))
    async with database.connection() as session:
        stalled = session.connection._con
    stalled._config = stalled._config._replace(command_timeout=0.2)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await _ask_in_vain(database, stalled)
    assert stalled.is_closed()
    async with database.connection() as session:
        assert await session.execute("SELECT 1") == "SELECT 1"
    assert time.monotonic() - began < 5
    await database.close()


async def _ask_in_vain(database: Database, stalled: Any) -> None:
    async with database.transaction() as session:
        assert session.connection._con is stalled
        stalled._transport.pause_reading()
        await session.execute("SELECT 1")


async def test_a_connection_that_stalled_is_not_listened_to_for_ever(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks open and says nothing; only a question finds out."""
    monkeypatch.setattr(wakeup, "_ANSWER_SECONDS", 0.2)
    database = await Database.open(database_url.url)
    wakeups: Any = wakeup.Wakeups(database)
    await wakeups.listen()
    stalled = wakeups._connection
    await wakeups.listen()
    assert wakeups._connection is stalled, "one that answers is kept"
    stalled._transport.pause_reading()
    await wakeups.listen()
    assert stalled.is_closed()
    assert wakeups.is_listening
    heard = asyncio.Event()
    wakeups.watch(heard.set)
    wakeups.announce()
    async with asyncio.timeout(10):
        await heard.wait()
    await wakeups.close()
    await database.close()
