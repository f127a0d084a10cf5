"""Enqueue: how many jobs a second one process writes in bulk, beside the bare insert of the same rows."""

from __future__ import annotations

import time
from typing import Any

from timebell.bench.ground import Ground, add_due, add_future, close, throwaway
from timebell.clock import Ids

_CHUNK = 5_000
_RAW = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    SELECT id, 'default', 'default', 'bench.plain', now(), now(), payload::jsonb
    FROM unnest($1::uuid[], $2::text[]) AS j(id, payload)
"""
_PAYLOAD = '{"to": "recipient", "text": "' + "t" * 120 + '", "number": 42, "flags": [true, false]}'


async def enqueue(*, jobs: int, future: int) -> dict[str, Any]:
    async with throwaway() as ground:
        await add_future(ground, future)
        before = await _raw(ground, jobs)
        ours = await _ours(ground, jobs)
        after = await _raw(ground, jobs)
    raw = (before + after) / 2
    return {
        "bench": "enqueue",
        "jobs": jobs,
        "future": future,
        "timebell": {"per_s": round(ours)},
        "raw": {"per_s": round(raw), "before": round(before), "after": round(after)},
        "ratio": round(ours / raw, 3),
    }


async def _ours(ground: Ground, jobs: int) -> float:
    bell = await ground.open()
    try:
        began = time.perf_counter()
        await add_due(bell, jobs, "plain")
        return jobs / (time.perf_counter() - began)
    finally:
        await close(bell)


async def _raw(ground: Ground, jobs: int) -> float:
    bell = await ground.open()
    try:
        ids_of = Ids(bell.chance)
        async with bell.database.connection() as session:
            began = time.perf_counter()
            for begin in range(0, jobs, _CHUNK):
                ids = [ids_of.new() for _ in range(min(_CHUNK, jobs - begin))]
                await session.connection.execute(_RAW, ids, [_PAYLOAD] * len(ids))
            return jobs / (time.perf_counter() - began)
    finally:
        await close(bell)
