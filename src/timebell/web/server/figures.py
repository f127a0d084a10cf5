"""Figures of the database for the metrics: asked as the reader's role, seldom, and no longer than a scrape waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from timebell.clock import Clock
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Database
from timebell.errors import DatabaseUnavailable
from timebell.kernel import TableGauge
from timebell.kernel.insights import BreakerLine, Health, Insights, LatenessSummary, QueueDepth, QueueLine
from timebell.logs import Logger

log = Logger("timebell.metrics")

_ASK_SECONDS: Final = 4.0
_KEPT_SECONDS: Final = 5.0
_LATENESS_MINUTES: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The state of all nodes together, as the database has it."""

    depth: Sequence[QueueDepth]
    dead: Mapping[str, int]
    queues: Sequence[QueueLine]
    lateness: LatenessSummary
    breakers: Sequence[BreakerLine]
    left_kinds: Mapping[str, int]
    parked_schedule_count: int
    open_alerts: Mapping[tuple[str, str], int]
    health: Health
    shown: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class FigureReader:
    """Asks at most once in a few seconds, however often the metrics are read, and for all who wait together."""

    def __init__(self, insights: Insights, clock: Clock, database: Database | None = None) -> None:
        self._insights = insights
        self._clock = clock
        self._database = database
        self._asking = asyncio.Lock()
        self._kept: Figures | None = None
        self._kept_until = -1.0

    async def read(self, gauges: Sequence[TableGauge] = ()) -> Figures | None:
        """With what apps show of their own tables. None where the database does not answer in time."""
        async with self._asking:
            if self._clock.monotonic() >= self._kept_until:
                self._kept = await self._asked(gauges)
                self._kept_until = self._clock.monotonic() + _KEPT_SECONDS
            return self._kept

    async def _asked(self, gauges: Sequence[TableGauge]) -> Figures | None:
        insights = self._insights
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                return Figures(
                    depth=await insights.depth(),
                    dead=await insights.dead_counts(),
                    queues=await insights.queues(),
                    lateness=await insights.lateness(_LATENESS_MINUTES),
                    breakers=await insights.breakers(),
                    left_kinds=await insights.left_kinds(),
                    parked_schedule_count=len(await insights.parked_schedules()),
                    open_alerts=await insights.open_alerts(),
                    health=await insights.health(),
                    shown=await self._shown(gauges),
                )
        except (*DATABASE_ERRORS, DatabaseUnavailable) as error:
            log.warning(
                "the figures of the database are not to be had", error=str(error) or type(error).__name__
            )
            return None

    async def _shown(self, gauges: Sequence[TableGauge]) -> dict[str, Mapping[str, float]]:
        """What apps show of their own tables, by the name of the gauge."""
        if self._database is None or not gauges:
            return {}
        async with self._database.connection() as session:
            return {gauge.name: await gauge.ask(gauge.store(self._clock), session) for gauge in gauges}
