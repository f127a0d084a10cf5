"""`/v1/clock`: what time it is in a sandbox, and how to have it pass."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import Field

from timebell.errors import InvalidInput
from timebell.rules.every import is_calendar_duration, read_duration
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Output
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.sandbox import Advanced, Sandbox


class Clock(Output):
    """What time it is."""

    now: Instant


class Advance(Input):
    """How far: `by` a fixed time (ISO 8601) or `to` an instant, one of them."""

    by: Annotated[str, Field(min_length=1, max_length=100, examples=["PT1H"])] | None = None
    to: Instant | None = None


class AdvanceReport(Output):
    """What happened on the way: `ran` jobs came to their end, `sent` deliveries reached somebody or would have, inbox
    entries among them, and `failed` counts deliveries that failed and jobs that died."""

    now: Instant
    ran: int
    sent: int
    failed: int


async def read_clock(call: Call) -> dict[str, Any]:
    """What time it is in this sandbox. It stands still between two advances."""
    return {"now": _sandbox(call).now}


async def advance_clock(call: Call, body: Advance) -> Advanced:
    """Let time pass: everything that is due now is run, then what is due at each instant on the way, in order.

    What happens at an instant is stamped with it. Time goes forward only, and one advance waits for the other. Whoever
    does not know whether an advance was heard should use `to`, which can be said twice.
    """
    sandbox = _sandbox(call)
    return await sandbox.advance(by=None if body.by is None else _duration(body.by), to=body.to)


def _sandbox(call: Call) -> Sandbox:
    sandbox = call.surface.sandbox
    if sandbox is None:
        raise Problem(
            404, "not_found", "time is real here; a clock to move is only in `timebell up --sandbox`"
        )
    return sandbox


def _duration(text: str) -> timedelta:
    duration = read_duration(text)
    if duration is not None:
        return duration
    if is_calendar_duration(text):
        raise InvalidInput("months and years differ in length; say days, or use to", field="by")
    raise InvalidInput("give a fixed time such as PT15M, PT1H30M, P1D or P2W (ISO 8601)", field="by")


_TAG: Final = "clock"
_OUTSIDE: Final = {404: "Time is real here: this is no sandbox."}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/clock",
        run=read_clock,
        summary="Read the clock of the sandbox",
        tag=_TAG,
        scope="read",
        answer=Clock,
        problems=_OUTSIDE,
    ),
    Route(
        method="POST",
        path="/v1/clock/advance",
        run=advance_clock,
        # It has no transaction: what runs on the way has its own.
        shared=advance_clock,
        summary="Let time pass in the sandbox",
        tag=_TAG,
        scope="write",
        body=Advance,
        answer=AdvanceReport,
        example={"by": "PT1H"},
        problems=_OUTSIDE,
    ),
)
