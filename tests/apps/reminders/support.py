"""A person with schedules and tasks, on a real database and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from timebell.apps.reminders import APP
from timebell.apps.reminders.models import Details, Task, details_of
from timebell.apps.reminders.service import Reminders
from timebell.apps.reminders.tasks import Tasks
from timebell.kernel import Occurrence, Schedule, ScheduleChange
from timebell.notify import Notify, Provider, notify_app
from timebell.notify.models import InboxLine
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

# A Monday morning.
NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(weeks=1)

_DETAILS = frozenset(Details.__dataclass_fields__)


@dataclass(slots=True, kw_only=True)
class Desk:
    """The verbs of the app for one person, each in a transaction of its own."""

    harness: Harness
    person: UUID
    database: TestDatabase

    @property
    def clock(self) -> ManualClock:
        return self.harness.clock

    @property
    def notify(self) -> Notify:
        return Notify(self.harness.bell)

    @property
    def reminders(self) -> Reminders:
        return Reminders(self.harness.bell, self.notify)

    @property
    def tasks(self) -> Tasks:
        return Tasks(self.harness.bell)

    async def create(self, **given: Any) -> ScheduleChange:
        """A task on Friday at 17:00 in Berlin, once, unless it is said otherwise."""
        said = {
            "kind": "task",
            "title": "Submit report",
            "timezone": "Europe/Berlin",
            "start_local": datetime(2026, 3, 6, 17, 0),
            **given,
        }
        details = Details(**{name: value for name, value in said.items() if name in _DETAILS})
        when = {name: value for name, value in said.items() if name not in _DETAILS}
        async with self.harness.bell.transaction() as tx:
            return await self.reminders.create(
                tx, self.person, details, when=when, actor="test", correlation_id="c-1"
            )

    async def edit(self, id: UUID, **given: Any) -> ScheduleChange:
        async with self.harness.bell.transaction() as tx:
            schedule = await self.reminders.hold(tx, self.person, id)
            changed = {name: value for name, value in given.items() if name in _DETAILS}
            when = {name: value for name, value in given.items() if name not in _DETAILS}
            details = replace(details_of(schedule), **changed)
            return await self.reminders.edit(tx, schedule, details, when=when, actor="test")

    async def end(self, id: UUID) -> None:
        async with self.harness.bell.transaction() as tx:
            await self.reminders.end(tx, await self.reminders.hold(tx, self.person, id), actor="test")

    async def skip(self, id: UUID, original_local: datetime) -> ScheduleChange:
        async with self.harness.bell.transaction() as tx:
            schedule = await self.reminders.hold(tx, self.person, id)
            return await self.reminders.skip(tx, schedule, original_local, fold=0, actor="test")

    async def move(self, id: UUID, original_local: datetime, start_local: datetime) -> ScheduleChange:
        async with self.harness.bell.transaction() as tx:
            schedule = await self.reminders.hold(tx, self.person, id)
            return await self.reminders.move(tx, schedule, original_local, start_local, fold=0, actor="test")

    async def get(self, id: UUID) -> Schedule:
        async with self.harness.bell.transaction() as tx:
            return await self.reminders.get(tx, self.person, id)

    async def occurrences(self, id: UUID) -> Sequence[Occurrence]:
        async with self.harness.bell.transaction() as tx:
            return (await self.harness.bell.schedules.occurrences(tx, id, limit=500)).lines

    async def list(self, *, is_all: bool = True, is_completed: bool | None = None) -> Sequence[Task]:
        async with self.harness.bell.transaction() as tx:
            page = await self.tasks.list(
                tx, self.person, is_all=is_all, is_completed=is_completed, limit=500, cursor=None
            )
        return page.lines

    async def complete(self, id: UUID) -> Task:
        async with self.harness.bell.transaction() as tx:
            return await self.tasks.complete(tx, self.person, id, actor="test")

    async def inbox(self) -> Sequence[InboxLine]:
        return (await self.notify.inbox.list(self.person, limit=500)).lines

    async def jobs(self) -> Sequence[tuple[int, datetime]]:
        """The reminders that are owed, by offset and instant."""
        rows = await self.rows(
            "SELECT (payload->>'offset_minutes')::integer AS minutes, due_at FROM timebell.jobs "
            "WHERE kind = 'notify.deliver' ORDER BY due_at"
        )
        return [(row["minutes"], row["due_at"]) for row in rows]

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        """Asked past the wall between tenants."""
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close(timeout=10)


@asynccontextmanager
async def desk(
    database: TestDatabase, providers: Sequence[Provider] = (), *, now: datetime = NOW, **person: Any
) -> AsyncIterator[Desk]:
    async with harness(database.url, [notify_app(providers), APP], clock=ManualClock(now)) as bench:
        async with bench.bell.transaction() as tx:
            ada = await Notify(bench.bell).recipients.add(tx, name="Ada", **person)
        yield Desk(harness=bench, person=ada.id, database=database)
