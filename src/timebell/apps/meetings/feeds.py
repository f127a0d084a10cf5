"""A person's meetings as a calendar that any program may subscribe to, at an address that is secret.

Who has the address sees the titles, places and times, and can change nothing. One that others came to know is
exchanged for a new one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.meetings.calendars import FeedMeeting, uid_of
from timebell.apps.meetings.free_time import available
from timebell.apps.meetings.page_texts import texts_for
from timebell.apps.meetings.store import MeetingStore
from timebell.apps.meetings.store_availability import AvailabilityStore
from timebell.apps.meetings.store_calendars import CalendarStore
from timebell.kernel import Timebell, Transaction
from timebell.notify import Recipient
from timebell.rules.ics import CalendarEntry, calendar_file
from timebell.rules.localtime import aware, naive_utc
from timebell.web import Call, Output, SecretFeed, SecretText, Surface

PATH: Final = "/feeds/meetings/{file}"
_FEED: Final = SecretFeed(path=PATH, purpose="timebell meetings feed v1")
_SINCE: Final = timedelta(days=30)
_AHEAD: Final = timedelta(weeks=8)
_MEETINGS_MAX: Final = 2_000


class Feed(Output):
    """Where a person's calendar is. Whoever knows the address can read it.

    At `url` are the meetings, at `availability_url` the hours besides in which the person may be met.
    """

    url: SecretText
    availability_url: SecretText


async def get_calendar_feed(call: Call) -> Feed:
    """The secret address of the calendar of the acting recipient: what was accepted, and the last 30 days."""
    return _feed(call, await _FEED.generation(call, CalendarStore(call.bell.clock)))


async def renew_calendar_feed(call: Call) -> Feed:
    """A new address, for when others came to know the old one, which leads nowhere from now on."""
    generation = await CalendarStore(call.bell.clock).renew_feed(call.tx, recipient_id=call.person)
    await call.bell.record(
        call.tx, "calendar.feed_renewed", {}, subject=f"calendar-feed:{call.person}", actor=call.by
    )
    return _feed(call, generation)


async def read_calendar_feed(surface: Surface, request: Request) -> Response:
    """The calendar itself, as iCalendar; anybody who has the address may ask."""
    async with _FEED.opened(surface, request, CalendarStore(surface.bell.clock)) as feed:
        (is_wide,) = feed.more
        text = await _calendar(surface.bell, feed.tx, feed.person, is_wide=is_wide)
    return Response(text, media_type="text/calendar", headers={"cache-control": "private, max-age=300"})


async def _calendar(bell: Timebell, tx: Transaction, person: Recipient, *, is_wide: bool) -> str:
    now = await MeetingStore(bell.clock).read_clock(tx)
    meetings = await CalendarStore(bell.clock).list_feed_meetings(
        tx, recipient_id=person.id, since=now - _SINCE, limit=_MEETINGS_MAX
    )
    entries = [_entry(meeting) for meeting in meetings]
    if is_wide:
        entries += await _hours(bell, tx, person, now)
    # When something changed last is when the file was made, so that the same calendar is the same file.
    made_at = max((meeting.updated_at for meeting in meetings), default=_first_day(now))
    return calendar_file(entries, made_at=made_at, name=person.name)


async def _hours(bell: Timebell, tx: Transaction, person: Recipient, now: datetime) -> list[CalendarEntry]:
    """The hours in which a person may be met, which take nobody's time. Who has said none may be met at any time."""
    found = await AvailabilityStore(bell.clock).read_hours(tx, people=[person.id])
    if not found:
        return []
    # From midnight on, so that the same calendar is the same file all day.
    today = naive_utc(now, "now").replace(hour=0, minute=0, second=0, microsecond=0)
    return [
        CalendarEntry(
            uid=f"{person.id}-{start:%Y%m%dT%H%M}@timebell",
            at=aware(start),
            ends_at=aware(end),
            title=texts_for(person.language).available,
        )
        for start, end in available(found[0], (today, today + _AHEAD))
    ]


def _entry(meeting: FeedMeeting) -> CalendarEntry:
    return CalendarEntry(
        uid=uid_of(meeting.root_id),
        at=meeting.start,
        ends_at=meeting.end,
        title=meeting.title,
        text=meeting.description,
        location=meeting.location or "",
        status="CONFIRMED",
        sequence=meeting.sequence,
        is_busy=True,
    )


def _first_day(now: datetime) -> datetime:
    return now.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)


def _feed(call: Call, generation: int) -> Feed:
    return Feed(
        url=_FEED.address(call, generation, False), availability_url=_FEED.address(call, generation, True)
    )
