"""HTTP: how many jobs a second are written by requests, beside the same insert in plain FastAPI and asyncpg.

Both servers are processes of their own, asked over 64 connections by this one, which takes its share of the processors.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any, Final

from bench.ours.http_load import send_all
from bench.ours.serving import OURS, measured, post, server, settings_of
from timebell.bench.bars import beside_bars
from timebell.bench.cost import Cost, mean_of
from timebell.bench.ground import NO_OPS, PAYLOAD, Ground, throwaway

# What the server that is measured loads, by the name of this module.
APP: Final = NO_OPS
BULK: Final = 100
_BULK_CONNECTIONS: Final = 8
_PLAIN: Final = (sys.executable, "-m", "bench.ours.http_plain")
_WARM_UP: Final = 500
# Due far ahead, so that nobody would pay it meanwhile.
_JOB: Final = {"kind": "bench.plain", "payload": PAYLOAD, "delay": "P365D"}


async def http(*, requests: int, connections: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data) as ground:
        before = await _plain(ground, requests, connections)
        key = secrets.token_hex(16)
        headers = {"authorization": f"Bearer {key}"}
        async with server(OURS, settings_of(ground, key, __name__), "/readyz") as served:
            single = post(served.port, "/v1/jobs", _JOB, headers)
            await send_all(served.port, single, min(requests, _WARM_UP), connections)
            ours = await measured(ground, served, single, requests, connections)
            bulk = post(served.port, "/v1/jobs/bulk", {"jobs": [_JOB] * BULK}, headers)
            bulks = max(1, requests // BULK * 4)
            await send_all(served.port, bulk, min(bulks, 20), _BULK_CONNECTIONS)
            many = await measured(ground, served, bulk, bulks, _BULK_CONNECTIONS)
        after = await _plain(ground, requests, connections)
    plain = mean_of(before, after)
    figures = many.per_job(bulks * BULK)
    result = {
        "bench": "http",
        "requests": requests,
        "connections": connections,
        "timebell": ours.per_job(requests),
        "plain": {
            **plain.per_job(requests),
            "before": round(requests / before.seconds),
            "after": round(requests / after.seconds),
        },
        "ratio": round(plain.seconds / ours.seconds, 3),
        "processor_ratio": _processor_ratio(plain, ours),
        "bulk": {"size": BULK, "requests": bulks, "jobs_per_s": figures.pop("per_s"), **figures},
    }
    return {**result, "bars": beside_bars(result)}


def _processor_ratio(plain: Cost, ours: Cost) -> float | None:
    theirs, own = plain.processor_seconds, ours.processor_seconds
    return None if theirs is None or not own else round(theirs / own, 3)


async def _plain(ground: Ground, requests: int, connections: int) -> Cost:
    async with server(_PLAIN, {"DATABASE_URL": ground.url}, "/healthz") as served:
        request = post(served.port, "/jobs", _JOB, {})
        await send_all(served.port, request, min(requests, _WARM_UP), connections)
        return await measured(ground, served, request, requests, connections)
