"""What the tests of alerts share: who is open, and a look at it a little later."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from tests.store.support import Tables
from timebell.kernel import AlertRule, App, Asked, Bounds, Finding
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Watched:
    """A node whose watch looks when it is told to."""

    def __init__(self, h: Harness) -> None:
        self.h = h
        self.bell = h.bell
        self.clock = h.clock
        self.watch = h.engine.watch
        self.tables = Tables(h.bell.database)

    async def look(self, later: timedelta = timedelta(0)) -> list[str]:
        """The rules of what is open after a look, so much later."""
        self.clock.move(later)
        await self.watch.look()
        return await self.open()

    async def open(self) -> list[str]:
        rows = await self.tables.rows(
            "SELECT rule FROM timebell.alerts WHERE opened_at IS NOT NULL AND closed_at IS NULL "
            "ORDER BY opened_at, rule, subject"
        )
        return [row["rule"] for row in rows]

    async def rows(self, rule: str) -> list[dict[str, Any]]:
        return await self.tables.rows(
            "SELECT * FROM timebell.alerts WHERE rule = $1 ORDER BY seen_at, id", rule
        )

    async def events(self) -> list[str]:
        rows = await self.tables.rows(
            "SELECT name FROM timebell.events WHERE name LIKE 'alert.%' ORDER BY id"
        )
        return [row["name"] for row in rows]


@asynccontextmanager
async def watched(
    database: TestDatabase, apps: Iterable[App] = (), *, clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[Watched]:
    settings = {"database_url": database.url, **settings}
    async with harness(database.url, apps, clock=clock, **settings) as h:
        yield Watched(h)


class Figures:
    """An app whose one rule finds what a test says."""

    def __init__(self, name: str = "figures_are_high", app: str = "figures", **terms: Any) -> None:
        self.found: list[Finding] | None = []
        self.error: Exception | None = None
        self.asked: list[Asked] = []
        terms = {"severity": "warning", "bounds": Bounds(), **terms}
        self.rule = AlertRule(
            name=name, about="Figures are high.", remedy="Lower them.", question=self._ask, **terms
        )
        self.app = App(name=app, alerts=[self.rule])

    async def _ask(self, asked: Asked) -> list[Finding] | None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        if self.found is None:
            return None
        found = sorted(self.found, key=lambda each: ((each.tenant or "default"), each.subject))
        after = asked.after
        behind = [
            each for each in found if after is None or ((each.tenant or "default"), each.subject) > after
        ]
        return behind[: asked.limit]
