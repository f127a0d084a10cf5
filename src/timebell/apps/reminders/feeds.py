"""A person's schedules as a calendar that any program may subscribe to, at an address that is secret.

Who has the address sees the titles and times, and can change nothing. One that others came to know is exchanged for a
new one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.reminders.models import details_of, owner_of
from timebell.apps.reminders.store import ReminderStore
from timebell.apps.reminders.tasks import Tasks
from timebell.kernel import Schedule, Timebell, Transaction
from timebell.rules.ics import CalendarEntry, calendar_file
from timebell.web import Call, Output, SecretFeed, SecretText, Surface

PATH: Final = "/feeds/schedules/{file}"
_FEED: Final = SecretFeed(path=PATH, purpose="timebell reminders feed v1")
_SINCE: Final = timedelta(days=30)
_PAGE: Final = 500
_PAGES_MAX: Final = 20
_SCHEDULES_MAX: Final = 200
_ENTRIES_MAX: Final = 5_000


class Feed(Output):
    """Where a person's calendar is. Whoever knows the address can read it."""

    url: SecretText


async def get_schedule_feed(call: Call) -> Feed:
    """The secret address of the calendar of the acting recipient: what is planned, and the last 30 days."""
    return Feed(url=_FEED.address(call, await _FEED.generation(call, ReminderStore(call.bell.clock))))


async def renew_schedule_feed(call: Call) -> Feed:
    """A new address, for when others came to know the old one, which leads nowhere from now on."""
    generation = await ReminderStore(call.bell.clock).renew_feed(call.tx, recipient_id=call.person)
    await call.bell.record(
        call.tx, "schedule.feed_renewed", {}, subject=f"schedule-feed:{call.person}", actor=call.by
    )
    return Feed(url=_FEED.address(call, generation))


async def read_schedule_feed(surface: Surface, request: Request) -> Response:
    """The calendar itself, as iCalendar; anybody who has the address may ask."""
    async with _FEED.opened(surface, request, ReminderStore(surface.bell.clock)) as feed:
        text = await _calendar(surface.bell, feed.tx, feed.person.id)
    return Response(text, media_type="text/calendar", headers={"cache-control": "private, max-age=300"})


async def _calendar(bell: Timebell, tx: Transaction, person: UUID) -> str:
    now = await Tasks(bell).now(tx)
    since = now - _SINCE
    schedules = await _shown(bell, tx, person, since)
    entries: list[CalendarEntry] = []
    for schedule in schedules:
        entries += await _entries(bell, tx, schedule, since, _ENTRIES_MAX - len(entries))
    # When something changed last is when the file was made, so that the same calendar is the same file.
    made_at = max((schedule.updated_at for schedule in schedules), default=now)
    return calendar_file(entries, made_at=made_at)


async def _shown(bell: Timebell, tx: Transaction, person: UUID, since: datetime) -> list[Schedule]:
    """Of all that a person ever had, those that may have something since; where they are too many, the newest."""
    found: list[Schedule] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await bell.schedules.list(tx, owner=owner_of(person), limit=_PAGE, cursor=cursor)
        found += [one for one in page.lines if one.state != "ended" or one.planned_until >= since]
        cursor = page.next_cursor
        if cursor is None:
            break
    # What goes on is the last to be left out.
    found.sort(key=lambda one: one.state != "ended")
    return found[-_SCHEDULES_MAX:]


async def _entries(
    bell: Timebell, tx: Transaction, schedule: Schedule, since: datetime, room: int
) -> list[CalendarEntry]:
    if room <= 0:
        return []
    page = await bell.schedules.occurrences(tx, schedule.id, from_at=since, limit=min(room, _PAGE))
    title = details_of(schedule).title
    return [
        CalendarEntry(uid=f"{one.id}@timebell", at=one.occurs_at, title=title)
        for one in page.lines
        if one.state == "planned"
    ]
