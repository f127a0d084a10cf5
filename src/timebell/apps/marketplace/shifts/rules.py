"""The state machine of shifts, without a clock or a database: their states, what is owed in each, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from timebell.apps.marketplace.shifts.models import Shift, ShiftStatus
from timebell.apps.marketplace.staffing.models import Booking
from timebell.rules.localtime import at_instant, aware, zone

# Which states lead to which. Of those that the clock alone approved, a dispute that was there in time takes one back.
EDGES: Final[Mapping[ShiftStatus, frozenset[ShiftStatus]]] = {
    "Scheduled": frozenset({"Working", "Cancelled"}),
    "Working": frozenset({"Draft", "Pending_Verification"}),
    "Draft": frozenset({"Pending_Verification"}),
    "Pending_Verification": frozenset({"Verified", "Disputed"}),
    "Verified": frozenset(),
    "Disputed": frozenset({"Verified"}),
    "Cancelled": frozenset(),
}
# Those in which somebody works.
AT_WORK: Final[frozenset[ShiftStatus]] = frozenset({"Working", "Draft"})
# Those in which something is owed about a shift.
OPEN: Final[frozenset[ShiftStatus]] = AT_WORK | {"Pending_Verification"}
# What the clock approved is verified by this.
AUTO: Final = "auto"

REMINDERS: Final = (("clock_out_5m", timedelta(minutes=5)), ("clock_out_30m", timedelta(minutes=30)))
RUNGS: Final = (
    ("ladder_0", timedelta(0)),
    ("ladder_60m", timedelta(minutes=60)),
    ("ladder_3h", timedelta(hours=3)),
)
APPROVE: Final = "auto_approve"
APPROVED_AFTER: Final = timedelta(hours=4)
EXTENSION: Final = timedelta(hours=1)
# Whoever edits with less than this left gives the worker more time.
SHORT: Final = timedelta(hours=1)
DISPUTED_FOR: Final = timedelta(hours=3)
SWEPT_EVERY: Final = timedelta(hours=1)
# A draft says when work will have ended, and that is not long from now.
DRAFT_AHEAD: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One thing that is owed about a shift, and when."""

    key: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """All that is owed about a shift, with what whoever pays it is told."""

    steps: tuple[Due, ...] = ()
    payload: Mapping[str, Any] | None = None


def may_become(old: ShiftStatus, new: ShiftStatus) -> bool:
    return new in EDGES[old]


def effective_end(booking: Booking, shift: Shift) -> datetime | None:
    """When the shift is to end: as it says itself, or else at the booking's hour, of the day after where it begins
    later than that; None where neither says so."""
    if shift.scheduled_end is not None or booking.scheduled_end_time is None:
        return shift.scheduled_end
    for day in (shift.shift_date, shift.shift_date + timedelta(days=1)):
        instant = at_instant(
            datetime.combine(day, booking.scheduled_end_time), zone(booking.timezone)
        ).instant
        if instant is not None and aware(instant) > shift.scheduled_start:
            return aware(instant)
    return None


def owed(booking: Booking, shift: Shift) -> Owed:
    """Follows from what stands in the rows, and from nothing else, so that what was lost can be stated again.

    Who works is reminded to clock out, unless the end had passed when it was stated, or the booking was cancelled. What
    waits to be verified is climbed for, and approved at last. In every other state nothing is owed.
    """
    if shift.status in AT_WORK and booking.status != "Cancelled":
        return _reminders(booking, shift)
    if shift.status == "Pending_Verification":
        return _ladder(booking, shift)
    return Owed()


def _reminders(booking: Booking, shift: Shift) -> Owed:
    end = effective_end(booking, shift)
    if end is None or shift.end_stated_at is None or shift.end_stated_at > end:
        return Owed()
    steps = tuple(Due(key=key, at=end + after) for key, after in REMINDERS)
    first, second = steps
    payload = {
        "time_log_id": str(shift.id),
        "booking_id": str(booking.id),
        "worker_id": str(shift.worker_id),
        "supervisor_id": str(booking.supervisor_id),
        "scheduled_end_time": end.isoformat(),
        "reminder_5m_time": first.at.isoformat(),
        "reminder_30m_time": second.at.isoformat(),
    }
    return Owed(steps=steps, payload=payload)


def _ladder(booking: Booking, shift: Shift) -> Owed:
    assert shift.clock_out_time is not None, "it was submitted"
    assert shift.auto_approval_time is not None, "it has both or none"
    rungs = tuple(Due(key=key, at=shift.clock_out_time + after) for key, after in RUNGS)
    payload = {
        "time_log_id": str(shift.id),
        "booking_id": str(booking.id),
        "clock_out_time": shift.clock_out_time.isoformat(),
        "notification_times": [rung.at.isoformat() for rung in rungs],
        "auto_approval_time": shift.auto_approval_time.isoformat(),
    }
    return Owed(steps=(*rungs, Due(key=APPROVE, at=shift.auto_approval_time)), payload=payload)


def extended(shift: Shift, now: datetime, extensions_max: int) -> datetime | None:
    """Until when there is time to verify after the supervisor has edited; None where that stays as it is."""
    deadline = shift.auto_approval_time
    if shift.status != "Pending_Verification" or deadline is None or shift.extensions >= extensions_max:
        return None
    return deadline + EXTENSION if now <= deadline and deadline - now < SHORT else None


def disputable(shift: Shift, now: datetime) -> Literal["yes", "if_unpaid", "no"]:
    """Whether a dispute may be filed about a shift: until it is approved by itself, the instant of that included.

    `if_unpaid`: the dispute was there in time, and the clock approved while it waited. Where the money has not gone,
    that is taken back.
    """
    if shift.auto_approval_time is None or now > shift.auto_approval_time:
        return "no"
    if shift.status == "Pending_Verification":
        return "yes"
    return "if_unpaid" if shift.status == "Verified" and shift.verified_by == AUTO else "no"


def is_overdue(shift: Shift, now: datetime) -> bool:
    """Whether it should have been approved by itself."""
    deadline = shift.auto_approval_time
    return shift.status == "Pending_Verification" and deadline is not None and deadline <= now


def refused_end(start: datetime | None, end: datetime, latest: datetime) -> str | None:
    """What is wrong with the end of work that somebody states, or None."""
    if start is not None and end < start:
        return f"is before work began, at {start.isoformat()}; give a later one"
    if end > latest:
        return f"is after {latest.isoformat()}, which is still to come; give an earlier one, or leave it out"
    return None


def worked_minutes(start: datetime | None, end: datetime | None) -> int | None:
    """In whole minutes, of those that are over."""
    return None if start is None or end is None else (end - start) // _MINUTE


def next_sweep(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + SWEPT_EVERY
