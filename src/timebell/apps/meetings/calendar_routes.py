"""Calendars: those that people have elsewhere, the one that they have here, and the page that a mail leads to."""

from __future__ import annotations

from typing import Final

from timebell.apps.meetings.calendar_bodies import (
    CALENDAR_BYTES_MAX,
    UPLOAD_NAME,
    CalendarInput,
    CalendarRow,
    calendar_row,
)
from timebell.apps.meetings.feeds import PATH as FEED_PATH
from timebell.apps.meetings.feeds import Feed, get_calendar_feed, read_calendar_feed, renew_calendar_feed
from timebell.apps.meetings.imports import Found, Imports
from timebell.apps.meetings.invitations import PATH as PAGE_PATH
from timebell.apps.meetings.pages import answer_proposal, show_proposal
from timebell.web import Answer, Call, Listed, PageQuery, Route, listed

_TAG: Final = "meetings: calendars"
_EXAMPLE: Final = "\r\n".join(
    (
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "BEGIN:VEVENT",
        "UID:1",
        "DTSTART;TZID=Europe/Berlin:20270304T120000",
        "DTEND;TZID=Europe/Berlin:20270304T130000",
        "RRULE:FREQ=WEEKLY",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    )
)


async def read_upload(call: Call, *, body: CalendarInput) -> Found | None:
    """A file in an import is read before anything is locked or written."""
    return None if body.ics is None else await _imports(call).read(call.tenant, call.person, body.ics)


async def import_calendar(call: Call, *, body: CalendarInput, prepared: Found | None) -> CalendarRow:
    """A file counts at once. What lies at a URL is read as soon as possible, and then every few hours: `status` tells.

    A file may also be sent as it is, as `text/calendar`. Of a calendar only the times are kept, not what they are for.
    """
    imports = _imports(call)
    if body.url is not None:
        made = await imports.follow(call.tx, call.person, name=body.name, url=body.url, actor=call.by)
    else:
        assert prepared is not None, "the body has one of them"
        name = body.name or UPLOAD_NAME
        made = await imports.upload(call.tx, call.person, name=name, found=prepared, actor=call.by)
    return calendar_row(made)


async def list_calendars(call: Call, *, query: PageQuery) -> object:
    """The calendars that the acting recipient has imported, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _imports(call).list(tx, call.person, limit=query.limit, cursor=query.cursor)
    return listed(page, calendar_row)


async def get_calendar(call: Call) -> CalendarRow:
    """One imported calendar, and how it was to read."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return calendar_row(await _imports(call).get(tx, call.person, call.path["id"]))


async def remove_calendar(call: Call) -> Answer:
    """It counts no more, and is not read again."""
    await _imports(call).remove(call.tx, call.person, call.path["id"], actor=call.by)
    return Answer(content=None, status=204)


def _imports(call: Call) -> Imports:
    return Imports(call.bell, call.notify)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path="/api/calendar-import",
        run=import_calendar,
        prepare=read_upload,
        summary="Import a busy calendar",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="recipient",
        body=CalendarInput,
        answer=CalendarRow,
        idempotency="optional",
        example={"name": "Lunch", "ics": _EXAMPLE},
        texts={"text/calendar": "ics"},
        bytes_max=CALENDAR_BYTES_MAX,
        problems={409: "The key is in use, or there are too many calendars."},
        codes={
            "too_many_calendars": "The person has imported as many calendars as anybody may. Take one away first."
        },
    ),
    Route(
        method="GET",
        path="/api/calendar-import",
        run=list_calendars,
        summary="List imported calendars",
        tag=_TAG,
        acts_for="recipient",
        query=PageQuery,
        answer=Listed[CalendarRow],
    ),
    Route(
        method="GET",
        path="/api/calendar-import/{id}",
        run=get_calendar,
        summary="Get an imported calendar",
        tag=_TAG,
        acts_for="recipient",
        answer=CalendarRow,
    ),
    Route(
        method="DELETE",
        path="/api/calendar-import/{id}",
        run=remove_calendar,
        summary="Remove an imported calendar",
        tag=_TAG,
        status=204,
        scope="write",
        acts_for="recipient",
    ),
    Route(
        method="GET",
        path="/api/calendar-feed",
        run=get_calendar_feed,
        summary="Get the address of a calendar",
        tag=_TAG,
        acts_for="recipient",
        answer=Feed,
    ),
    Route(
        method="POST",
        path="/api/calendar-feed",
        run=renew_calendar_feed,
        again=get_calendar_feed,
        summary="Get a new address of a calendar",
        tag=_TAG,
        scope="write",
        acts_for="recipient",
        answer=Feed,
        idempotency="optional",
    ),
    Route(
        method="GET",
        path=FEED_PATH,
        run=read_calendar_feed,
        summary="Read a calendar",
        tag=_TAG,
        scope=None,
        media_type="text/calendar",
    ),
    Route(
        method="GET",
        path=f"{PAGE_PATH}{{token}}",
        run=show_proposal,
        summary="Show a proposal",
        tag=_TAG,
        scope=None,
        media_type="text/html",
        problems={410: "All the times that were proposed have passed."},
        codes={"link_expired": "All the times that were proposed have passed. Ask for new ones."},
    ),
    Route(
        method="POST",
        path=f"{PAGE_PATH}{{token}}",
        run=answer_proposal,
        summary="Answer a proposal",
        tag=_TAG,
        scope=None,
        media_type="text/html",
        problems={
            403: "The one who proposed it cannot accept it.",
            408: "The body did not come in time.",
            409: "Somebody has answered already, or somebody is not free.",
            410: "All the times that were proposed have passed.",
            413: "The body is too large.",
            422: "The form names no time that was proposed and is still to come.",
        },
    ),
)
