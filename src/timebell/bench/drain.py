"""Drain: how many due jobs a second one process pays, beside what the same statements pay with nothing around them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from timebell.bench.ground import Ground, add_due, add_future, close, held_snapshot, throwaway
from timebell.bench.raw import RawLoop
from timebell.engine import Engine
from timebell.kernel import Timebell
from timebell.kernel.models import Mode

_DEADLINE_SECONDS = 900.0
_LOOKS_MAX = 1_000_000


async def drain(*, jobs: int, future: int, hold_snapshot: bool, mode: Mode) -> dict[str, Any]:
    """Both sides in one run on one server, the raw loop first and last, so that a change of weather shows."""
    async with throwaway() as ground:
        await add_future(ground, future)
        async with held_snapshot(ground, hold_snapshot):
            before = await _measure(ground, jobs, mode, _raw)
            ours = await _measure(ground, jobs, mode, _engine)
            after = await _measure(ground, jobs, mode, _raw)
    raw = (before + after) / 2
    return {
        "bench": "drain",
        "mode": mode,
        "jobs": jobs,
        "future": future,
        "hold_snapshot": hold_snapshot,
        "timebell": {"per_s": round(ours)},
        "raw": {"per_s": round(raw), "before": round(before), "after": round(after)},
        "ratio": round(ours / raw, 3),
    }


async def _measure(
    ground: Ground, jobs: int, mode: Mode, pay: Callable[[Timebell, int, Mode], Awaitable[None]]
) -> float:
    bell = await ground.open()
    try:
        await add_due(bell, jobs, mode)
        began = time.perf_counter()
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await pay(bell, jobs, mode)
        return jobs / (time.perf_counter() - began)
    finally:
        await close(bell)


async def _engine(bell: Timebell, jobs: int, mode: Mode) -> None:
    engine = Engine(bell)
    await engine.start()
    for _ in range(_LOOKS_MAX):
        if engine.worker.counters.done >= jobs:
            break
        await asyncio.sleep(0.002)
    await engine.stop()


async def _raw(bell: Timebell, jobs: int, mode: Mode) -> None:
    loop = RawLoop(bell, mode)
    await loop.run()
    if loop.decoded_count != jobs:
        raise RuntimeError(f"the raw loop paid {loop.decoded_count} of {jobs} jobs")
