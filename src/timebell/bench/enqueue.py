"""Enqueue: how many jobs a second one process writes in bulk, beside the bare insert of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timebell.bench.cost import Cost, Meter
from timebell.bench.ground import Ground, add_due, add_future, close, throwaway
from timebell.clock import Ids

_CHUNK = 5_000
_WARM_UP_JOBS = 2_000
_RAW = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    SELECT id, 'default', 'default', 'bench.plain', now(), now(), payload::jsonb
    FROM unnest($1::uuid[], $2::text[]) AS j(id, payload)
"""
_PAYLOAD = '{"to": "recipient", "text": "' + "t" * 120 + '", "number": 42, "flags": [true, false]}'


async def enqueue(*, jobs: int, future: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data) as ground:
        await add_future(ground, future)
        await _ours(ground, min(jobs, _WARM_UP_JOBS))
        before = await _raw(ground, jobs)
        ours = await _ours(ground, jobs)
        after = await _raw(ground, jobs)
    raw_per_s = jobs * (1 / before.seconds + 1 / after.seconds) / 2
    return {
        "bench": "enqueue",
        "jobs": jobs,
        "future": future,
        "timebell": ours.per_job(jobs),
        "raw": {
            **before.per_job(jobs),
            "per_s": round(raw_per_s),
            "before": round(jobs / before.seconds),
            "after": round(jobs / after.seconds),
        },
        "ratio": round(jobs / ours.seconds / raw_per_s, 3),
    }


async def _ours(ground: Ground, jobs: int) -> Cost:
    bell = await ground.open()
    try:
        meter = Meter(ground.server_pid)
        await add_due(bell, jobs, "plain")
        return meter.read()
    finally:
        await close(bell)


async def _raw(ground: Ground, jobs: int) -> Cost:
    bell = await ground.open()
    try:
        ids_of = Ids(bell.chance)
        async with bell.database.connection() as session:
            meter = Meter(ground.server_pid)
            for begin in range(0, jobs, _CHUNK):
                ids = [ids_of.new() for _ in range(min(_CHUNK, jobs - begin))]
                await session.connection.execute(_RAW, ids, [_PAYLOAD] * len(ids))
            return meter.read()
    finally:
        await close(bell)
