"""Late: how long after its due instant a job's handler begins, and whether any began before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from timebell.bench.ground import Ground, add_future, close, throwaway
from timebell.engine import Engine
from timebell.kernel import App, Enqueue, Handler, Job, Timebell

_AHEAD = timedelta(seconds=2)
_LOAD_EVERY_SECONDS = 0.05
_CHUNK = 5_000
_LEFT = "SELECT count(*) FROM timebell.jobs WHERE kind = 'bench.late'"


class Lateness:
    """Notes, on the database's own clock, how late each handler began."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []
        self.writing_seconds = 0.0
        self.left = 0
        self._engine: Engine | None = None

    def watch(self, engine: Engine) -> None:
        self._engine = engine

    async def handle(self, job: Job) -> None:
        assert self._engine is not None
        self.milliseconds.append((self._engine.timekeeper.now() - job.due_at) / timedelta(milliseconds=1))


def percentile(ordered: Sequence[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


async def late(*, rate: int, seconds: int, future: int, data: Path | None = None) -> dict[str, Any]:
    """Jobs at random instants of the coming two seconds, written while earlier ones run, beside future rows."""
    async with throwaway(data) as ground:
        await add_future(ground, future)
        noted = await run_rate(ground, rate=rate, seconds=seconds)
    ordered = sorted(noted.milliseconds)
    return {
        "bench": "late",
        "rate": rate,
        "seconds": seconds,
        "future": future,
        "n": len(ordered),
        "p50_ms": percentile(ordered, 0.5),
        "p99_ms": percentile(ordered, 0.99),
        "max_ms": round(ordered[-1], 3),
        "early": sum(1 for each in ordered if each < 0),
    }


async def run_rate(ground: Ground, *, rate: int, seconds: int) -> Lateness:
    noted = Lateness()
    bell = await ground.open(
        App(name="bench", handlers={"bench.late": Handler(run=noted.handle, mode="plain")})
    )
    engine = Engine(bell)
    noted.watch(engine)
    await engine.start()
    try:
        began = bell.clock.monotonic()
        await _load(bell, engine, rate, seconds)
        noted.writing_seconds = bell.clock.monotonic() - began
        total = rate * seconds
        for _ in range(2_000):
            if len(noted.milliseconds) >= total:
                break
            await asyncio.sleep(0.01)
    finally:
        await engine.stop()
        async with bell.database.connection() as session:
            noted.left = await session.connection.fetchval(_LEFT)
        await close(bell)
    return noted


async def _load(bell: Timebell, engine: Engine, rate: int, seconds: int) -> None:
    """Write the load in small transactions, evenly over the time, each job due up to two seconds later."""
    written = 0
    began = bell.clock.monotonic()
    while written < rate * seconds:
        elapsed = bell.clock.monotonic() - began
        behind = min(rate * seconds, int(rate * (elapsed + _LOAD_EVERY_SECONDS))) - written
        owed = min(behind, _CHUNK)
        if owed > 0:
            now = engine.timekeeper.now()
            jobs = [
                Enqueue(kind="bench.late", due_at=(now + _AHEAD * bell.chance.fraction()).astimezone(UTC))
                for _ in range(owed)
            ]
            async with bell.transaction() as tx:
                await bell.enqueue_many(tx, jobs)
            written += owed
        await asyncio.sleep(_LOAD_EVERY_SECONDS if owed == behind else 0)
