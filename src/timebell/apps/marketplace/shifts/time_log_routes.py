"""`/api/marketplace/time-logs`: worked, submitted and verified, by those who have a part in the booking."""

from __future__ import annotations

from typing import Any, Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.shifts.bodies import EditInput, EndInput, TimeLogRow
from timebell.apps.marketplace.shifts.links import PATH
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.pages import show_timesheet, verify_timesheet
from timebell.apps.marketplace.shifts.refusals import CODES
from timebell.apps.marketplace.shifts.service import VERIFIERS, WORKER, Held, Shifts
from timebell.apps.marketplace.staffing.access import Part
from timebell.apps.marketplace.staffing.refusals import CODES as STAFFING_CODES
from timebell.web import Answer, Call, Route

_TAG: Final = "marketplace"
_CODES: Final = {
    "not_allowed": STAFFING_CODES["not_allowed"],
    **{code: CODES[code] for code in ("time_log_status", "clock_in_refused")},
}


async def get_time_log(call: Call) -> Answer:
    """One shift, for whoever has a part in its booking."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return _shown(await Shifts(call.bell).get(tx, call.path["id"], by=by_caller(call)))


async def clock_in(call: Call) -> Answer:
    """The worker begins. Both the worker and the supervisor are reminded when the shift should have ended."""
    held = await _held(call, WORKER)
    return _shown(await Shifts(call.bell).clock_in(call.tx, held, by=by_caller(call)))


async def draft_time_log(call: Call, *, body: EndInput) -> Answer:
    """The worker begins the timesheet. That is no clock-out."""
    held = await _held(call, WORKER)
    return _shown(await Shifts(call.bell).draft(call.tx, held, body.end, by=by_caller(call)))


async def submit_time_log(call: Call, *, body: EndInput) -> Answer:
    """The worker clocks out. From now on there are four hours to verify or dispute it."""
    held = await _held(call, WORKER)
    return _shown(await Shifts(call.bell).submit(call.tx, held, body.end, by=by_caller(call)))


async def force_clock_out(call: Call, *, body: EndInput) -> Answer:
    """The worker is clocked out by whoever verifies, as after a forgotten submit."""
    held = await _held(call, VERIFIERS)
    return _shown(await Shifts(call.bell).force_clock_out(call.tx, held, body.end, by=by_caller(call)))


async def verify_time_log(call: Call) -> Answer:
    """What was worked is right. What is held for it is paid out."""
    held = await _held(call, VERIFIERS)
    return _shown(await Shifts(call.bell).verify(call.tx, held, by=by_caller(call)))


async def edit_time_log(call: Call, *, body: EditInput) -> Answer:
    """Corrects the times. The supervisor who does so with less than an hour left gives everybody one hour more."""
    held = await _held(call, VERIFIERS)
    edited = await Shifts(call.bell).edit(
        call.tx, held, start=body.start, end=body.end, reason=body.reason, by=by_caller(call)
    )
    return _shown(edited)


async def _held(call: Call, needed: tuple[Part, ...]) -> Held:
    held = await Shifts(call.bell).hold(call.tx, call.path["id"], *needed, by=by_caller(call))
    call.check_revision(held.shift.revision)
    return held


def _shown(shift: Shift) -> Answer:
    return Answer(content=TimeLogRow.model_validate(shift), revision=shift.revision)


def _transition(verb: str, run: Any, summary: str, **more: Any) -> Route:
    return Route(
        method="POST",
        path=f"/api/marketplace/time-logs/{{id}}/{verb}",
        run=run,
        summary=summary,
        tag=_TAG,
        scope="write",
        acts_for="either",
        answer=TimeLogRow,
        idempotency="required",
        problems={
            403: "the acting recipient has no role that may do this",
            409: "the time log is in a state that this does not lead out of",
        },
        codes=_CODES,
        **more,
    )


_END: Final = {"end": "2027-03-02T15:00:00Z"}

ROUTES: Final = (
    Route(
        method="GET",
        path="/api/marketplace/time-logs/{id}",
        run=get_time_log,
        summary="Read a time log",
        tag=_TAG,
        acts_for="either",
        answer=TimeLogRow,
    ),
    _transition("clock-in", clock_in, "Clock in"),
    _transition("draft", draft_time_log, "Begin a timesheet", body=EndInput, example=_END),
    _transition("submit", submit_time_log, "Submit a timesheet", body=EndInput, example=_END),
    _transition("force-clock-out", force_clock_out, "Clock somebody out", body=EndInput, example=_END),
    _transition("verify", verify_time_log, "Verify a timesheet"),
    _transition(
        "edit",
        edit_time_log,
        "Correct a timesheet",
        body=EditInput,
        example={**_END, "reason": "The crane stood still"},
    ),
    Route(
        method="GET",
        path=f"{PATH}{{token}}",
        run=show_timesheet,
        summary="Show a timesheet",
        tag=_TAG,
        scope=None,
        media_type="text/html",
        problems={410: "The link is too old."},
        codes={"link_expired": "The link is too old to be of use. Sign in to see the timesheet."},
    ),
    Route(
        method="POST",
        path=f"{PATH}{{token}}",
        run=verify_timesheet,
        summary="Verify a timesheet from a link",
        tag=_TAG,
        scope=None,
        media_type="text/html",
        problems={
            403: "The person may not verify it any more.",
            409: "It was verified, approved or disputed before.",
            410: "The link is too old.",
        },
    ),
)
