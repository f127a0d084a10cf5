"""Migrators among others: taking turns, giving way to a busy table, and what ends a wait."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.migration.conftest import Connect
from tests.migration.made_up import EVERYTHING_MADE, FIRST, LEDGER_ROWS, ONE, THREE, TWO, MakeSlice
from timebell.clock import SystemClock
from timebell.db.migrate import MIGRATORS_LOCK, Patience, migrate
from timebell.errors import DatabaseUnavailable, MigrationError
from timebell.testing.database import TestDatabase

QUICK = Patience(turn_seconds=0.05, lock_seconds=0.05, pause_seconds=0.0, attempts=3, statement_seconds=20.0)


class PausingClock(SystemClock):
    """Counts the pauses instead of waiting."""

    def __init__(self) -> None:
        self.pauses = 0

    async def sleep(self, seconds: float) -> None:
        self.pauses += 1


async def test_two_migrators_at_once_share_the_work(
    empty_database: TestDatabase, connect: Connect, make_slice: MakeSlice
) -> None:
    demo = make_slice(THREE)
    gate = await connect(empty_database.owner_url)
    migrators = [await connect(empty_database.owner_url) for _ in range(2)]
    async with gate.transaction():
        await gate.execute("SELECT pg_advisory_xact_lock($1)", MIGRATORS_LOCK)
        running = [asyncio.create_task(migrate(one, [demo])) for one in migrators]
        await _until_waiting(gate, 2)
    first, second = await asyncio.gather(*running)
    assert sorted(one.number for one in first + second) == [1, 2, 3]
    assert [row["number"] for row in await gate.fetch(LEDGER_ROWS)] == [1, 2, 3]


async def test_the_turn_is_not_waited_for_without_end(
    empty_database: TestDatabase, owner: asyncpg.Connection, connect: Connect, make_slice: MakeSlice
) -> None:
    other = await connect(empty_database.owner_url)
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", MIGRATORS_LOCK)
        with pytest.raises(MigrationError, match=r"Another migrator was still at work after 0\.05 s"):
            await migrate(owner, [make_slice(ONE)], patience=QUICK)
    assert len(await migrate(owner, [make_slice(ONE)], patience=QUICK)) == 1


async def test_the_migrator_who_waited_notices_other_content(
    empty_database: TestDatabase, owner: asyncpg.Connection, connect: Connect, make_slice: MakeSlice
) -> None:
    mine = make_slice({"0001_expand_first.sql": FIRST + "SELECT 1;\n"})
    gate = await connect(empty_database.owner_url)
    async with gate.transaction():
        await gate.execute("SELECT pg_advisory_xact_lock($1)", MIGRATORS_LOCK)
        theirs = asyncio.create_task(migrate(await connect(empty_database.owner_url), [make_slice(ONE)]))
        await _until_waiting(gate, 1)
        ours = asyncio.create_task(migrate(owner, [mine]))
        await _until_waiting(gate, 2)
    assert len(await theirs) == 1
    with pytest.raises(MigrationError, match="was changed after"):
        await ours


async def _until_waiting(connection: asyncpg.Connection, count: int) -> None:
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = " + (
        "(SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    for _ in range(500):
        if await connection.fetchval(waiting) == count:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"{count} migrators should wait for their turn")


async def test_a_busy_table_is_tried_again(
    empty_database: TestDatabase, owner: asyncpg.Connection, connect: Connect, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(ONE)])
    reader = await connect(empty_database.owner_url)
    reading = reader.transaction()
    await reading.start()
    await reader.execute("SELECT * FROM demo.first")

    class EndsReading(PausingClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if self.pauses == 2:
                await reading.rollback()

    clock = EndsReading()
    assert [one.number for one in await migrate(owner, [make_slice(TWO)], patience=QUICK, clock=clock)] == [2]
    assert clock.pauses == 2


async def test_a_table_that_stays_busy_ends_in_a_clear_refusal(
    empty_database: TestDatabase, owner: asyncpg.Connection, connect: Connect, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(ONE)])
    reader = await connect(empty_database.owner_url)
    clock = PausingClock()
    async with reader.transaction():
        await reader.execute("SELECT * FROM demo.first")
        with pytest.raises(
            MigrationError, match=r"demo/0002_expand_note\.sql did not get its locks in 3 tries"
        ):
            await migrate(owner, [make_slice(TWO)], patience=QUICK, clock=clock)
        assert clock.pauses == 2
        # Nobody is held up afterwards: the migrator has left the queue for the table.
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'demo.first'::regclass"
        assert await reader.fetchval(waiting) == 0
    assert [row["number"] for row in await owner.fetch(LEDGER_ROWS)] == [1]


async def test_a_file_waits_for_locks_as_long_as_patience_says(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    shown = """-- phase: expand
        CREATE TABLE demo.shown AS
        SELECT name, current_setting(name) AS value
        FROM unnest('{lock_timeout,statement_timeout}'::text[]) name;
    """
    await migrate(owner, [make_slice({"0001_expand_shown.sql": shown})])
    rows = await owner.fetch("SELECT * FROM demo.shown")
    assert {row["name"]: row["value"] for row in rows} == {"lock_timeout": "2s", "statement_timeout": "1h"}


async def test_a_file_may_take_longer_than_other_commands_of_the_connection(
    empty_database: TestDatabase, make_slice: MakeSlice
) -> None:
    slow = make_slice({"0001_expand_slow.sql": "-- phase: expand\nSELECT pg_sleep(1.3);\n"})
    hurried = await asyncpg.connect(empty_database.owner_url, command_timeout=1.0)
    try:
        assert len(await migrate(hurried, [slow])) == 1
    finally:
        await hurried.close(timeout=10)


async def test_a_file_that_takes_too_long_is_broken_off(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    patience = Patience(statement_seconds=0.05)
    with pytest.raises(MigrationError, match=r"took longer than 0\.05 s|57014"):
        await migrate(
            owner,
            [make_slice({"0001_expand_x.sql": "-- phase: expand\nSELECT pg_sleep(20);\n"})],
            patience=patience,
        )
    assert await owner.fetchval(EVERYTHING_MADE) == []


async def test_a_lost_connection_is_told_as_such(
    empty_database: TestDatabase, owner: asyncpg.Connection, connect: Connect, make_slice: MakeSlice
) -> None:
    ends_itself = (
        "-- phase: expand\nCREATE TABLE demo.x (id int);\nSELECT pg_terminate_backend(pg_backend_pid());\n"
    )
    with pytest.raises(DatabaseUnavailable, match=r"administrator command.*wholly or not at all"):
        await migrate(owner, [make_slice({"0001_expand_x.sql": ends_itself})])
    again = await connect(empty_database.owner_url)
    assert await again.fetchval(EVERYTHING_MADE) == []
