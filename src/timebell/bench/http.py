"""HTTP: how many jobs a second are written by requests, beside the same insert in plain FastAPI and asyncpg.

Both servers are processes of their own, asked over 64 connections by this one, which takes its share of the processors.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any, Final

from timebell.bench.ground import NO_OPS, PAYLOAD, Ground, throwaway
from timebell.bench.http_load import send_all
from timebell.bench.serving import OURS, post, server, settings_of

# What the server that is measured loads, by the name of this module.
APP: Final = NO_OPS
BULK: Final = 100
_BULK_CONNECTIONS: Final = 8
_PLAIN: Final = (sys.executable, "-m", "timebell.bench.http_plain")
_WARM_UP: Final = 500
# Due far ahead, so that nobody would pay it meanwhile.
_JOB: Final = {"kind": "bench.plain", "payload": PAYLOAD, "delay": "P365D"}


async def http(*, requests: int, connections: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data) as ground:
        before = await _plain(ground, requests, connections)
        key = secrets.token_hex(16)
        headers = {"authorization": f"Bearer {key}"}
        async with server(OURS, settings_of(ground, key, __name__), "/readyz") as port:
            single = post(port, "/v1/jobs", _JOB, headers)
            await send_all(port, single, min(requests, _WARM_UP), connections)
            seconds = await send_all(port, single, requests, connections)
            bulk = post(port, "/v1/jobs/bulk", {"jobs": [_JOB] * BULK}, headers)
            bulks = max(1, requests // BULK * 4)
            await send_all(port, bulk, min(bulks, 20), _BULK_CONNECTIONS)
            bulk_seconds = await send_all(port, bulk, bulks, _BULK_CONNECTIONS)
        after = await _plain(ground, requests, connections)
    plain_seconds = 2 * before * after / (before + after)
    return {
        "bench": "http",
        "requests": requests,
        "connections": connections,
        "timebell": {"per_s": round(requests / seconds)},
        "plain": {
            "per_s": round(requests / plain_seconds),
            "before": round(requests / before),
            "after": round(requests / after),
        },
        "ratio": round(plain_seconds / seconds, 3),
        "bulk": {"size": BULK, "requests": bulks, "jobs_per_s": round(bulks * BULK / bulk_seconds)},
    }


async def _plain(ground: Ground, requests: int, connections: int) -> float:
    async with server(_PLAIN, {"DATABASE_URL": ground.url}, "/healthz") as port:
        request = post(port, "/jobs", _JOB, {})
        await send_all(port, request, min(requests, _WARM_UP), connections)
        return await send_all(port, request, requests, connections)
