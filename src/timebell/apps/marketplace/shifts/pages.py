"""`/t/{token}`: the page on which somebody verifies a timesheet from a text message. Reading it changes nothing.

Robots follow every link, so only a POST acts. Whoever has the message has the link, and needs neither a script nor to
log in. The link is for one person, who must still be one who may verify it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.refusals import MarketplaceRefused
from timebell.apps.marketplace.shifts.links import TimesheetLink, TimesheetLinks
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.service import VERIFIERS, Shifts
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import NotFound
from timebell.kernel import Transaction
from timebell.rules.localtime import zone
from timebell.web import Problem, Surface, page, walled_to

_TITLE: Final = "Timesheet"
_BROKEN: Final = "The link is not one of ours, was cut, or is of no use any more."
_STATES: Final = {
    "Verified": "This timesheet is verified.",
    "Disputed": "This timesheet is disputed.",
    "Pending_Verification": "Please check it, and verify it if it is right.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """A timesheet as its reader sees it."""

    booking: Booking
    shift: Shift
    worker: str
    now: datetime


async def show_timesheet(surface: Surface, request: Request) -> Response:
    """The timesheet, and a button to verify it. It only asks: robots follow every link."""
    link = _link_of(surface, request)
    if link is None:
        return _broken(request)
    with walled_to(link.tenant):
        async with surface.bell.transaction(tenant=link.tenant) as tx:
            sheet = await _read(surface, tx, link)
    if sheet is None:
        return _broken(request)
    if link.expires_at <= sheet.now:
        return _expired(request)
    return _shown(sheet)


async def verify_timesheet(surface: Surface, request: Request) -> Response:
    """Verify it as the person whom the link is for. Once it is decided, it says what became of it."""
    link = _link_of(surface, request)
    if link is None:
        return _broken(request)
    by = By(person=link.person, name=f"recipient:{link.person}", correlation_id=request.state.correlation_id)
    with walled_to(link.tenant):
        async with surface.bell.transaction(tenant=link.tenant) as tx:
            sheet = await _read(surface, tx, link)
        if sheet is None:
            return _broken(request)
        if link.expires_at <= sheet.now:
            return _expired(request)
        try:
            async with surface.bell.transaction(tenant=link.tenant) as tx:
                shifts = Shifts(surface.bell)
                held = await shifts.hold(tx, link.time_log_id, *VERIFIERS, by=by)
                shift = await shifts.verify(tx, held, by=by)
        except NotFound:
            return _broken(request)
        except MarketplaceRefused as error:
            problem = surface.problems.of(error)
            assert problem is not None, "the app says how it is told"
            return await _refused(surface, request, link, problem)
    return _shown(_Sheet(booking=sheet.booking, shift=shift, worker=sheet.worker, now=sheet.now))


async def _read(surface: Surface, tx: Transaction, link: TimesheetLink) -> _Sheet | None:
    """None where there is no such timesheet for that person, or not any more."""
    store = ShiftStore(surface.bell.clock)
    by = By(person=link.person, name=f"recipient:{link.person}")
    try:
        shift = await Shifts(surface.bell).get(tx, link.time_log_id, by=by)
    except NotFound:
        return None
    booking = await Bookings(surface.bell).get(tx, shift.booking_id)
    person = booking.worker_recipient_id
    names = await surface.notify.recipients.get_many(tx, [person])
    return _Sheet(
        booking=booking,
        shift=shift,
        worker=names[person].name if person in names else "?",
        now=await store.read_clock(tx),
    )


def _shown(sheet: _Sheet, *, status: int = 200) -> Response:
    """In the project's own time, which is where it was worked."""
    shift = sheet.shift
    lines = (
        ("Worker", sheet.worker),
        ("Day", shift.shift_date.isoformat()),
        ("From", _local(sheet, shift.work_start)),
        ("To", _local(sheet, shift.work_end)),
        (
            "Worked",
            "–" if shift.worked_minutes is None else "{}:{:02}".format(*divmod(shift.worked_minutes, 60)),
        ),
        ("Submitted", _local(sheet, shift.clock_out_time)),
        ("Approves by itself", _local(sheet, shift.auto_approval_time)),
    )
    more = "".join(f"<p>{escape(name)}: <strong>{escape(value)}</strong></p>" for name, value in lines)
    if shift.status == "Pending_Verification":
        more += '<form method="post"><button>Verify</button></form>'
    return page(_TITLE, _STATES.get(shift.status, f"This shift is {shift.status}."), more, status=status)


def _local(sheet: _Sheet, at: datetime | None) -> str:
    if at is None:
        return "–"
    timezone = sheet.booking.timezone
    return f"{at.astimezone(zone(timezone)):%Y-%m-%d %H:%M} ({timezone})"


async def _refused(surface: Surface, request: Request, link: TimesheetLink, problem: Problem) -> Response:
    """The page again, with what became of it; whoever is no browser is told as everywhere else."""
    if not _wants_page(request):
        raise problem
    async with surface.bell.transaction(tenant=link.tenant) as tx:
        sheet = await _read(surface, tx, link)
    return _broken(request) if sheet is None else _shown(sheet, status=problem.status)


def _link_of(surface: Surface, request: Request) -> TimesheetLink | None:
    links = TimesheetLinks(surface.bell)
    if not links.can_read:
        raise Problem(503, "secret_key_missing", "secret_key is not set on this server; links cannot be read")
    return links.read(request.path_params["token"])


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _broken(request: Request) -> Response:
    if not _wants_page(request):
        raise Problem(404, "not_found", _BROKEN)
    return page(_TITLE, _BROKEN, status=404)


def _expired(request: Request) -> Response:
    if not _wants_page(request):
        raise Problem(410, "link_expired", "the link is too old; sign in to see the timesheet")
    return page(_TITLE, "The link is too old. Sign in to see the timesheet.", status=410)
