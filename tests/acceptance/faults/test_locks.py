"""Callers that lock the same things in different orders."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking
from tests.acceptance.faults.stage import Stage
from timebell.testing.database import TestDatabase

CALLERS = 8
ROUNDS = 40


async def call(stage: Stage, load: Load, rounds: list[list[Owed]], caller: int) -> None:
    """The same jobs as every other caller, each transaction in an order of its own; some are cancelled again."""
    for number, jobs in enumerate(rounds):
        mine = stage.chance.sample(jobs, len(jobs))
        await load.enqueue(mine, is_one_by_one=True)
        if (number + caller) % 4 == 0:
            await load.cancel(mine[0])


@pytest.mark.slow
@pytest.mark.req("U-5")
async def test_deadlocks_are_broken_and_tried_again(
    make_stage: MakeStage, database_url: TestDatabase
) -> None:
    """PostgreSQL ends one of the two; that one's transaction has done nothing, and is made again as a whole."""
    admin = await asyncpg.connect(database_url.admin_url, timeout=10)
    await admin.execute(f"ALTER DATABASE {database_url.name} SET deadlock_timeout = '10ms'")
    stage = make_stage(seed=36)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        soon = datetime.now(UTC) + timedelta(seconds=3)
        rounds = [
            [
                Owed(
                    name=f"shared-{number}-{place}",
                    mode=MODES[place % 3],
                    due_at=soon + timedelta(milliseconds=100 * number),
                )
                for place in range(12)
            ]
            for number in range(ROUNDS)
        ]
        await asyncio.gather(*(call(stage, load, rounds, caller) for caller in range(CALLERS)))
        await stage.drained()
    deadlocks = await admin.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = $1", database_url.name
    )
    await admin.close(timeout=10)
    stage.note(f"{deadlocks} deadlocks")
    figures = await stage.verdict(
        *("F35", "deadlocks", f"{CALLERS} callers, the same keys in shuffled order, deadlock_timeout 10 ms"),
        remark=f"{deadlocks} deadlocks",
    )
    assert deadlocks > 0, "nobody met; nothing is proven"
    assert figures["jobs"] >= ROUNDS * 12
