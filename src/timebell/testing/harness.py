"""Timebell on a real database with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from timebell.clock import Chance, ManualClock
from timebell.config import Settings
from timebell.db.pool import Database, Gate
from timebell.engine import Engine
from timebell.engine.advancing import advance
from timebell.errors import InvalidInput
from timebell.kernel.app import App, Registry
from timebell.kernel.bell import Timebell


@dataclass(slots=True)
class Harness:
    """A bell and an engine that share one manual clock."""

    bell: Timebell
    engine: Engine
    clock: ManualClock

    async def run_due(self) -> int:
        """Run everything that is due at this instant; answers with how many attempts were settled."""
        return await self.engine.run_due()

    async def run_some(self, tenant: str, queue: str, most: int) -> int:
        """Run at most so many of a tenant's jobs in a queue that are due at this instant, and nothing else."""
        return await self.engine.run_some(tenant, queue, most)

    async def advance(self, by: timedelta | None = None, *, to: datetime | None = None) -> int:
        """Move the clock, stopping at every instant at which something is due, and run it there.

        What happens at T is stamped T, in order, as it would have been in real time.
        """
        if (by is None) == (to is None):
            raise InvalidInput("give by or to, one of them", field="by")
        target = self.clock.now + by if by is not None else to
        assert target is not None
        return await advance(self.engine, self.clock, target)


@asynccontextmanager
async def harness(
    url: str,
    apps: Iterable[App],
    *,
    clock: ManualClock | None = None,
    seed: int = 1,
    gate: Gate | None = None,
    **settings: Any,
) -> AsyncIterator[Harness]:
    """A bell and an engine on a migrated database. `settings` are fields of `Settings`."""
    clock = clock or ManualClock()
    database = await Database.open(url, gate=gate)
    bell = Timebell(
        database, registry=Registry(apps), settings=Settings(**settings), clock=clock, chance=Chance(seed)
    )
    engine = Engine(bell)
    try:
        await engine.begin()
        yield Harness(bell, engine, clock)
    finally:
        await engine.stop()
        await bell.close()
        await database.close()
