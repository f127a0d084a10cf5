"""A marketplace of two companies, asked as clients ask, on a real database and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import asyncpg
import httpx2
import orjson

from tests.web.support import Site, open_site
from timebell.apps.marketplace import APP
from timebell.db.pool import Gate
from timebell.kernel import Timebell
from timebell.notify import Notify, Parcel, Provider, notify_app
from timebell.testing import Harness, ManualClock, RecordingProvider, harness
from timebell.testing.database import TestDatabase

BERLIN = "Europe/Berlin"
# A Monday, nine in the morning in Berlin, where the clocks change on the 28th.
NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
# The first two weeks of a booking, unless a test says otherwise: its first week is the one that has begun.
FIRST = date(2027, 3, 2)
LAST = date(2027, 3, 14)
AMOUNT = 20_000

BASE = "/api/marketplace"
Json = dict[str, Any]
_KEYS = count()
# By their part: an admin and a manager of each company, the supervisor, the worker, and somebody who has none.
ROLES: Mapping[str, tuple[str, str] | None] = {
    "Bea": ("borrower", "borrower_admin"),
    "Ben": ("borrower", "borrower_manager"),
    "Sue": ("borrower", "supervisor"),
    "Lea": ("lender", "lender_admin"),
    "Leo": ("lender", "lender_manager"),
    "Wim": ("lender", "worker"),
    "Zoe": None,
}


def local(year: int, month: int, day: int, hour: int = 0, minute: int = 0, *, zone: str = BERLIN) -> datetime:
    """What a clock on the wall shows there, as an instant."""
    return datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def shift(day: date, *, start: int = 8, end: int = 16, amount: int = AMOUNT, zone: str = BERLIN) -> Json:
    """A shift of that day from one hour to another, on the wall."""
    begins = local(day.year, day.month, day.day, start, zone=zone)
    ends = local(day.year, day.month, day.day, end, zone=zone)
    return {"start": begins.isoformat(), "end": ends.isoformat(), "amount": amount}


def weekdays(first: date = FIRST, last: date = LAST, **given: Any) -> list[Json]:
    """One shift on each day from Monday to Friday."""
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [shift(day, **given) for day in days if day.weekday() < 5]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Whom every market has: everybody by name, the two companies, a site of the borrower and the worker Wim."""

    people: Mapping[str, UUID]
    borrower: UUID
    lender: UUID
    project: UUID
    worker: UUID


