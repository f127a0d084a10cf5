"""Many bookings at once, and one among many."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.apps.sequences.support import DAY, END, START, House, step
from timebell.apps.sequences.bookings import BookingChange, Bookings, NewBooking
from timebell.apps.sequences.models import By

BY = By(name="somebody")
WEEK = [step(f"day_{day}", f"-P{day}D") for day in range(1, 9)]
# Each row of a tenant that is about a subject, by the version of it that is there.
VERSIONS = """
    SELECT 'subject', subject, id::text, xmin::text FROM sequences.subjects
    UNION ALL SELECT 'person', subject, recipient_id::text, xmin::text FROM sequences.subject_people
    UNION ALL SELECT 'enrolment', subject, sequence_id::text, xmin::text FROM sequences.enrolments
    UNION ALL SELECT 'message', subject, id::text, xmin::text FROM sequences.messages
    UNION ALL SELECT 'agenda', subject, '', xmin::text FROM timebell.agendas WHERE subject LIKE 'booking:%'
    UNION ALL SELECT 'job', subject, id::text, xmin::text FROM timebell.jobs WHERE subject LIKE 'booking:%'
"""


def stay(house: House, number: int = 0) -> NewBooking:
    return NewBooking(
        people=[(house.ada, "guest")],
        subtype="stay",
        event_name=f"Stay {number}",
        starts_at=START + timedelta(minutes=number % 1_000),
        ends_at=END + timedelta(minutes=number % 1_000),
        timezone="Europe/Berlin",
    )


async def book_many(house: House, count: int) -> list[UUID]:
    bell = house.bench.bell
    ids: list[UUID] = []
    for begin in range(0, count, 200):
        async with bell.transaction() as tx:
            news = [stay(house, number) for number in range(begin, min(begin + 200, count))]
            ids += [one.subject.id for one in await Bookings(bell, house.notify).add_many(tx, news, by=BY)]
    return ids


async def test_bookings_that_come_together_are_enrolled_as_each_by_itself(house: House) -> None:
    await house.save(*WEEK)
    await house.save(event="booking_confirmed", name="Confirmed")
    bell = house.bench.bell
    bookings = Bookings(bell, house.notify)
    async with bell.transaction() as tx:
        together = await bookings.add_many(tx, [stay(house), stay(house)], by=BY)
        alone = await bookings.add(tx, stay(house), by=BY)
    assert [one.enrolled for one in (*together, alone)] == [8, 8, 8]
    seen = [await house.messages(str(one.subject.id)) for one in (*together, alone)]
    instants = [{key: one["scheduledFor"] for key, one in each.items()} for each in seen]
    assert instants[0] == instants[1] == instants[2]
    assert [each.diff["added"] for each in together] == [8, 8]


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_other_dates_touch_no_row_of_another_booking(house: House, count: int) -> None:
    await house.save(*WEEK)
    ids = await book_many(house, count)
    assert await house.value("SELECT count(*) FROM timebell.jobs WHERE subject LIKE 'booking:%'") == count * 8
    before = {row[:3]: row[3] for row in map(tuple, await house.rows(VERSIONS))}
    moved = ids[count // 2]
    bell = house.bench.bell
    bookings = Bookings(bell, house.notify)
    async with bell.transaction() as tx:
        held = await bookings.hold(tx, moved)
        change = BookingChange(starts_at=START + 2 * DAY, ends_at=END + 2 * DAY)
        happened = await bookings.change(tx, held, change, by=BY)
    assert happened.diff["moved"] == 8
    after = {row[:3]: row[3] for row in map(tuple, await house.rows(VERSIONS))}
    assert after.keys() == before.keys()
    touched = {row for row, version in after.items() if before[row] != version}
    assert {subject for _, subject, _ in touched} == {f"booking:{moved}"}
    assert sum(kind == "job" for kind, _, _ in touched) == 8
