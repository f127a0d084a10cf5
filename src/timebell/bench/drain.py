"""Drain: how many due jobs a second one process pays, beside what the same statements pay with nothing around them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from timebell.bench.cost import Cost, Meter, beside_raw, peak_memory_mb
from timebell.bench.ground import WARM_UP_JOBS, Ground, add_due, add_future, close, held_snapshot, throwaway
from timebell.bench.raw import RawLoop
from timebell.engine import Engine
from timebell.kernel import Timebell
from timebell.kernel.models import Mode

_DEADLINE_SECONDS = 900.0
_LOOKS_MAX = 1_000_000


async def drain(
    *,
    jobs: int,
    future: int,
    hold_snapshot: bool,
    mode: Mode,
    held_seconds: int = 0,
    data: Path | None = None,
) -> dict[str, Any]:
    """Both sides in one run on one server, the raw loop first and last, so that a change of weather shows."""
    async with throwaway(data) as ground:
        await add_future(ground, future)
        await _measure(ground, min(jobs, WARM_UP_JOBS), mode, _engine)
        if hold_snapshot:
            fresh, before, ours, after = await _beside_a_snapshot(ground, jobs, mode, held_seconds)
            own = {
                "own": {"per_s": round(jobs / fresh.seconds), "ratio": round(fresh.seconds / ours.seconds, 3)}
            }
        else:
            before = await _measure(ground, jobs, mode, _raw)
            ours = await _measure(ground, jobs, mode, _engine)
            after = await _measure(ground, jobs, mode, _raw)
            own = {}
        memory = peak_memory_mb()
    return {
        "bench": "drain",
        "mode": mode,
        "jobs": jobs,
        "future": future,
        "hold_snapshot": hold_snapshot,
        "held_seconds": held_seconds if hold_snapshot else 0,
        **beside_raw(ours, before, after, jobs),
        **own,
        "peak_memory_mb": memory,
    }


async def _beside_a_snapshot(ground: Ground, jobs: int, mode: Mode, seconds: int) -> list[Cost]:
    """One engine before the snapshot, while it grows old and dead rows pile up that nothing can remove, and after.

    The raw loop keeps nothing in memory to go on from, so it walks over all of them each time it begins.
    """
    bell = await ground.open()
    engine = Engine(bell)
    await engine.start()
    try:
        costs = [await _pay_at_once(ground, engine, jobs, mode)]
        async with held_snapshot(ground):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await _pay_at_once(ground, engine, jobs, mode)
            ours = await _pay_at_once(ground, engine, jobs, mode)
            await engine.stop()
            costs += [
                await _measure(ground, jobs, mode, _raw),
                ours,
                await _measure(ground, jobs, mode, _raw),
            ]
        return costs
    finally:
        await close(bell)


async def _pay_at_once(ground: Ground, engine: Engine, jobs: int, mode: Mode) -> Cost:
    """Jobs that are committed together, to an engine that is going."""
    done = engine.worker.counters.done
    async with engine.bell.transaction() as tx:
        await add_due(engine.bell, jobs, mode, tx)
        meter = Meter(ground.server_pid)
    async with asyncio.timeout(_DEADLINE_SECONDS):
        await _until_done(engine, done + jobs)
    return meter.read()


async def _measure(
    ground: Ground, jobs: int, mode: Mode, pay: Callable[[Timebell, int, Mode, Meter], Awaitable[Cost]]
) -> Cost:
    bell = await ground.open()
    try:
        await add_due(bell, jobs, mode)
        async with asyncio.timeout(_DEADLINE_SECONDS):
            return await pay(bell, jobs, mode, Meter(ground.server_pid))
    finally:
        await close(bell)


async def _engine(bell: Timebell, jobs: int, mode: Mode, meter: Meter) -> Cost:
    """From before the engine is started until the end of the last job is written."""
    engine = Engine(bell)
    await engine.start()
    try:
        await _until_done(engine, jobs)
        return meter.read()
    finally:
        await engine.stop()


async def _until_done(engine: Engine, jobs: int) -> None:
    for _ in range(_LOOKS_MAX):
        if engine.worker.counters.done >= jobs:
            break
        await asyncio.sleep(0.002)


async def _raw(bell: Timebell, jobs: int, mode: Mode, meter: Meter) -> Cost:
    loop = RawLoop(bell, mode)
    await loop.run()
    cost = meter.read()
    if loop.decoded_count != jobs:
        raise RuntimeError(f"the raw loop paid {loop.decoded_count} of {jobs} jobs")
    return cost
