"""Pure rules about disputes: what is kept of cancelled shifts, who agreed, and who gets what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from timebell.apps.marketplace.disputes.models import (
    Dispute,
    DisputeStatus,
    Proposal,
    Resolution,
    Settlement,
    Side,
)
from timebell.apps.marketplace.models import PenaltyPolicy
from timebell.apps.marketplace.payments.models import Frozen, Payment, PaymentLine
from timebell.apps.marketplace.staffing.models import Booking

SIDES: Final[Mapping[str, Side]] = {"borrower_admin": "borrower", "lender_admin": "lender"}
_HUNDRED: Final = 100
# Why nothing is charged again.
Retried = Literal["paid", "tried", "not_due", "not_wanted", "contested", "needs_review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What leaves for the lender and what goes back to the borrower, by the payment that it came from."""

    lender: Mapping[UUID, Sequence[PaymentLine]] = field(default_factory=dict)
    borrower: Mapping[UUID, Sequence[PaymentLine]] = field(default_factory=dict)


def may_resolve(before: DisputeStatus, after: Resolution) -> bool:
    """What is held by law may still be settled; nothing else is resolved twice."""
    return before == "Open" or (before == "Legal_Hold" and after != "Legal_Hold")


def times_out(dispute: Dispute, booking: Booking) -> bool:
    """Whether there is something to do when the time to resolve it is over. With option B the booking has ended, and a
    booking that was cancelled has nothing to cancel."""
    return dispute.status == "Open" and dispute.dispute_option == "A" and booking.status != "Cancelled"


def retry_of(payments: Sequence[Payment], resolved_at: datetime) -> Payment | int | Literal["paid", "tried"]:
    """What is to become of the week that comes: a payment that is on its way and may be this job's own is gone on with,
    and without one the next attempt is begun, unless one has been made since the dispute was resolved."""
    pending = next((payment for payment in payments if payment.status == "Pending"), None)
    if pending is not None:
        return pending
    if any(payment.status == "Succeeded" for payment in payments):
        return "paid"
    if any(payment.created_at >= resolved_at for payment in payments):
        return "tried"
    return max((payment.attempt for payment in payments), default=0) + 1


def penalty_of(policy: PenaltyPolicy, booking: Booking, start: datetime, amount: int, now: datetime) -> int:
    """What is kept of the price of a shift that is cancelled now. A short booking keeps a part of what begins before a
    short notice is over, a long one of what begins before its longer notice is."""
    days = (booking.end_date - booking.start_date).days + 1
    is_short = days <= policy.short_term_days
    hours = policy.short_notice_hours if is_short else policy.long_notice_hours
    percent = policy.short_percent if is_short else policy.long_percent
    return amount * percent // _HUNDRED if start - now < timedelta(hours=hours) else 0


def is_agreed(proposals: Mapping[Side, Proposal]) -> bool:
    """Whether both sides propose the same."""
    sides = [proposals.get(side) for side in ("borrower", "lender")]
    return all(side is not None for side in sides) and len({one.settlement for one in sides if one}) == 1


def shares_of(frozen: Iterable[Frozen], settlement: Settlement, disputed: UUID) -> Shares:
    """Divide what is frozen. The lender's part is taken from the disputed shift first, since that was worked, and then
    from the others in their order."""
    lender: dict[UUID, list[PaymentLine]] = {}
    borrower: dict[UUID, list[PaymentLine]] = {}
    left = settlement.lender
    for one in sorted(frozen, key=lambda pot: (pot.time_log_id != disputed, pot.time_log_id, pot.payment_id)):
        to_lender = min(left, one.amount)
        left -= to_lender
        for lines, amount in ((lender, to_lender), (borrower, one.amount - to_lender)):
            if amount > 0:
                line = PaymentLine(time_log_id=one.time_log_id, amount=amount)
                lines.setdefault(one.payment_id, []).append(line)
    assert left == 0, "a settlement is as much as is frozen"
    return Shares(lender=lender, borrower=borrower)
