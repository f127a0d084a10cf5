"""Enqueue: how many jobs a second one process writes in bulk, beside the bare insert of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from timebell.bench.cost import Cost, Meter, beside_raw
from timebell.bench.ground import CHUNK, PAYLOAD, WARM_UP_JOBS, Ground, add_due, add_future, close, throwaway
from timebell.clock import Ids

_RAW = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    SELECT id, 'default', 'default', 'bench.plain', now(), now(), payload::jsonb
    FROM unnest($1::uuid[], $2::text[]) AS j(id, payload)
"""


async def enqueue(*, jobs: int, future: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data) as ground:
        await add_future(ground, future)
        await _ours(ground, min(jobs, WARM_UP_JOBS))
        before = await _raw(ground, jobs)
        ours = await _ours(ground, jobs)
        after = await _raw(ground, jobs)
    return {
        "bench": "enqueue",
        "jobs": jobs,
        "future": future,
        **beside_raw(ours, before, after, jobs),
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
        ids = Ids(bell.chance).many(jobs)
        payload = orjson.dumps(PAYLOAD).decode()
        async with bell.database.connection() as session:
            meter = Meter(ground.server_pid)
            for begin in range(0, jobs, CHUNK):
                chunk = ids[begin : begin + CHUNK]
                await session.connection.execute(_RAW, chunk, [payload] * len(chunk))
            return meter.read()
    finally:
        await close(bell)
