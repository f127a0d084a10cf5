"""Plan: how many occurrences a second one planner writes, and what the schedules that need nothing cost it."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import orjson

from timebell.bench.bars import beside_bars
from timebell.bench.cost import Cost, Meter
from timebell.bench.ground import Ground, close, throwaway
from timebell.engine.planner.planner import Planner
from timebell.kernel import Timebell
from timebell.rules.localtime import TIMEZONE_VERSION

_ROWS_A_STATEMENT = 100_000
_TICKS_MAX = 1_000_000
_IDLE_TICKS = 20
_PAST = timedelta(seconds=1)

# Daily at any minute of the day in five timezones, for a hundred tenants.
_INSERT = """
    INSERT INTO timebell.schedules (id, tenant, recurrence, timezone, start_local, steps, lead_seconds, payload,
        planned_until, plan_at, timezone_version, created_at, updated_at)
    SELECT timebell.new_id(), 'tenant-' || n % 100, 'FREQ=DAILY',
        (ARRAY['Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Sydney', 'UTC'])[1 + n % 5],
        timestamp '2026-01-01' + (n % 1440) * interval '1 minute', $7::text::jsonb, $8,
        '{"title": "Take the bins out", "kind": "reminder"}', $2, $3::timestamptz + random() * $4::interval,
        $5, $6, $6
    FROM generate_series(1, $1) AS n
"""
_STEP_APART = timedelta(hours=6)


async def plan(*, schedules: int, due: int, steps: int, data: Path | None = None) -> dict[str, Any]:
    """Schedules that need nothing for weeks, then some that have a day to plan, then some that are new."""
    async with throwaway(data) as ground:
        bell = await ground.open()
        try:
            planner = Planner(bell)
            await _add(ground, bell, steps, schedules - due, planned_days=None)
            idle = await _idle_ms(planner)
            await _add(ground, bell, steps, due, planned_days=bell.settings.horizon_days)
            steady, steady_count = await _plan_all(ground, planner, due)
            fresh = max(1, due // bell.settings.horizon_days)
            await _add(ground, bell, steps, fresh, planned_days=0)
            whole, whole_count = await _plan_all(ground, planner, fresh)
        finally:
            await close(bell)
    result = {
        "bench": "plan",
        "schedules": schedules,
        "due": due,
        "steps": steps,
        "claimed": planner.counters.claimed,
        "idle_tick_ms": idle,
        "a_day_each": {"occurrences": steady_count, **steady.per_job(steady_count)},
        "a_horizon_each": {"occurrences": whole_count, **whole.per_job(whole_count)},
    }
    return {**result, "bars": beside_bars(result)}


async def _add(ground: Ground, bell: Timebell, steps: int, count: int, *, planned_days: int | None) -> None:
    """Schedules that are planned for so many days from now and have more to plan; None for such as need nothing."""
    async with bell.database.connection() as session:
        now = await bell.store.read_clock(session)
    horizon, lead = timedelta(days=bell.settings.horizon_days), (steps - 1) * _STEP_APART
    until = now + (horizon if planned_days is None else timedelta(days=planned_days))
    if planned_days:
        until += lead - timedelta(days=1)
    first, spread = (now - _PAST, timedelta(0))
    if planned_days is None:
        first, spread = now + timedelta(days=1), timedelta(days=50)
    stated = [
        {"key": f"step_{n}", "kind": "bench.plain", "offset": -n * _STEP_APART.total_seconds()}
        for n in range(steps)
    ]
    connection = await asyncpg.connect(ground.admin_url)
    try:
        for begin in range(0, count, _ROWS_A_STATEMENT):
            await connection.execute(
                _INSERT,
                min(_ROWS_A_STATEMENT, count - begin),
                until,
                first,
                spread,
                TIMEZONE_VERSION,
                now,
                orjson.dumps(stated).decode(),
                lead.total_seconds(),
            )
        await connection.execute("VACUUM (ANALYZE) timebell.schedules")
    finally:
        await connection.close()


async def _idle_ms(planner: Planner) -> float:
    """What a tick takes that finds nothing to do."""
    began = time.perf_counter()
    for _ in range(_IDLE_TICKS):
        await planner.tick()
    return round((time.perf_counter() - began) / _IDLE_TICKS * 1_000, 2)


async def _plan_all(ground: Ground, planner: Planner, due: int) -> tuple[Cost, int]:
    claimed, planned = planner.counters.claimed, planner.counters.planned
    meter = Meter(ground.server_pid)
    for _ in range(_TICKS_MAX):
        if await planner.tick() > 0:
            break
    cost = meter.read()
    if planner.counters.claimed - claimed < due:
        raise RuntimeError(f"the planner looked at {planner.counters.claimed - claimed} of {due} schedules")
    return cost, planner.counters.planned - planned
