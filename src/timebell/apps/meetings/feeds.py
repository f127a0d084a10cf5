"""A person's meetings as a calendar that any program may subscribe to, at an address that is secret.

The address says whose calendar it is, and which of those that the person has had so far; it is signed. Who has it sees
the titles, places and times, and can change nothing. One that others came to know is exchanged for a new one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.meetings.calendars import FeedMeeting, uid_of
from timebell.apps.meetings.free_time import available
from timebell.apps.meetings.page_texts import texts_for
from timebell.apps.meetings.store import MeetingStore
from timebell.apps.meetings.store_availability import AvailabilityStore
from timebell.apps.meetings.store_calendars import CalendarStore
from timebell.errors import NotFound
from timebell.kernel import Timebell, Transaction
from timebell.notify import Recipient
from timebell.rules.ics import CalendarEntry, calendar_file
from timebell.rules.localtime import aware, naive_utc
from timebell.rules.signing import Signer
from timebell.web import Call, Output, Problem, Surface, walled_to

PATH: Final = "/feeds/meetings/{file}"
_SUFFIX: Final = ".ics"
_PURPOSE: Final = "timebell meetings feed v1"
_FILE_MAX: Final = 1_000
_SINCE: Final = timedelta(days=30)
_AHEAD: Final = timedelta(weeks=8)
_MEETINGS_MAX: Final = 2_000


class Feed(Output):
    """Where a person's calendar is. Whoever knows the address can read it.

    At `url` are the meetings, at `availability_url` the hours besides in which the person may be met.
    """

    url: str
    availability_url: str


async def get_calendar_feed(call: Call) -> Feed:
    """The secret address of the calendar of the acting recipient: what was accepted, and the last 30 days."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        generation = await CalendarStore(call.bell.clock).read_feed(tx, recipient_id=call.person)
    return _feed(call, generation)


async def renew_calendar_feed(call: Call) -> Feed:
    """A new address, for when others came to know the old one, which leads nowhere from now on."""
    generation = await CalendarStore(call.bell.clock).renew_feed(call.tx, recipient_id=call.person)
    await call.bell.record(
        call.tx, "calendar.feed_renewed", {}, subject=f"calendar-feed:{call.person}", actor=call.by
    )
    return _feed(call, generation)


async def read_calendar_feed(surface: Surface, request: Request) -> Response:
    """The calendar itself, as iCalendar; anybody who has the address may ask."""
    tenant, person, generation, is_wide = _read(surface.bell.settings.secret_key, request.path_params["file"])
    with walled_to(tenant):
        async with surface.bell.transaction(tenant=tenant) as tx:
            people = await surface.notify.recipients.get_many(tx, [person])
            current = await CalendarStore(surface.bell.clock).read_feed(tx, recipient_id=person)
            if person not in people or current != generation:
                raise _no_feed()
            text = await _calendar(surface.bell, tx, people[person], is_wide=is_wide)
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
    signer = _signer(call.bell.settings.secret_key)

    def address(*, is_wide: bool) -> str:
        body = orjson.dumps([call.tenant, str(call.person), generation, is_wide])
        return call.base_url + PATH.format(file=signer.sign(body) + _SUFFIX)

    return Feed(url=address(is_wide=False), availability_url=address(is_wide=True))


def _read(secret: str | None, file: str) -> tuple[str, UUID, int, bool]:
    if len(file) > _FILE_MAX or not file.endswith(_SUFFIX):
        raise _no_feed()
    body = _signer(secret).read(file.removesuffix(_SUFFIX))
    if body is None:
        raise _no_feed()
    tenant, person, generation, is_wide = orjson.loads(body)
    return tenant, UUID(person), generation, is_wide


def _signer(secret: str | None) -> Signer:
    if secret is None:
        raise Problem(503, "secret_key_missing", "secret_key is not set on this server; there are no feeds")
    return Signer(secret, _PURPOSE)


def _no_feed() -> NotFound:
    return NotFound("there is no such calendar; ask for the address again")
