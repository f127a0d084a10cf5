"""When an insurance is warned of, when it has ended, and which bookings that stops. Pure.

Days are those of UTC: an insurance is valid through its date. The windows are wide, so that a day on which nobody
looked loses no warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

from timebell.apps.marketplace.insurance.models import Due, Threshold
from timebell.apps.marketplace.staffing.models import BookingStatus

CHANNELS: Final[Mapping[Threshold, tuple[str, ...]]] = {14: ("email",), 7: ("email", "sms")}
WARNED_AHEAD: Final = timedelta(days=14)
# The last day of a booking is by the clock of its project, which is a day behind that of UTC at most.
ZONES_APART: Final = timedelta(days=1)


def utc_date(now: datetime) -> date:
    return now.astimezone(UTC).date()


def days_left(expiration_date: date, today: date) -> int:
    return (expiration_date - today).days


def due_of(expiration_date: date, today: date) -> Due | None:
    """What a day asks of an active insurance. One that was entered late is warned of by the nearer window alone."""
    left = days_left(expiration_date, today)
    if left < 0:
        return "expired"
    if left <= 7:
        return 7
    return 14 if left <= WARNED_AHEAD.days else None


def is_affected(*, status: BookingStatus, end_date: date, today: date, is_at_work: bool) -> bool:
    """Whether somebody may still work in a booking, of which `today` is by the project's clock. Whoever was released
    works up to the last day, and a shift that has begun may go on after it."""
    return status != "Cancelled" and (is_at_work or today <= end_date)
