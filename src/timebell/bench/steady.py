"""Steady: jobs written and paid at the same time, at one rate, and what is left when the writing stops."""

from __future__ import annotations

from typing import Any

from timebell.bench.ground import add_future, throwaway
from timebell.bench.late import percentile, run_rate


async def steady(*, rate: int, seconds: int, future: int) -> dict[str, Any]:
    async with throwaway() as ground:
        await add_future(ground, future)
        noted = await run_rate(ground, rate=rate, seconds=seconds)
    ordered = sorted(noted.milliseconds)
    return {
        "bench": "steady",
        "rate": rate,
        "seconds": seconds,
        "future": future,
        "n": len(ordered),
        "left": rate * seconds - len(ordered),
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
    }
