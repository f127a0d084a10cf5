"""What is refused, in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.rules import ClockInRefusal
from timebell.errors import NotFound
from timebell.web import FieldError, Problem

# As the pages explain them that a refusal points to.
CODES: Final = {
    "time_log_status": (
        "The time log is in a state that this does not lead out of. Read it again; `time_log_status` is that state."
    ),
    "clock_in_refused": (
        "Nobody may clock in to this shift for now: the booking is suspended, cancelled, over or on hold, or the shift "
        "was cancelled. The detail says which, and `reason` is `insurance` where one is not valid."
    ),
}


def no_time_log(id: UUID) -> NotFound:
    return NotFound(f"there is no time log {id}")


def not_possible(action: str, status: ShiftStatus) -> Problem:
    detail = f"you cannot {action} a time log that is {status}; read it again"
    return Problem(409, "time_log_status", detail, more={"time_log_status": status})


def clock_in_refused(refused: ClockInRefusal, why: str) -> Problem:
    reason = "insurance" if refused == "booking_suspended" else refused
    return Problem(409, "clock_in_refused", why, more={"reason": reason})


def wrong_field(field: str, message: str) -> Problem:
    error = FieldError(pointer=f"/{field}", code="invalid", message=message)
    return Problem(422, "invalid_input", f"{field}: {message}", errors=[error])
