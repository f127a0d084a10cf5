"""A person's schedules as a calendar that any program may subscribe to, at an address that is secret.

The address is stateless: it says whose calendar it is and is signed with a key of its own, drawn from `secret_key`. Who
has it sees the titles and times, and can change nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.reminders.models import details_of, owner_of
from timebell.apps.reminders.tasks import Tasks
from timebell.errors import NotFound
from timebell.kernel import Schedule, Timebell, Transaction
from timebell.rules.ics import CalendarEntry, calendar_file
from timebell.rules.signing import Signer
from timebell.web import Call, Output, Problem, Surface, walled_to

PATH: Final = "/feeds/schedules/{file}"
_SUFFIX: Final = ".ics"
_PURPOSE: Final = "timebell reminders feed v1"
_FILE_MAX: Final = 1_000
_SINCE: Final = timedelta(days=30)
_PAGE: Final = 500
_PAGES_MAX: Final = 20
_SCHEDULES_MAX: Final = 200
_ENTRIES_MAX: Final = 5_000


class Feed(Output):
    """Where a person's calendar is. Whoever knows the address can read it."""

    url: str


async def get_schedule_feed(call: Call) -> Feed:
    """The secret address of the calendar of the acting recipient: what is planned, and the last 30 days."""
    body = orjson.dumps([call.tenant, str(call.person)])
    file = _signer(call.bell.settings.secret_key).sign(body) + _SUFFIX
    return Feed(url=call.base_url + PATH.format(file=file))


async def read_schedule_feed(surface: Surface, request: Request) -> Response:
    """The calendar itself, as iCalendar; anybody who has the address may ask."""
    tenant, person = _read(surface.bell.settings.secret_key, request.path_params["file"])
    with walled_to(tenant):
        recipient = await surface.notify.recipients.get(person, tenant=tenant)
        if recipient.erased_at is not None:
            raise _no_feed()
        async with surface.bell.transaction(tenant=tenant) as tx:
            text = await _calendar(surface.bell, tx, person)
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


def _read(secret: str | None, file: str) -> tuple[str, UUID]:
    if len(file) > _FILE_MAX or not file.endswith(_SUFFIX):
        raise _no_feed()
    body = _signer(secret).read(file.removesuffix(_SUFFIX))
    if body is None:
        raise _no_feed()
    tenant, person = orjson.loads(body)
    return tenant, UUID(person)


def _signer(secret: str | None) -> Signer:
    if secret is None:
        raise Problem(503, "secret_key_missing", "secret_key is not set on this server; there are no feeds")
    return Signer(secret, _PURPOSE)


def _no_feed() -> NotFound:
    return NotFound("there is no such calendar; ask for the address again")
