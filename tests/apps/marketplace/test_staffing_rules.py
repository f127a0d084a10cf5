"""What may become of a booking, who may clock in, and which shifts can be booked, without a database."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import get_args

import pytest

from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.models import BookingStatus, NewShift
from timebell.apps.marketplace.staffing.rules import (
    EDGES,
    clock_in_refusal,
    may_become,
    shift_refusal,
    standing_of,
)

LAST = date(2027, 3, 14)
START = datetime(2027, 3, 2, 7, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.req("J-15.1")
def test_of_twenty_edges_ten_are_there() -> None:
    """As the source has them, in its own words."""
    paused, suspended = "Payment_Paused_Dispute", "Suspended_Insurance"
    expected = {
        "Active": {paused, suspended, "Cancelled", "Completed"},
        paused: {"Active", suspended, "Cancelled"},
        suspended: {"Active", paused, "Cancelled"},
        "Cancelled": set(),
        "Completed": set(),
    }
    assert set(get_args(BookingStatus)) == expected.keys()
    for before, after in product(get_args(BookingStatus), repeat=2):
        assert may_become(before, after) == (after in expected[before]), (before, after)
    assert len(EDGES) == 10


@pytest.mark.req("J-15.1")
@pytest.mark.parametrize(
    ("status", "is_contested", "is_insured", "expected"),
    [
        # Nothing is wrong any more.
        ("Active", False, True, "Active"),
        ("Payment_Paused_Dispute", False, True, "Active"),
        ("Suspended_Insurance", False, True, "Active"),
        # A dispute: the next payment pauses, not the dispute, and what was paused or suspended is paused.
        ("Active", True, True, "Active"),
        ("Payment_Paused_Dispute", True, True, "Payment_Paused_Dispute"),
        ("Suspended_Insurance", True, True, "Payment_Paused_Dispute"),
        # Insurance comes first.
        *(
            (before, is_contested, False, "Suspended_Insurance")
            for before in ("Active", "Payment_Paused_Dispute", "Suspended_Insurance")
            for is_contested in (False, True)
        ),
        # What has ended has ended.
        *(
            (ended, is_contested, is_insured, ended)
            for ended in ("Cancelled", "Completed")
            for is_contested in (False, True)
            for is_insured in (False, True)
        ),
    ],
)
def test_status_follows_from_disputes_and_insurance(
    status: BookingStatus, is_contested: bool, is_insured: bool, expected: BookingStatus
) -> None:
    standing = standing_of(status=status, is_contested=is_contested, is_insured=is_insured)
    assert standing == expected
    assert standing == status or may_become(status, standing), "along an edge"


@pytest.mark.req("J-15.3", "J-1.8")
@pytest.mark.parametrize("booking_status", get_args(BookingStatus))
@pytest.mark.parametrize("shift_status", get_args(ShiftStatus))
@pytest.mark.parametrize("has_hold", [False, True])
@pytest.mark.parametrize("today", [LAST - timedelta(days=1), LAST, LAST + timedelta(days=1)])
def test_somebody_may_clock_in_or_not(
    booking_status: BookingStatus, shift_status: ShiftStatus, has_hold: bool, today: date
) -> None:
    """Every line of the table, stated otherwise than the rule states it."""
    refused = clock_in_refusal(
        booking_status=booking_status,
        has_hold=has_hold,
        end_date=LAST,
        shift_status=shift_status,
        today=today,
    )
    is_refused = (
        booking_status in {"Suspended_Insurance", "Cancelled"}
        or shift_status == "Cancelled"
        or today > LAST
        or has_hold
    )
    assert (refused is not None) == is_refused


def shift(after: timedelta = timedelta(0), length: timedelta | None = 8 * HOUR) -> NewShift:
    start = START + after
    return NewShift(start=start, end=None if length is None else start + length, amount=1)


@pytest.mark.parametrize(
    ("shifts", "wrong"),
    [
        ([], None),
        ([shift()], None),
        ([shift(), shift(8 * HOUR)], None),
        ([shift(), shift(8 * HOUR - timedelta(seconds=1))], 1),
        ([shift(4 * HOUR), shift()], 0),
        ([shift(length=None), shift(HOUR)], None),
        ([shift(length=None), shift()], 1),
        ([shift(length=24 * HOUR)], None),
        ([shift(length=24 * HOUR + timedelta(seconds=1))], 0),
        ([shift(length=timedelta(0))], 0),
        ([shift(), shift(-24 * HOUR)], 1),
        ([shift(24 * HOUR * 13)], 0),
    ],
)
def test_nobody_works_in_two_shifts_at_once_or_outside_the_booking(
    shifts: list[NewShift], wrong: int | None
) -> None:
    dates = [one.start.date() for one in shifts]
    refused = shift_refusal(shifts, dates, START.date(), LAST)
    assert (None if refused is None else refused[0]) == wrong
