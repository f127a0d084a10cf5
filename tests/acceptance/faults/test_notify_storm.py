"""Many wake-ups: our own are gathered, and those of a stranger on the same channel do no harm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking
from tests.acceptance.faults.measures import lateness
from tests.acceptance.faults.stage import Stage
from tests.history import load as load_history
from timebell.db.wakeup import WAKEUP

CALLERS = 8
SECONDS = 15.0
NOTICES_A_SECOND = 5_000


@asynccontextmanager
async def counted(stage: Stage) -> AsyncIterator[list[str]]:
    """What is heard on the channel of the wake-ups."""
    heard: list[str] = []
    connection = await asyncpg.connect(stage.owner_url, timeout=10)
    await connection.add_listener(WAKEUP, lambda *notice: heard.append(str(notice[3])))
    try:
        yield heard
    finally:
        await connection.close(timeout=10)


async def call(load: Load, caller: int) -> int:
    """One job after another, each in a transaction of its own and due at once; answers with how many."""
    deadline, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline:
        name = f"single-{caller}-{number}"
        await load.enqueue([Owed(name=name, mode=MODES[number % 3], due_at=datetime.now(UTC))])
        number += 1
    return number


async def storm(stage: Stage) -> int:
    """Five thousand notices a second, sense and nonsense; answers with how many."""
    connection = await asyncpg.connect(stage.owner_url, timeout=10)
    began, sent = time.monotonic(), 0
    try:
        while time.monotonic() < began + SECONDS:
            await connection.execute(
                "SELECT pg_notify($1, CASE WHEN n % 2 = 0 THEN (n % 256) || ':' || n ELSE 'nonsense ' || n END) "
                "FROM generate_series($2::int, $2 + 499) n",
                WAKEUP,
                sent,
            )
            sent += 500
            await asyncio.sleep(max(0.0, began + sent / NOTICES_A_SECOND - time.monotonic()))
    finally:
        await connection.close(timeout=10)
    return sent


@pytest.mark.slow
async def test_our_own_wake_ups_are_gathered(make_stage: MakeStage) -> None:
    stage = make_stage(seed=25)
    async with asking(stage.url, stage.owner_url, stage.history) as load, counted(stage) as heard:
        await stage.start("ada", "bob")
        jobs = sum(await asyncio.gather(*(call(load, caller) for caller in range(CALLERS))))
        await stage.drained()
    late = lateness(load_history(stage.file), "single-")
    stage.note(f"{jobs} jobs, {len(heard)} notices, at most {late[-1]:.3f} s late")
    await stage.verdict(
        *("F25", "many wake-ups", f"{CALLERS} callers, one transaction for each job, {SECONDS:g} s"),
        remark=f"{len(heard):,} notices; p99 {1000 * late[len(late) * 99 // 100]:.0f} ms late",
    )
    assert len(heard) < jobs / 2, "each commit sent a notice of its own"


@pytest.mark.slow
async def test_a_storm_of_foreign_notices(make_stage: MakeStage) -> None:
    stage = make_stage(seed=26)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        sent, jobs = await asyncio.gather(storm(stage), call(load, 0))
        await stage.drained()
    late = lateness(load_history(stage.file), "single-")
    stage.note(f"{jobs} jobs, {sent} foreign notices, at most {late[-1]:.3f} s late")
    figures = await stage.verdict(
        "F25",
        "a storm of foreign notices",
        f"{NOTICES_A_SECOND:,} a second on our channel for {SECONDS:g} s",
        remark=f"p99 {1000 * late[len(late) * 99 // 100]:.0f} ms late",
    )
    assert figures["jobs"] == jobs
    assert sent >= 0.9 * NOTICES_A_SECOND * SECONDS, "it was no storm; nothing is proven"
    assert late[-1] <= 5
