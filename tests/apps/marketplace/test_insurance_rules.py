"""What a day asks of an insurance, and which bookings its end stops. Without a database."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from timebell.apps.marketplace.insurance.models import Due
from timebell.apps.marketplace.insurance.rules import (
    CHANNELS,
    days_left,
    due_of,
    is_affected,
    utc_date,
)
from timebell.apps.marketplace.staffing.models import BookingStatus

TODAY = date(2027, 3, 1)


@pytest.mark.req("J-4.2", "X-J14")
def test_days_are_those_of_utc() -> None:
    assert days_left(date(2027, 3, 15), TODAY) == 14
    assert days_left(TODAY, TODAY) == 0
    auckland = timezone(timedelta(hours=13))
    assert utc_date(datetime(2027, 3, 2, 12, 59, tzinfo=auckland)) == TODAY
    assert utc_date(datetime(2027, 3, 1, 23, 59, tzinfo=UTC)) == TODAY


@pytest.mark.req("J-4.3", "J-4.4", "J-4.6", "X-J12")
@pytest.mark.parametrize(
    ("left", "due"),
    [
        *((left, None) for left in (15, 16, 400)),
        *((left, 14) for left in range(8, 15)),
        *((left, 7) for left in range(8)),
        *((left, "expired") for left in (-1, -2, -400)),
    ],
)
def test_each_day_belongs_to_one_window(left: int, due: Due | None) -> None:
    assert due_of(TODAY + timedelta(days=left), TODAY) == due


@pytest.mark.req("J-4.3", "J-4.4")
def test_the_nearer_warning_comes_on_both_channels() -> None:
    assert CHANNELS == {14: ("email",), 7: ("email", "sms")}


@pytest.mark.req("J-4.7", "X-J5")
@pytest.mark.parametrize("status", ["Active", "Payment_Paused_Dispute", "Suspended_Insurance", "Completed"])
def test_a_booking_counts_up_to_its_last_day_and_as_long_as_somebody_works(status: BookingStatus) -> None:
    def asked(day: date, is_at_work: bool) -> bool:
        return is_affected(status=status, end_date=TODAY, today=day, is_at_work=is_at_work)

    assert asked(TODAY, False)
    assert asked(TODAY - timedelta(days=9), False)
    assert not asked(TODAY + timedelta(days=1), False)
    assert asked(TODAY + timedelta(days=1), True)


@pytest.mark.req("J-4.7")
def test_what_was_cancelled_is_not_stopped() -> None:
    assert not is_affected(status="Cancelled", end_date=TODAY, today=TODAY, is_at_work=True)
