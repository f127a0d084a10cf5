"""Enrolling: how many messages a second one process schedules for bookings that come, beside a bare insert of the same
rows. Bookings come many at a time, and one by one in transactions that run at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg

from bench.ours.raw_enrol import raw_enrol
from timebell.bench.bars import beside_bars
from timebell.bench.cost import Cost, Meter, beside_raw
from timebell.bench.ground import Ground, close, throwaway
from timebell.kernel import Timebell
from timebell.loading import load_apps
from timebell.notify import Notify, TemplateDraft, Text, Variable, notify_app
from timebell.providers.log import Log

APP: Final = "timebell.apps.sequences"
STEPS: Final = 8
BATCH: Final = 200
AT_ONCE: Final = 8
_PEOPLE: Final = 1_000
_WARM_UP: Final = 400
_BODY: Final = "Dear {{ contact.name }}, {{ booking.eventName }} is near."
_TEMPLATE: Final = TemplateDraft(
    key="bench.stay",
    texts=(Text(channel="email", language="en", subject="Soon", body=_BODY),),
    variables=(Variable(name="contact.name"), Variable(name="booking.eventName")),
)

Way = Callable[["House", int], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """Who takes the bookings of this bench, and the guests. An app is loaded by name, and so are its services."""

    bell: Timebell
    bookings: Any
    new_booking: Callable[..., Any]
    by: Any
    people: Sequence[UUID]
    starts_at: datetime

    def booked(self, begin: int, count: int) -> list[Any]:
        return [
            self.new_booking(
                people=[(self.people[number % len(self.people)], "guest")],
                subtype="stay",
                event_name=f"Stay {number}",
                starts_at=self.starts_at + timedelta(minutes=number % 10_000),
                ends_at=self.starts_at + timedelta(days=3, minutes=number % 10_000),
                timezone="Europe/Berlin",
                location="By the lake",
            )
            for number in range(begin, begin + count)
        ]


async def enrol(*, bookings: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data, load_apps([APP])) as ground:
        people = await _prepare(ground)
        warm_up = min(bookings, _WARM_UP)
        for way in (_together, _one_by_one):
            await _measure(ground, people, warm_up, way)
        before = await raw_enrol(ground, people, bookings, STEPS, BATCH)
        together = await _measure(ground, people, bookings, _together)
        single = await _measure(ground, people, bookings, _one_by_one)
        after = await raw_enrol(ground, people, bookings, STEPS, BATCH)
    steps = bookings * STEPS
    result = {
        "bench": "enrol",
        "bookings": bookings,
        "steps": STEPS,
        **beside_raw(together, before, after, steps),
        "one_by_one": {"at_once": AT_ONCE, **single.per_job(steps)},
    }
    return {**result, "bars": beside_bars(result)}


async def _measure(ground: Ground, people: Sequence[UUID], bookings: int, way: Way) -> Cost:
    async with _opened(ground, people) as house:
        written = await _written_count(ground)
        meter = Meter(ground.server_pid)
        await way(house, bookings)
        cost = meter.read()
        if (written := await _written_count(ground) - written) != bookings * STEPS:
            raise RuntimeError(f"{written} of {bookings * STEPS} messages have a job")
        return cost


async def _together(house: House, bookings: int) -> None:
    """As from a file of bookings: so many in one transaction."""
    for begin in range(0, bookings, BATCH):
        async with house.bell.transaction() as tx:
            await house.bookings.add_many(tx, house.booked(begin, min(BATCH, bookings - begin)), by=house.by)


async def _one_by_one(house: House, bookings: int) -> None:
    """As from a shop: each in a transaction of its own, a few of which run at once."""
    numbers = iter(range(bookings))

    async def shop() -> None:
        for number in numbers:
            async with house.bell.transaction() as tx:
                await house.bookings.add(tx, house.booked(number, 1)[0], by=house.by)

    async with asyncio.TaskGroup() as shops:
        for _ in range(AT_ONCE):
            shops.create_task(shop())


@asynccontextmanager
async def _opened(ground: Ground, people: Sequence[UUID]) -> AsyncIterator[House]:
    bell = await ground.open(notify_app([Log()]), *load_apps([APP]))
    try:
        bookings = import_module(f"{APP}.bookings")
        async with bell.database.connection() as session:
            now = await bell.store.read_clock(session)
        yield House(
            bell=bell,
            bookings=bookings.Bookings(bell, Notify(bell)),
            new_booking=bookings.NewBooking,
            by=import_module(f"{APP}.models").By(name="bench"),
            people=people,
            starts_at=now + timedelta(days=30),
        )
    finally:
        await close(bell)


async def _prepare(ground: Ground) -> list[UUID]:
    """Guests, and a sequence of messages in the week before a stay."""
    models, service = import_module(f"{APP}.models"), import_module(f"{APP}.service")
    steps = tuple(
        models.SequenceStep(key=f"day_{day}", template=_TEMPLATE.key, offset=models.Offset(days=-day))
        for day in range(1, STEPS + 1)
    )
    async with _opened(ground, []) as house:
        asked = Notify(house.bell)
        async with house.bell.transaction() as tx:
            await asked.templates.save(tx, _TEMPLATE)
            people = [
                (await asked.recipients.add(tx, name=f"Guest {n}", email=f"guest{n}@example.org")).id
                for n in range(_PEOPLE)
            ]
        new = models.NewSequence(
            name="Before the stay", trigger_event="booking_created", terms=models.Terms(steps=steps)
        )
        async with house.bell.transaction() as tx:
            await service.Sequences(house.bell, asked).save(tx, new, by=house.by)
    return people


async def _written_count(ground: Ground) -> int:
    """Messages that are scheduled and have their job. The tables are tidied for both sides alike."""
    connection = await asyncpg.connect(ground.admin_url)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        count: int = await connection.fetchval(
            "SELECT count(*) FROM sequences.messages m JOIN timebell.jobs j ON j.id = m.job_id"
            " WHERE m.status = 'scheduled'"
        )
        return count
    finally:
        await connection.close()
