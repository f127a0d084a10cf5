"""A house that takes bookings, asked as clients ask, on a real database and a clock that the test moves."""

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
from timebell.apps.sequences import APP
from timebell.db.pool import Gate
from timebell.notify import (
    Channel,
    Notify,
    Parcel,
    Provider,
    Template,
    TemplateDraft,
    Text,
    Variable,
    notify_app,
)
from timebell.testing import Harness, ManualClock, RecordingProvider, harness
from timebell.testing.database import TestDatabase

# A Monday morning, and a stay across the change of clocks in Berlin on the 28th of March.
NOW = datetime(2027, 3, 15, 8, 0, tzinfo=UTC)
START = datetime(2027, 3, 27, 14, 0, tzinfo=UTC)
END = datetime(2027, 3, 30, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

Json = dict[str, Any]
_KEYS = count()
CHANNELS: tuple[Channel, ...] = ("email", "sms", "whatsapp")
GUESTS: Mapping[str, Mapping[str, Any]] = {
    "Ada": {
        "email": "ada@example.org",
        "phone": "+4915112345678",
        "timezone": "Europe/Berlin",
        "language": "de",
    },
    "Bob": {"email": "bob@example.org", "timezone": "Europe/Berlin"},
}


def step(key: str, offset: str = "PT0S", **given: Any) -> Json:
    return {"key": key, "offset": offset, "templateId": "note", **given}


@dataclass(slots=True, kw_only=True)
class House:
    """Guests and a server. `bench` moves the clock and pays what is due; `provider` has what arrived."""

    site: Site
    bench: Harness
    database: TestDatabase
    provider: RecordingProvider
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

    async def ask(
        self, method: str, path: str, json: Any = None, *, idempotency: str | None = None, **options: Any
    ) -> httpx2.Response:
        """With an idempotency key of its own where the method changes something."""
        headers = dict(options.pop("headers", {}))
        if method != "GET":
            headers["idempotency-key"] = idempotency or f"key-{next(_KEYS)}"
        if json is not None:
            options["json"] = json
        return await self.site.ask(method, path, headers=headers, **options)

    async def save(self, *steps: Json, event: str = "booking_created", **given: Any) -> Json:
        """A sequence, with one message at once unless it is said otherwise."""
        said = {
            "name": "Messages",
            "triggerEvent": event,
            "steps": list(steps) or [step("now", anchor="event_time")],
            **given,
        }
        return done(await self.ask("POST", "/api/sequences", said), 201)

    async def book(self, **given: Any) -> Json:
        """Ada stays from Saturday to Tuesday, unless it is said otherwise."""
        said = {
            "contactId": str(self.ada),
            "subtype": "stay",
            "eventName": "A stay by the lake",
            "startAt": START.isoformat(),
            "endAt": END.isoformat(),
            "timezone": "Europe/Berlin",
            **given,
        }
        return done(await self.ask("POST", "/api/bookings", said), 201)

    async def move(self, id: str, transition: str, **options: Any) -> Json:
        return done(await self.ask("POST", f"/api/bookings/{id}/{transition}", **options))

    async def change(self, id: str, **given: Any) -> Json:
        return done(await self.ask("PATCH", f"/api/bookings/{id}", given))

    async def messages(self, id: str) -> dict[str, Json]:
        """The messages of a booking by the key of their step; of one for several people, by that and the name."""
        found = (await self.data(f"/api/bookings/{id}/messages", params={"limit": 500}))["data"]
        keys = [one["stepKey"] for one in found]
        names = {str(id): name for name, id in self.people.items()}
        return {
            one["stepKey"]
            if keys.count(one["stepKey"]) == 1
            else f"{one['stepKey']}/{names[one['contactId']]}": one
            for one in found
        }

    async def statuses(self, id: str) -> dict[str, str]:
        return {key: one["status"] for key, one in (await self.messages(id)).items()}

    async def data(self, path: str, **options: Any) -> Json:
        return done(await self.ask("GET", path, **options))

    async def pass_until(self, instant: datetime) -> None:
        """Let time pass, and whatever is due on the way be done at its instant."""
        await self.bench.advance(to=instant)

    @property
    def arrived(self) -> list[Parcel]:
        return self.provider.parcels

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        """Asked past the wall between tenants."""
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close(timeout=10)

    async def value(self, sql: str, *arguments: object) -> Any:
        return (await self.rows(sql, *arguments))[0][0]

    async def template(
        self, key: str = "note", body: str | None = None, *, variables: Sequence[Variable] = (), **given: Any
    ) -> Template:
        """A text in English and German for each channel, which speaks of the contact and the booking."""
        async with self.bench.bell.transaction(tenant=given.get("tenant", "default")) as tx:
            return await self.notify.templates.save(tx, draft(key, body, variables=variables))


def draft(key: str, body: str | None = None, *, variables: Sequence[Variable] = ()) -> TemplateDraft:
    english = body or "Hello {{ contact.name }}, {{ booking.eventName }}"
    german = body or "Guten Tag {{ contact.name }}, {{ booking.eventName }}"
    declared = variables or (
        () if body else (Variable(name="contact.name"), Variable(name="booking.eventName"))
    )
    return TemplateDraft(
        key=key,
        variables=declared,
        texts=[
            Text(
                channel=channel,
                language=language,
                body=text,
                subject=("About it" if body else "About {{ booking.eventName }}")
                if channel == "email"
                else None,
            )
            for channel in CHANNELS
            for language, text in (("en", english), ("de", german))
        ],
    )


def done(response: httpx2.Response, status: int = 200) -> Json:
    assert response.status_code == status, response.text
    content: Json = response.json()
    return content


@asynccontextmanager
async def open_house(
    database: TestDatabase,
    providers: Sequence[Provider] = (),
    *,
    now: datetime = NOW,
    gate: Gate | None = None,
    worker_gate: Gate | None = None,
    people: Mapping[str, Mapping[str, Any]] = GUESTS,
    **settings: Any,
) -> AsyncIterator[House]:
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
        ids: dict[str, UUID] = {}
        async with bench.bell.transaction() as tx:
            for name, about in people.items():
                ids[name] = (await Notify(bench.bell).recipients.add(tx, name=name, **about)).id
        house = House(site=site, bench=bench, database=database, provider=provider, people=ids)
        await house.template()
        yield house
