"""Steady: jobs written and paid at the same time, at one rate, and what is left when the writing stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timebell.bench.ground import add_future, throwaway
from timebell.bench.late import percentile, run_rate


async def steady(*, rate: int, seconds: int, future: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data) as ground:
        await add_future(ground, future)
        noted = await run_rate(ground, rate=rate, seconds=seconds)
    ordered = sorted(noted.milliseconds)
    return {
        "bench": "steady",
        "rate": rate,
        "seconds": seconds,
        "future": future,
        "n": len(ordered),
        "left": noted.left,
        "written_per_s": round(rate * seconds / noted.writing_seconds),
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
    }
