"""A transaction that somebody left open pins every dead row, and the due ones must be found all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Owed, asking
from tests.acceptance.faults.measures import lateness
from tests.history import load as load_history
from timebell.testing.database import TestDatabase

DEAD_ROWS = 30_000
RATE = 50
SECONDS = 60


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncIterator[None]:
    """A report that somebody forgot to close."""
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        seen = await connection.fetchval("SELECT count(*) FROM timebell.jobs")
        yield
        # Asked of the server, which may have ended it: its snapshot still sees none of the jobs.
        assert await connection.fetchval("SELECT count(*) FROM timebell.jobs") == seen
    finally:
        await connection.close(timeout=10)


@pytest.mark.slow
async def test_an_old_snapshot_held_open(make_stage: MakeStage, database_url: TestDatabase) -> None:
    stage = make_stage(seed=24, lease_seconds=10.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada")
        async with held_snapshot(database_url.admin_url):
            now = datetime.now(UTC)
            for first in range(0, DEAD_ROWS, 5_000):
                await load.enqueue(
                    [
                        Owed(name=f"dead-row-{first + number}", mode=MODES[number % 2], due_at=now)
                        for number in range(5_000)
                    ]
                )
            await stage.drained()
            began = datetime.now(UTC)
            for second in range(SECONDS):
                due_at = began + timedelta(seconds=second + 2)
                await load.enqueue(
                    [
                        Owed(
                            name=f"timed-{second}-{number}",
                            mode=MODES[number % 3],
                            due_at=due_at + timedelta(seconds=number / RATE),
                        )
                        for number in range(RATE)
                    ]
                )
                await asyncio.sleep(max(0.0, (due_at - datetime.now(UTC)).total_seconds() - 1))
            await stage.drained()
    late = lateness(load_history(stage.file), "timed-")
    p99 = late[len(late) * 99 // 100]
    stage.note(f"late: p50 {late[len(late) // 2]:.4f} s, p99 {p99:.4f} s, max {late[-1]:.4f} s")
    figures = await stage.verdict(
        "F24",
        "an old snapshot",
        f"held open over {DEAD_ROWS:,} dead rows and {SECONDS} s at {RATE} a second",
        remark=f"p99 {1000 * p99:.0f} ms late",
    )
    assert figures["jobs"] == DEAD_ROWS + RATE * SECONDS
    assert p99 <= 0.25