@dataclass(slots=True, kw_only=True)
class Market:
    """Two companies and a server. `bench` moves the clock and pays what is due; `provider` has what arrived."""

    site: Site
    bench: Harness
    database: TestDatabase
    provider: RecordingProvider
    people: Mapping[str, UUID] = field(default_factory=dict)
    borrower: UUID
    lender: UUID
    project: UUID
    worker: UUID

    @property
    def clock(self) -> ManualClock:
        return self.bench.clock

    @property
    def notify(self) -> Notify:
        return Notify(self.bench.bell)

    @property
    def arrived(self) -> list[Parcel]:
        return self.provider.parcels

    async def ask(
        self,
        who: UUID | str | None,
        method: str,
        path: str,
        json: Any = None,
        *,
        idempotency: str | None = None,
        **options: Any,
    ) -> httpx2.Response:
        """As somebody, by name; as the operator with an admin key, where nobody is named. The path is below
        `/api/marketplace`. Whatever changes something has an idempotency key of its own."""
        headers = dict(options.pop("headers", {}))
        if method != "GET":
            headers["idempotency-key"] = idempotency or f"key-{next(_KEYS)}"
        if json is not None:
            options["json"] = json
        if who is None:
            options.setdefault("key", "admin")
        else:
            options["actor"] = self.people[who] if isinstance(who, str) else who
        return await self.site.ask(method, f"{BASE}/{path}", headers=headers, **options)

    async def get(self, path: str, who: UUID | str | None = None, **options: Any) -> Json:
        return done(await self.ask(who, "GET", path, **options))

    async def data(self, path: str, who: UUID | str | None = None, **options: Any) -> list[Json]:
        found: list[Json] = (await self.get(path, who, **options))["data"]
        return found

    async def book(self, *shifts: Json, who: UUID | str | None = "Bea", **given: Any) -> Json:
        """Wim works for two weeks, on weekdays from eight to four, unless it is said otherwise."""
        return done(await self.ask(who, "POST", "bookings", self.order(*shifts, **given)), 201)

    def order(self, *shifts: Json, **given: Any) -> Json:
        said: Json = {
            "project_id": str(self.project),
            "worker_id": str(self.worker),
            "lender_company_id": str(self.lender),
            "supervisor_id": str(self.people["Sue"]),
            "payment_type": "Weekly_Progress",
            "start_date": FIRST.isoformat(),
            "end_date": LAST.isoformat(),
            "currency": "EUR",
            **given,
        }
        if shifts or "shifts" in said:
            return {"shifts": list(shifts), **said}
        first, last = date.fromisoformat(said["start_date"]), date.fromisoformat(said["end_date"])
        return {"shifts": weekdays(first, last), **said}

    async def shifts(self, booking: str) -> list[Json]:
        """Those of a booking, by their start."""
        return await self.data(f"bookings/{booking}/shifts", params={"limit": 500})

    async def transit(
        self, who: UUID | str | None, shift: str, verb: str, json: Any = None, **options: Any
    ) -> httpx2.Response:
        return await self.ask(who, "POST", f"time-logs/{shift}/{verb}", json, **options)

    async def clock_in(self, shift: str) -> Json:
        return done(await self.transit("Wim", shift, "clock-in"))

    async def submit(self, shift: str, **given: Any) -> Json:
        return done(await self.transit("Wim", shift, "submit", given))

    async def verify(self, shift: str, who: str = "Sue") -> Json:
        return done(await self.transit(who, shift, "verify"))

    async def pass_until(self, instant: datetime) -> None:
        """Let time pass, and whatever is due on the way be done at its instant."""
        await self.bench.advance(to=instant)

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        """Asked past the wall between tenants."""
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close(timeout=10)

    async def value(self, sql: str, *arguments: object) -> Any:
        return (await self.rows(sql, *arguments))[0][0]

    async def events(self, subject: str) -> list[str]:
        """What happened to something, in order."""
        rows = await self.rows("SELECT name FROM timebell.events WHERE subject = $1 ORDER BY id", subject)
        return [row["name"] for row in rows]

    async def alerts(self) -> list[tuple[str, str]]:
        """What the marketplace has opened and nobody has closed: the rules, and what they are about."""
        rows = await self.rows(
            "SELECT rule, subject FROM timebell.alerts WHERE app = 'marketplace' AND opened_at IS NOT NULL "
            "AND closed_at IS NULL ORDER BY rule, subject"
        )
        return [(row["rule"], row["subject"]) for row in rows]

    async def add_worker(self, name: str = "Wanda", *, company: UUID | None = None, **given: Any) -> UUID:
        """One more worker of the lender, who can be booked."""
        async with self.bench.bell.transaction() as tx:
            person = (await self.notify.recipients.add(tx, name=name)).id
        return await add_worker(self.database, person, company or self.lender, **given)


def done(response: httpx2.Response, status: int = 200) -> Json:
    assert response.status_code == status, response.text
    content: Json = response.json()
    return content


async def add_worker(
    database: TestDatabase,
    person: UUID,
    company: UUID,
    *,
    tenant: str = "default",
    state: str = "Listed",
    trade: str = "carpenter",
    zip: str = "10115",
    skills: Sequence[str] = (),
    hourly_rate: int = 2_500,
) -> UUID:
    id = uuid4()
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await connection.execute(
            "INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, state, trade, zip, skills, "
            "hourly_rate, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)",
            *(tenant, id, person, company, state, trade, zip, list(skills), hourly_rate, NOW),
        )
    finally:
        await connection.close(timeout=10)
    return id


