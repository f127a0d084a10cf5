"""Refusals about shifts: errors in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.marketplace.refusals import MarketplaceRefused
from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.rules import ClockInRefusal
from timebell.errors import NotFound

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


class WrongTimeLogStatus(MarketplaceRefused):
    """A time log is in a state that this does not lead out of."""

    def __init__(self, message: str, status: ShiftStatus) -> None:
        super().__init__(message)
        self.status = status


class ClockInRefused(MarketplaceRefused):
    """Nobody may clock in to a shift for now; `reason` says why."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def no_time_log(id: UUID) -> NotFound:
    return NotFound(f"there is no time log {id}")


def not_possible(action: str, status: ShiftStatus) -> WrongTimeLogStatus:
    return WrongTimeLogStatus(f"you cannot {action} a time log that is {status}; read it again", status)


def clock_in_refused(refused: ClockInRefusal, why: str) -> ClockInRefused:
    return ClockInRefused(why, "insurance" if refused == "booking_suspended" else refused)
