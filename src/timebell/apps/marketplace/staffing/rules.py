"""The state machine of bookings, who may clock in, and what a checkout has to be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.models import BookingStatus, CompanyType, NewShift, Role

# Out of Cancelled and Completed nothing leads.
EDGES: Final[frozenset[tuple[BookingStatus, BookingStatus]]] = frozenset(
    {
        ("Active", "Payment_Paused_Dispute"),
        ("Active", "Suspended_Insurance"),
        ("Active", "Cancelled"),
        ("Active", "Completed"),
        ("Payment_Paused_Dispute", "Active"),
        ("Payment_Paused_Dispute", "Suspended_Insurance"),
        ("Payment_Paused_Dispute", "Cancelled"),
        ("Suspended_Insurance", "Active"),
        ("Suspended_Insurance", "Payment_Paused_Dispute"),
        ("Suspended_Insurance", "Cancelled"),
    }
)
ENDED: Final[frozenset[BookingStatus]] = frozenset({"Cancelled", "Completed"})
# The source has this word once, for bookings with a dispute; it is understood and never said.
LEGACY_STATUS: Final[dict[str, BookingStatus]] = {"Disputed": "Payment_Paused_Dispute"}

ClockInRefusal = Literal[
    "shift_cancelled", "booking_cancelled", "booking_suspended", "booking_over", "clock_in_hold"
]
# Roles that only a company of one type has.
ROLES_OF: Final[dict[CompanyType, frozenset[Role]]] = {
    "borrower": frozenset({"borrower_admin", "borrower_manager", "supervisor"}),
    "lender": frozenset({"lender_admin", "lender_manager", "supervisor", "worker"}),
}
SHIFT_MAX: Final = timedelta(hours=24)
BOOKING_DAYS_MAX: Final = 731


def may_become(before: BookingStatus, after: BookingStatus) -> bool:
    return (before, after) in EDGES


def standing_of(*, status: BookingStatus, is_contested: bool, is_insured: bool) -> BookingStatus:
    """What a booking is to be, after a dispute, a report or an insurance of it has changed. `is_contested`: a dispute
    with option A is open, or a report pending.

    What has ended stays ended, and insurance comes before disputes. One that is `Active` is not paused by a dispute but
    by the next payment, which finds it.
    """
    if status in ENDED:
        return status
    if not is_insured:
        return "Suspended_Insurance"
    if not is_contested:
        return "Active"
    return "Active" if status == "Active" else "Payment_Paused_Dispute"


def clock_in_refusal(
    *, booking_status: BookingStatus, has_hold: bool, end_date: date, shift_status: ShiftStatus, today: date
) -> ClockInRefusal | None:
    """Why nobody may clock in; None where somebody may. `today` is by the project's clock.

    A dispute stops payments and not the work. Whoever was released works until the last day that is paid for.
    """
    if booking_status == "Cancelled":
        return "booking_cancelled"
    if shift_status == "Cancelled":
        return "shift_cancelled"
    if booking_status == "Suspended_Insurance":
        return "booking_suspended"
    if has_hold:
        return "clock_in_hold"
    return "booking_over" if today > end_date else None


def shift_refusal(
    shifts: Sequence[NewShift], dates: Sequence[date], first: date, last: date
) -> tuple[int, str] | None:
    """Which of the shifts of a checkout cannot be, and why. `dates` are the days on which they begin, where the project
    is."""
    for number, (shift, day) in enumerate(zip(shifts, dates, strict=True)):
        if not first <= day <= last:
            return number, f"begins on {day}, and the booking is from {first} to {last}; move one of them"
        if shift.end is not None and shift.end <= shift.start:
            return number, "must end after it starts"
        if shift.end is not None and shift.end - shift.start > SHIFT_MAX:
            return number, "is longer than 24 hours; divide it"
    order = sorted(range(len(shifts)), key=lambda number: shifts[number].start)
    for early, late in pairwise(order):
        if shifts[late].start < _end_of(shifts[early]):
            return late, f"begins before shift {early} has ended; nobody works in two at once"
    return None


def _end_of(shift: NewShift) -> datetime:
    return shift.end or shift.start + timedelta(seconds=1)
