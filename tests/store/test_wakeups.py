"""Hints after a commit: to whom they go, and that they reach another node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.db.wakeup import Hints, Wakeups
from timebell.kernel import Enqueue, Step, Timebell
from timebell.testing.database import TestDatabase

SOON = timedelta(seconds=2)


class Listener:
    """Keeps the hints that it hears, and says when the first has come."""

    def __init__(self, rest: Hints | None = None) -> None:
        self.heard: dict[int, datetime] = {}
        self.has_heard = asyncio.Event()
        self.rest = rest or {}

    def __call__(self, hints: Hints) -> Hints:
        self.heard.update(hints)
        self.has_heard.set()
        return self.rest


@pytest.fixture
def local(bell: Timebell) -> Listener:
    """The engine of this process, which can use every hint itself."""
    listener = Listener()
    bell.wakeups.subscribe(listener)
    return listener


@pytest_asyncio.fixture
async def elsewhere(database_url: TestDatabase) -> AsyncIterator[Listener]:
    """Another node: a pool of its own, and a connection that listens."""
    database = await Database.open(database_url.url)
    wakeups = Wakeups(database)
    listener = Listener()
    wakeups.subscribe(listener)
    await wakeups.listen()
    yield listener
    await wakeups.close()
    await database.close()


async def test_what_is_to_be_told_is_told_after_the_commit_and_once(bell: Timebell) -> None:
    told: list[str] = []
    async with bell.transaction() as tx:
        tx.after_commit += [lambda: told.append("first"), lambda: told.append("second")]
        assert told == []
    assert told == ["first", "second"]
    bell.wake(tx)
    assert told == ["first", "second"]

    async def failing() -> None:
        async with bell.transaction() as tx:
            tx.after_commit.append(lambda: told.append("never"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    assert told == ["first", "second"]


async def test_listening_twice_is_listening_once(database: Database, tables: Tables) -> None:
    connected = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    before = await tables.value(connected)
    wakeups = Wakeups(database)
    states = [wakeups.is_listening]
    for _ in range(2):
        await wakeups.listen()
        states.append(wakeups.is_listening)
    assert await tables.value(connected) == before + 1
    await wakeups.close()
    assert [*states, wakeups.is_listening] == [False, True, True, False]


async def test_a_listen_that_failed_leaves_no_connection_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again every few seconds, for as long as it fails."""
    opened: list[asyncpg.Connection] = []

    async def refuses(url: str | None = None) -> asyncpg.Connection:
        connection = await Database.dedicated(database, url)
        # A statement that failed before leaves no room for another.
        await connection.execute("BEGIN")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute("SELECT 1 / 0")
        opened.append(connection)
        return connection

    monkeypatch.setattr(database, "dedicated", refuses)
    wakeups = Wakeups(database)
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await wakeups.listen()
    assert [connection.is_closed() for connection in opened] == [True]
    assert not wakeups.is_listening


async def test_only_what_is_due_soon_wakes_anybody(bell: Timebell, tables: Tables, local: Listener) -> None:
    async with bell.transaction() as tx:
        now = await bell.enqueue(tx, "office.ring", subject="now")
        soon = await bell.enqueue(tx, "office.ring", subject="soon", delay=SOON)
        await bell.enqueue(tx, "office.ring", subject="later", delay=SOON + timedelta(microseconds=1))
        await bell.set_agenda(
            tx,
            subject="agenda",
            anchor=NOW,
            steps=[Step(key=str(hours), kind="office.ring", offset=hours * HOUR) for hours in (0, 1)],
        )
        assert local.heard == {}, "not before the commit"
    slots = {row["subject"]: row["slot"] for row in await tables.jobs()}
    assert local.heard == {slots["now"]: NOW, slots["soon"]: NOW + SOON, slots["agenda"]: NOW}
    assert now.id != soon.id


async def test_a_moved_a_replaced_and_a_revived_job_wake_too(
    bell: Timebell, tables: Tables, local: Listener
) -> None:
    steps = [Step(key="k", kind="office.ring", offset=0 * HOUR)]
    async with bell.transaction() as tx:
        await bell.set_agenda(tx, subject="moved", anchor=NOW + HOUR, steps=steps)
        await bell.enqueue(tx, "office.ring", subject="replaced", delay=HOUR, key="k")
    await tables.bury(UUID(int=1), subject="revived")
    assert local.heard == {}
    async with bell.transaction() as tx:
        await bell.set_agenda(tx, subject="moved", anchor=NOW, steps=steps)
        await bell.enqueue(tx, "office.ring", subject="replaced", key="k", on_conflict="replace")
        await bell.revive(tx, kind="office.ring")
    assert local.heard == {row["slot"]: NOW for row in await tables.jobs()}
    assert len(local.heard) == 3


async def test_a_rollback_wakes_nobody(bell: Timebell, local: Listener) -> None:
    async def change_our_mind() -> None:
        async with bell.transaction() as tx:
            await bell.enqueue(tx, "office.ring")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await change_our_mind()
    assert local.heard == {}


async def test_a_hint_reaches_another_node(bell: Timebell, tables: Tables, elsewhere: Listener) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", subject="now")
    async with asyncio.timeout(10):
        await elsewhere.has_heard.wait()
    (row,) = await tables.jobs()
    assert elsewhere.heard == {row["slot"]: NOW}


async def test_what_this_process_can_use_is_not_sent_to_others(
    bell: Timebell, clock: StillClock, local: Listener, elsewhere: Listener
) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", subject="ours")
    bell.wakeups.unsubscribe(local)
    clock.now = NOW + HOUR
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", subject="theirs")
    async with asyncio.timeout(10):
        await elsewhere.has_heard.wait()
    assert list(local.heard.values()) == [NOW]
    assert list(elsewhere.heard.values()) == [NOW + HOUR]


async def test_many_slots_become_one_hint_for_all(bell: Timebell, elsewhere: Listener) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue_many(tx, [Enqueue(kind="office.ring") for _ in range(500)])
    async with asyncio.timeout(10):
        await elsewhere.has_heard.wait()
    assert elsewhere.heard == {-1: NOW}


async def test_a_server_that_is_gone_does_not_fail_the_caller(
    bell: Timebell, database: Database, tables: Tables
) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", delay=HOUR)
    await database.close()
    bell.wakeups.hint([(1, NOW)])
    await bell.wakeups.close()


class _Broken:
    """A connection that broke in the middle of something."""

    def __init__(self) -> None:
        self.is_terminated = False

    def is_closed(self) -> bool:
        return False

    async def fetchval(self, *_: object, **__: object) -> object:
        raise asyncpg.InternalClientError("got result for unknown protocol state 3")

    def terminate(self) -> None:
        self.is_terminated = True


async def test_a_connection_that_broke_in_the_middle_is_listened_on_anew(database_url: TestDatabase) -> None:
    database = await Database.open(database_url.url, size=2)
    wakeups = Wakeups(database)
    broken: Any = _Broken()
    wakeups._connection = broken
    try:
        await wakeups.listen()
        assert broken.is_terminated
        assert wakeups.is_listening
        assert wakeups._connection is not broken
    finally:
        await wakeups.close()
        await database.close()
