"""What is kept of cancelled shifts, who agreed, and who gets what, without a database."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.marketplace.disputes.models import (
    Dispute,
    DisputeStatus,
    Proposal,
    Resolution,
    Settlement,
)
from timebell.apps.marketplace.disputes.rules import (
    is_agreed,
    may_resolve,
    penalty_of,
    retry_of,
    shares_of,
    times_out,
)
from timebell.apps.marketplace.models import PenaltyPolicy
from timebell.apps.marketplace.payments.models import Frozen, Payment, Pot
from timebell.apps.marketplace.payments.rules import penalty_entries, unfreeze_entries
from timebell.apps.marketplace.staffing.models import Booking, BookingStatus

NOW = datetime(2027, 3, 2, 18, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
A_WEEK, LONGER = date(2027, 3, 8), date(2027, 3, 9)


def booking(status: BookingStatus = "Active", last: date = A_WEEK) -> Booking:
    nobody: dict[str, Any] = dict.fromkeys(Booking.__dataclass_fields__)
    return Booking(**{**nobody, "status": status, "start_date": date(2027, 3, 2), "end_date": last})


def dispute(option: str = "A", status: DisputeStatus = "Open") -> Dispute:
    nothing: dict[str, Any] = dict.fromkeys(Dispute.__dataclass_fields__)
    return Dispute(**{**nothing, "dispute_option": option, "status": status})


@pytest.mark.req("J-8.4", "J-8.5", "J-8.13", "J-4.11")
def test_only_an_open_dispute_of_a_booking_that_goes_on_times_out() -> None:
    every = product("AB", get_args(DisputeStatus), get_args(BookingStatus))
    found = {each for each in every if times_out(dispute(each[0], each[1]), booking(each[2]))}
    assert found == {
        ("A", "Open", status)
        for status in ("Active", "Payment_Paused_Dispute", "Suspended_Insurance", "Completed")
    }


def test_what_is_resolved_is_not_resolved_again() -> None:
    every = product(get_args(DisputeStatus), get_args(Resolution))
    assert {each for each in every if may_resolve(*each)} == {
        *(("Open", word) for word in get_args(Resolution)),
        ("Legal_Hold", "Settled"),
        ("Legal_Hold", "Resolved"),
    }


@pytest.mark.req("J-8.7", "X-J46")
@pytest.mark.parametrize(
    ("last", "ahead", "kept"),
    [
        (A_WEEK, timedelta(0), 500),
        (A_WEEK, 24 * HOUR - SECOND, 500),
        (A_WEEK, 24 * HOUR, 0),
        (LONGER, timedelta(0), 1_001),
        (LONGER, 168 * HOUR - SECOND, 1_001),
        (LONGER, 168 * HOUR, 0),
    ],
)
def test_what_is_kept_by_the_default_policy(last: date, ahead: timedelta, kept: int) -> None:
    """Half of what begins within a day, of a booking of a week; all within the notice, of a longer one. Halves of the
    smallest coin go back."""
    assert penalty_of(PenaltyPolicy(), booking(last=last), NOW + ahead, 1_001, NOW) == kept


@pytest.mark.req("X-J46")
def test_the_policy_is_a_value() -> None:
    policy = PenaltyPolicy(
        short_term_days=8, short_notice_hours=2, short_percent=10, long_notice_hours=3, long_percent=20
    )
    week = booking(last=LONGER)
    assert penalty_of(policy, week, NOW + HOUR, 1_000, NOW) == 100
    assert penalty_of(policy, week, NOW + 2 * HOUR, 1_000, NOW) == 0
    longer = replace(week, end_date=date(2027, 3, 10))
    assert penalty_of(policy, longer, NOW + 2 * HOUR, 1_000, NOW) == 200
    assert penalty_of(policy, longer, NOW + 3 * HOUR, 1_000, NOW) == 0


def proposal(lender: int, borrower: int = 0) -> Proposal:
    settlement = Settlement(lender=lender, borrower=borrower)
    return Proposal(side="lender", settlement=settlement, proposed_by="x", proposed_at=NOW)


def test_both_sides_have_to_propose_the_same() -> None:
    assert not is_agreed({})
    assert not is_agreed({"borrower": proposal(1)})
    assert not is_agreed({"lender": proposal(1)})
    assert not is_agreed({"borrower": proposal(1), "lender": proposal(2)})
    assert not is_agreed({"borrower": proposal(1, 2), "lender": proposal(1, 3)})
    assert is_agreed({"borrower": proposal(1, 2), "lender": proposal(1, 2)})


POTS = st.lists(
    st.builds(
        Frozen,
        time_log_id=st.integers(0, 5).map(lambda number: UUID(int=number)),
        payment_id=st.integers(0, 2).map(lambda number: UUID(int=number)),
        amount=st.integers(1, 1_000),
    ),
    max_size=8,
    unique_by=lambda one: one.time_log_id,
)


@given(POTS, st.data())
def test_all_that_is_frozen_is_divided(frozen: list[Frozen], data: st.DataObject) -> None:
    """Every pot leaves as a whole and once, and the lender's part is taken from the disputed shift first."""
    total = sum(one.amount for one in frozen)
    lender = data.draw(st.integers(0, total))
    disputed = UUID(int=3)
    shares = shares_of(frozen, Settlement(lender=lender, borrower=total - lender), disputed)
    left: Counter[tuple[UUID, UUID]] = Counter()
    paid: Counter[UUID] = Counter()
    for by_payment in (shares.lender, shares.borrower):
        for payment_id, lines in by_payment.items():
            assert len({line.time_log_id for line in lines}) == len(lines) > 0
            for line in lines:
                assert line.amount > 0
                left[line.time_log_id, payment_id] += line.amount
                if by_payment is shares.lender:
                    paid[line.time_log_id] += line.amount
    assert left == {(one.time_log_id, one.payment_id): one.amount for one in frozen}
    assert paid.total() == lender
    of_disputed = next((one.amount for one in frozen if one.time_log_id == disputed), 0)
    assert paid[disputed] == min(lender, of_disputed)