async def add_company(
    database: TestDatabase,
    type: str,
    *,
    name: str = "A company",
    tenant: str = "default",
    members: Sequence[tuple[UUID, str]] = (),
) -> UUID:
    id = uuid4()
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await connection.execute(
            "INSERT INTO marketplace.companies (tenant, id, name, type, payment_customer, payment_method, "
            "payment_account, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)",
            *(tenant, id, name, type, "cus_1", "pm_1", "acct_1", NOW),
        )
        await connection.executemany(
            "INSERT INTO marketplace.company_members (tenant, company_id, recipient_id, role, created_at) "
            "VALUES ($1, $2, $3, $4, $5)",
            [(tenant, id, person, role, NOW) for person, role in members],
        )
    finally:
        await connection.close(timeout=10)
    return id


@asynccontextmanager
async def open_market(
    database: TestDatabase,
    providers: Sequence[Provider] = (),
    *,
    now: datetime = NOW,
    timezone: str = BERLIN,
    gate: Gate | None = None,
    worker_gate: Gate | None = None,
    **settings: Any,
) -> AsyncIterator[Market]:
    """`gate` is in front of what the server does, `worker_gate` of what the node does; `settings` are fields of
    `Settings`."""
    clock = ManualClock(now)
    provider = RecordingProvider()
    async with (
        harness(
            database.url, [notify_app([*providers, provider]), APP], clock=clock, gate=worker_gate, **settings
        ) as bench,
        open_site(database, apps=(APP,), clock=clock, gate=gate, **settings) as site,
    ):
        stage = await read_stage(database) or await set_stage(database, bench.bell)
        if timezone != BERLIN:
            await move_stage(database, bench.bell, stage, timezone)
        yield Market(site=site, bench=bench, database=database, provider=provider, **asdict(stage))


async def read_stage(database: TestDatabase) -> Stage | None:
    """What was made in the database that this one is a copy of."""
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        row = await connection.fetchrow(
            "SELECT (SELECT jsonb_object_agg(name, id) FROM timebell_notify.recipients "
            "WHERE tenant = 'default' AND name = ANY ($1)) AS people, "
            "(SELECT id FROM marketplace.companies WHERE name = 'The borrower') AS borrower, "
            "(SELECT id FROM marketplace.companies WHERE name = 'The lender') AS lender, "
            "(SELECT id FROM marketplace.projects) AS project, (SELECT id FROM marketplace.workers) AS worker",
            list(ROLES),
        )
    finally:
        await connection.close(timeout=10)
    assert row is not None
    if row["project"] is None:
        return None
    people = {name: UUID(id) for name, id in orjson.loads(row["people"]).items()}
    return Stage(**{**row, "people": people})


async def set_stage(database: TestDatabase, bell: Timebell) -> Stage:
    people: dict[str, UUID] = {}
    async with bell.transaction() as tx:
        for number, name in enumerate(ROLES):
            added = await Notify(bell).recipients.add(
                tx,
                name=name,
                email=f"{name.lower()}@example.org",
                phone=f"+491511234567{number}",
                timezone=BERLIN,
            )
            people[name] = added.id
    companies: dict[str, UUID] = {}
    for type in ("borrower", "lender"):
        members = [(people[name], part[1]) for name, part in ROLES.items() if part and part[0] == type]
        companies[type] = await add_company(database, type, name=f"The {type}", members=members)
    worker = await add_worker(database, people["Wim"], companies["lender"])
    project = uuid4()
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await connection.execute(
            "INSERT INTO marketplace.projects (tenant, id, company_id, name, timezone, created_at) "
            "VALUES ('default', $1, $2, 'The site', $3, $4)",
            *(project, companies["borrower"], BERLIN, NOW),
        )
    finally:
        await connection.close(timeout=10)
    return Stage(people=people, project=project, worker=worker, **companies)


async def move_stage(database: TestDatabase, bell: Timebell, stage: Stage, timezone: str) -> None:
    async with bell.transaction() as tx:
        for person in stage.people.values():
            await Notify(bell).recipients.change(tx, person, timezone=timezone)
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await connection.execute("UPDATE marketplace.projects SET timezone = $1", timezone)
    finally:
        await connection.close(timeout=10)
