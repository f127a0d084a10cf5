"""What is refused, in words that name the remedy."""

from __future__ import annotations

from datetime import datetime
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
    "dispute_too_late": (
        "A dispute is filed before a timesheet is verified, and no later than when it is approved by itself."
    ),
    "incident_closed": "The report was closed before.",
}


def no_time_log(id: UUID) -> NotFound:
    return NotFound(f"there is no time log {id}")


def no_dispute(id: UUID) -> NotFound:
    return NotFound(f"there is no dispute {id}")


def no_incident(id: UUID) -> NotFound:
    return NotFound(f"there is no incident report {id}")


def not_possible(action: str, status: ShiftStatus) -> Problem:
    detail = f"you cannot {action} a time log that is {status}; read it again"
    return Problem(409, "time_log_status", detail, more={"time_log_status": status})


def clock_in_refused(refused: ClockInRefusal, why: str) -> Problem:
    reason = "insurance" if refused == "booking_suspended" else refused
    return Problem(409, "clock_in_refused", why, more={"reason": reason})


def dispute_too_late(status: ShiftStatus, deadline: datetime | None) -> Problem:
    until = "" if deadline is None else f", by {deadline.isoformat()} at the latest"
    detail = f"the time log is {status}; a dispute is filed while it waits to be verified{until}"
    return Problem(409, "dispute_too_late", detail, more={"time_log_status": status})


def incident_closed() -> Problem:
    return Problem(409, "incident_closed", "the report is closed; report what is new as another one")


def wrong_field(field: str, message: str) -> Problem:
    error = FieldError(pointer=f"/{field}", code="invalid", message=message)
    return Problem(422, "invalid_input", f"{field}: {message}", errors=[error])
