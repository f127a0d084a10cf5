"""People who meet, asked as clients ask, on a real database and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import asyncpg
import httpx2

from tests.web.support import Site, open_site
from timebell.apps.meetings import APP
from timebell.db.pool import Gate
from timebell.notify import Notify, Provider, notify_app
from timebell.notify.models import InboxLine
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

# A Monday morning.
NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
# On Friday at nine.
START = datetime(2027, 3, 5, 9, 0, tzinfo=UTC)

Json = dict[str, Any]
_KEYS = count()


def slot(start: datetime = START, length: timedelta = HOUR) -> dict[str, str]:
    return {"start": start.isoformat(), "end": (start + length).isoformat()}


@dataclass(slots=True, kw_only=True)
class Office:
    """Four people and a server. `bench` moves the clock and pays what is due."""

    site: Site
    bench: Harness
    database: TestDatabase
    people: Mapping[str, UUID] = field(default_factory=dict)

    @property
    def clock(self) -> ManualClock:
        return self.bench.clock

    @property
    def notify(self) -> Notify:
        return Notify(self.bench.bell)

    @property
    def ada(self) -> UUID:
        return self.people["Ada"]

    @property
    def bob(self) -> UUID:
        return self.people["Bob"]

    @property
    def cleo(self) -> UUID:
        return self.people["Cleo"]

    @property
    def dan(self) -> UUID:
        return self.people["Dan"]

    async def ask(
        self,
        person: UUID,
        method: str,
        path: str,
        json: Any = None,
        *,
        key: str | None = None,
        **options: Any,
    ) -> httpx2.Response:
        """As that person, with an idempotency key of its own where the method changes something."""
        headers = dict(options.pop("headers", {}))
        if method != "GET":
            headers["idempotency-key"] = key or f"key-{next(_KEYS)}"
        if json is not None:
            options["json"] = json
        return await self.site.ask(method, path, actor=person, headers=headers, **options)

    async def propose(self, person: UUID | None = None, **given: Any) -> Json:
        """Ada asks Bob and Cleo for an hour on Friday, unless it is said otherwise."""
        said = {
            "title": "Review",
            "participants": [str(self.bob), str(self.cleo)],
            "timezone": "Europe/Berlin",
            "proposed_slots": [slot()],
            **given,
        }
        said["participants"] = [str(each) for each in said["participants"]]
        return done(await self.ask(person or self.ada, "POST", "/api/meetings", said), 201)

    async def transit(
        self, person: UUID, id: str, verb: str, json: Any = None, **options: Any
    ) -> httpx2.Response:
        return await self.ask(person, "POST", f"/api/meetings/{id}/{verb}", json, **options)

    async def accept(self, id: str, person: UUID | None = None, at: datetime = START, **options: Any) -> Json:
        return done(await self.transit(person or self.bob, id, "accept", {"slot": slot(at)}, **options))

    async def accepted(self, **given: Any) -> Json:
        """A meeting that Bob has accepted, in the first slot."""
        row = await self.propose(**given)
        return done(await self.transit(self.bob, row["id"], "accept", {"slot": row["proposed_slots"][0]}))

    async def reschedule(
        self, id: str, *starts: datetime, person: UUID | None = None, reason: str | None = None
    ) -> Json:
        body = {"proposed_slots": [slot(start) for start in starts], "reason": reason}
        return done(await self.transit(person or self.bob, id, "reschedule", body))

    async def get(self, id: str, person: UUID | None = None) -> Json:
        return done(await self.ask(person or self.ada, "GET", f"/api/meetings/{id}"))

    async def data(self, path: str, person: UUID | None = None, **options: Any) -> list[Json]:
        found: list[Json] = done(await self.ask(person or self.ada, "GET", path, **options))["data"]
        return found

    async def reminders(self, id: str, status: str | None = None) -> list[Json]:
        found = await self.data(f"/api/meetings/{id}/reminders", params={"limit": 500})
        return [one for one in found if status in (None, one["status"])]

    async def inbox(self, person: UUID) -> Sequence[InboxLine]:
        return (await self.notify.inbox.list(person, limit=500)).lines

    async def told(self, type: str) -> dict[str, int]:
        """How often each person was told that, by name; nobody who was not."""
        counts = {
            name: sum(line.type == type for line in await self.inbox(id)) for name, id in self.people.items()
        }
        return {name: number for name, number in counts.items() if number}

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        """Asked past the wall between tenants."""
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close(timeout=10)

    async def value(self, sql: str, *arguments: object) -> Any:
        return (await self.rows(sql, *arguments))[0][0]

    async def effects(self) -> dict[str, Any]:
        """Everything that a transition writes, so that it can be seen that one wrote nothing."""
        tables = {
            "meetings": "SELECT id, status, revision, sequence FROM meetings.meeting_requests ORDER BY id",
            "participants": "SELECT * FROM meetings.meeting_participants ORDER BY meeting_id, recipient_id",
            "events": "SELECT id FROM meetings.meeting_status_events ORDER BY id",
            "rescheduled": "SELECT id FROM meetings.meeting_reschedule_events ORDER BY id",
            "busy": "SELECT meeting_id, recipient_id, during::text, kind FROM meetings.busy ORDER BY 1, 2",
            "jobs": "SELECT id, subject, step, due_at FROM timebell.jobs ORDER BY id",
            "notifications": "SELECT id FROM timebell_notify.notifications ORDER BY id",
            "audit": "SELECT id FROM timebell.events WHERE subject LIKE 'meeting:%' ORDER BY id",
        }
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            return {name: [tuple(row) for row in await connection.fetch(sql)] for name, sql in tables.items()}
        finally:
            await connection.close(timeout=10)


def done(response: httpx2.Response, status: int = 200) -> Json:
    assert response.status_code == status, response.text
    content: Json = response.json()
    return content


async def audited(office: Office, id: str, action: str) -> list[str]:
    """Who did that to a meeting, as the audit trail has it."""
    rows = await office.rows(
        "SELECT actor FROM meetings.audit_events WHERE meeting_id = $1 AND action = $2", UUID(id), action
    )
    return [row["actor"] for row in rows]


@asynccontextmanager
async def open_office(
    database: TestDatabase,
    providers: Sequence[Provider] = (),
    *,
    now: datetime = NOW,
    gate: Gate | None = None,
    worker_gate: Gate | None = None,
    people: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> AsyncIterator[Office]:
    """`gate` is in front of what the server does, `worker_gate` of what the node does. `people` are what Ada, Bob, Cleo
    and Dan are beside their names; `settings` are fields of `Settings`."""
    clock = ManualClock(now)
    async with (
        harness(
            database.url, [notify_app(providers), APP], clock=clock, gate=worker_gate, **settings
        ) as bench,
        open_site(database, apps=(APP,), clock=clock, gate=gate, **settings) as site,
    ):
        ids: dict[str, UUID] = {}
        async with bench.bell.transaction() as tx:
            for name in ("Ada", "Bob", "Cleo", "Dan"):
                about = dict((people or {}).get(name, {}))
                ids[name] = (await Notify(bench.bell).recipients.add(tx, name=name, **about)).id
        yield Office(site=site, bench=bench, database=database, people=ids)