def test_what_is_kept_and_what_is_unfrozen() -> None:
    """No more than is there and is not about to leave."""
    one, two, three, payment, about = (UUID(int=number) for number in range(5))
    pots = [
        Pot(time_log_id=one, payment_id=payment, charge_ref="ch", held=100, leaving=30),
        Pot(time_log_id=two, payment_id=payment, charge_ref="ch", held=100, leaving=100),
        Pot(time_log_id=three, payment_id=payment, charge_ref="ch", held=100),
    ]
    kept = penalty_entries(pots, {one: 90, two: 50}, about)
    assert [(entry.time_log_id, entry.amount, entry.type, entry.to_place) for entry in kept] == [
        (one, 70, "penalty", "frozen")
    ]
    (back,) = unfreeze_entries([Frozen(time_log_id=one, payment_id=payment, amount=70)], about)
    assert (back.type, back.from_place, back.to_place, back.amount) == ("unfreeze", "frozen", "held", 70)
    assert {entry.dispute_id for entry in (*kept, back)} == {about}


def payment(status: str, *, attempt: int = 1, created_at: datetime = NOW - HOUR) -> Payment:
    nothing: dict[str, Any] = dict.fromkeys(Payment.__dataclass_fields__)
    return Payment(**{**nothing, "status": status, "attempt": attempt, "created_at": created_at})


@pytest.mark.req("J-9.5", "J-9.6")
def test_which_payment_is_made_after_a_resolution() -> None:
    assert retry_of([], NOW) == 1
    assert retry_of([payment("Failed"), payment("Cancelled", attempt=2)], NOW) == 3
    assert retry_of([payment("Refunded")], NOW) == 2
    assert retry_of([payment("Failed"), payment("Succeeded", attempt=2)], NOW) == "paid"
    pending = payment("Pending", attempt=2, created_at=NOW)
    assert retry_of([payment("Failed"), pending], NOW) is pending
    # Its own, of an earlier run, or somebody else's: one try is enough.
    assert retry_of([payment("Failed", created_at=NOW)], NOW) == "tried"
