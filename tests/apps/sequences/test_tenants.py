"""Two tenants with equal ids of everything: nothing crosses, and nobody's backlog is in another's way."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

import pytest

from tests.apps.sequences.support import DAY, END, MINUTE, START, House, done, draft, open_house, step
from tests.web.support import OTHER
from timebell.apps.sequences import APP
from timebell.apps.sequences.bookings import BookingChange, Bookings, NewBooking
from timebell.apps.sequences.models import By, NewSequence, SequenceChange, Terms
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.service import Sequences
from timebell.apps.sequences.terms import step_of
from timebell.clock import SystemClock
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.engine import Engine
from timebell.kernel import Registry, Timebell
from timebell.notify import Notify, Parcel, notify_app
from timebell.notify.provider import Answer
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

OURS = "default"
LOUD, QUIET = "loud", "quiet"
BY = By(name="somebody")
TABLES = (
    "timebell_notify.recipients",
    "timebell_notify.addresses",
    "sequences.sequences",
    "sequences.sequence_versions",
    "sequences.subjects",
    "sequences.subject_people",
    "sequences.enrolments",
    "sequences.messages",
)


async def everything(house: House, tenant: str) -> list[Any]:
    """All that is kept for a tenant, and owed to it."""
    kept = [
        await house.rows(
            f"SELECT to_jsonb(t)::text AS row FROM {table} t WHERE tenant = $1 ORDER BY 1", tenant
        )
        for table in (*TABLES, "sequences.applications", "timebell.jobs")
    ]
    return [[row["row"] for row in rows] for rows in kept]


async def furnish(house: House) -> tuple[UUID, UUID]:
    """A sequence and a booking of ours, and the same under the same ids of the other tenant, with jobs of its own."""
    await house.template(tenant=OTHER)
    saved = await house.save(step("day", "-P1D", contacts="all"), step("after", "P1D", anchor="booking_end"))
    await house.save(step("sorry", anchor="event_time"), event="booking_cancelled", name="Cancelled")
    booked = await house.book(contacts=[str(house.bob)])
    for table in TABLES:
        await house.rows(
            f'INSERT INTO {table} SELECT (jsonb_populate_record(t, \'{{"tenant": "{OTHER}"}}\')).* FROM {table} t'
            f" WHERE tenant = '{OURS}'"
        )
    # Theirs has no jobs yet: nothing is scheduled before it is planned.
    await house.rows("DELETE FROM sequences.messages WHERE tenant = $1", OTHER)
    await house.save(step("own", anchor="event_time"), event="booking_cancelled", name="Ours alone")
    return UUID(saved["id"]), UUID(booked["id"])


@pytest.mark.req("A-8.1")
async def test_nothing_crosses_between_tenants_with_the_same_ids(house: House) -> None:
    """Asked past the wall in the database, so that each statement has to name its tenant itself."""
    sequence_id, booking_id = await furnish(house)
    bell, notify = house.bench.bell, house.notify
    bookings, sequences = Bookings(bell, notify), Sequences(bell, notify)
    before = await everything(house, OURS)
    async with bell.transaction(tenant=OTHER) as tx:
        held = await bookings.hold(tx, booking_id)
        assert [id for id, _ in held.people] == [house.ada, house.bob]
        change = BookingChange(starts_at=START + DAY, ends_at=END + DAY, event_name="Theirs")
        changed = await bookings.change(tx, held, change, by=BY)
        assert changed.diff == {"kept": 0, "moved": 0, "added": 3, "withdrawn": 0}
    for tenant, name in ((OURS, "A stay by the lake"), (OTHER, "Theirs")):
        async with bell.transaction(tenant=tenant) as tx:
            assert (await bookings.get(tx, booking_id)).facts["eventName"] == name
    assert await everything(house, OURS) == before
    async with bell.transaction(tenant=OTHER) as tx:
        sequence = await sequences.hold(tx, sequence_id)
        said = SequenceChange(name="Theirs", steps=(step_of(_stored("day", "-P2D")),))
        application = await sequences.apply(tx, await sequences.change(tx, sequence, said, by=BY), by=BY)
        assert application.enrolled_count == 1
        assert application.counts["withdrawn"] == 2
        assert (
            len((await Reading(bell, notify).sequences(tx, trigger_event=None, limit=9, cursor=None)).lines)
            == 2
        )
    assert await everything(house, OURS) == before
    async with bell.transaction(tenant=OTHER) as tx:
        await notify.recipients.erase(tx, house.ada)
        assert [id for id, _ in (await bookings.get(tx, booking_id)).people] == [house.bob]
    assert await everything(house, OURS) == before
    async with bell.transaction(tenant=OTHER) as tx:
        moved = await bookings.move(tx, await bookings.hold(tx, booking_id, "cancel"), "cancel", by=BY)
        assert moved.enrolled == 1
        messages = await Reading(bell, notify).messages_of_booking(tx, booking_id, limit=50, cursor=None)
        assert {one.status for one in messages.lines if one.step == "day"} == {"cancelled"}
    async with bell.transaction(tenant=OTHER) as tx:
        await sequences.delete(tx, await sequences.hold(tx, sequence_id), by=BY)
        await bookings.change_settings(tx, checks_in=True, completes=True, by=BY)
    assert await everything(house, OURS) == before
    assert set((await house.statuses(str(booking_id))).values()) == {"scheduled"}
    assert done(await house.ask("GET", "/api/booking-settings"))["checkInAtStart"] is False


@pytest.mark.req("A-8.1")
async def test_what_is_sent_and_written_down_is_of_its_tenant(house: House) -> None:
    """Both have the same message under the same id; ours is sent and settled, and theirs stays as it was: one that is
    owed much later."""
    _, booking_id = await furnish(house)
    await house.rows(
        "INSERT INTO sequences.messages SELECT (jsonb_populate_record(m, "
        '\'{"tenant": "other", "due_at": "2035-01-01T00:00:00Z"}\')).* FROM sequences.messages m'
    )
    theirs = await everything(house, OTHER)
    await house.pass_until(START)
    assert (await house.statuses(str(booking_id)))["day/Ada"] == "sent"
    assert APP.on_prune is not None
    for _ in range(4):
        await APP.on_prune(house.bench.bell, 100)
    settled = "SELECT count(*) FROM sequences.messages WHERE status = 'sent' AND settled_at IS NOT NULL"
    assert await house.value(settled) == 2
    assert await everything(house, OTHER) == theirs
    texts = {"Guten Tag Ada, A stay by the lake", "Hello Bob, A stay by the lake"}
    assert {parcel.content.text for parcel in house.arrived} == texts


def _stored(key: str, offset: str) -> dict[str, Any]:
    rest: dict[str, Any] = {
        "anchor": "booking_start",
        "at": None,
        "channel": "email",
        "contacts": "primary",
        "conditions": {},
    }
    return {"key": key, "offset": offset, "templateId": "note", **rest}


class Ordered(RecordingProvider):
    """Notes whose messages arrived, in which order and when."""

    def __init__(self) -> None:
        super().__init__("ordered")
        self.tenants: list[str] = []
        self.arrived_at: dict[str, float] = {}
        self.is_busy = asyncio.Event()
        self.is_there = asyncio.Event()

    async def send(self, parcel: Parcel) -> Answer:
        self.tenants.append(parcel.tenant)
        self.arrived_at.setdefault(parcel.tenant, time.monotonic())
        if len(self.tenants) > 200:
            self.is_busy.set()
        if parcel.tenant == QUIET:
            self.is_there.set()
        return await super().send(parcel)


async def prepare(bell: Timebell, tenant: str) -> NewBooking:
    """A sequence with one message at once, and a booking that starts it."""
    notify = Notify(bell)
    async with bell.transaction(tenant=tenant) as tx:
        await notify.templates.save(tx, draft("loud", "Hello"))
        guest = await notify.recipients.add(tx, name="Guest", email=f"guest@{tenant}.example.org")
    async with bell.transaction(tenant=tenant) as tx:
        stored = {**_stored("now", "PT0S"), "anchor": "event_time", "templateId": "loud"}
        new = NewSequence(name="Loud", trigger_event="booking_created", terms=Terms(steps=(step_of(stored),)))
        await Sequences(bell, notify).save(tx, new, by=BY)
    return NewBooking(
        people=[(guest.id, "guest")],
        subtype="stay",
        event_name="x",
        starts_at=START,
        ends_at=END,
        timezone="UTC",
    )


async def book(bell: Timebell, tenant: str, one: NewBooking, number: int) -> None:
    for begin in range(0, number, 200):
        async with bell.transaction(tenant=tenant) as tx:
            added = [one] * min(200, number - begin)
            await Bookings(bell, Notify(bell)).add_many(tx, added, by=BY)


@pytest.mark.req("A-8.2")
async def test_a_backlog_of_one_is_not_before_the_message_of_another(
    sequences_database: TestDatabase,
) -> None:
    mail = Ordered()
    async with open_house(sequences_database, [mail]) as house:
        bell = house.bench.bell
        await book(bell, LOUD, await prepare(bell, LOUD), 500)
        house.clock.move(MINUTE)
        await book(bell, QUIET, await prepare(bell, QUIET), 1)
        await house.bench.run_due()
    assert (mail.tenants.count(LOUD), mail.tenants.count(QUIET)) == (500, 1)
    assert mail.tenants.index(QUIET) <= 200


@pytest.mark.slow
@pytest.mark.req("A-8.2")
async def test_ten_thousand_due_messages_delay_another_tenant_by_two_seconds_at_most(
    sequences_database: TestDatabase,
) -> None:
    """In real time: a node is in the middle of the backlog as somebody else books."""
    mail = Ordered()
    database = await Database.open(sequences_database.url)
    registry = Registry([notify_app([mail]), APP])
    bell = Timebell(database, registry=registry, settings=Settings(), clock=SystemClock())
    try:
        await book(bell, LOUD, await prepare(bell, LOUD), 10_000)
        one = await prepare(bell, QUIET)
        async with Engine(bell).running(), asyncio.timeout(240):
            await mail.is_busy.wait()
            await book(bell, QUIET, one, 1)
            booked_at, before = time.monotonic(), len(mail.tenants)
            await mail.is_there.wait()
    finally:
        await bell.close()
        await database.close()
    took = mail.arrived_at[QUIET] - booked_at
    in_front = mail.tenants.index(QUIET) - before
    print(f"{in_front} messages went before it, which took {took:.2f} s")
    assert before < 9_000, "it was in the middle of it"
    assert in_front < 1_000, "more than a slow machine sends in two seconds"
