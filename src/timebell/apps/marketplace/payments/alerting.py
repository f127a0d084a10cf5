"""Alert rules about money: when a person is needed. What the code knows in the moment in which it happens it opens
itself; what lasts is asked of the tables again and again.

This is the example for the other rooms: name a rule, put it into `ALERTS`, and list that in the room's `parts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.models import payment_subject
from timebell.apps.marketplace.payments.question_store import PaymentQuestionStore
from timebell.kernel import AlertRule, Asked, Bounds, Finding

SHIFT_UNFUNDED: Final = "marketplace_shift_unfunded"
PAYOUT_REVIEW: Final = "marketplace_payout_needs_review"
PAYOUT_TO_REVERSE: Final = "marketplace_payout_to_reverse"
PAYMENT_REVIEW: Final = "marketplace_payment_needs_review"
BOOKING_REVIEW: Final = "marketplace_booking_needs_review"
RUN_MISSED: Final = "marketplace_weekly_run_missed"

_ROWS_MAX: Final = 100_000
_DAY: Final = timedelta(days=1)


async def failed_payments(asked: Asked) -> Sequence[Finding]:
    """Of each zone, since its weekly run is one; and of all zones together where a tenant has several."""
    rows = await PaymentQuestionStore(asked.bell.clock).ask_failed_payments(
        asked.session,
        seconds=asked.window.total_seconds(),
        rows_max=_ROWS_MAX,
        after=asked.after,
        limit=asked.limit,
    )
    return [
        Finding(
            tenant=row["tenant"],
            subject=row["subject"],
            value=row["failed_count"] / row["settled_count"],
            samples=row["settled_count"],
            detail=f"{row['failed_count']} of {row['settled_count']} weekly payments failed within a day",
        )
        for row in rows
    ]


async def overdue_payments(asked: Asked) -> Sequence[Finding]:
    rows = await PaymentQuestionStore(asked.bell.clock).ask_overdue_payments(
        asked.session, seconds=asked.window.total_seconds(), after=asked.after, limit=asked.limit
    )
    return [
        Finding(
            tenant=row["tenant"],
            subject=payment_subject(row["id"]),
            value=1,
            detail=f"the payment {row['id']} of the booking {row['booking_id']} has not been settled since "
            f"{row['created_at'].isoformat()}",
        )
        for row in rows
    ]


ALERTS: Final[Sequence[AlertRule]] = (
    AlertRule(
        name="marketplace_payments_fail",
        severity="critical",
        about="More than one in twenty of the weekly payments fails.",
        remedy="GET /api/marketplace/payments says what failed and why; see whether the payment provider answers.",
        question=failed_payments,
        bounds=Bounds(opens_at=0.05, samples_min=20),
        window=_DAY,
    ),
    AlertRule(
        name="marketplace_payment_overdue",
        severity="warning",
        about="A payment has not been settled for a day.",
        remedy="Look for it at the payment provider. It is asked once a day; its report settles it.",
        question=overdue_payments,
        window=_DAY,
    ),
    AlertRule(
        name=SHIFT_UNFUNDED,
        severity="critical",
        about="A shift was verified, and no money is held for it.",
        remedy="Pay the lender otherwise, or have the borrower pay for the week.",
    ),
    AlertRule(
        name=PAYOUT_REVIEW,
        severity="critical",
        about="Money that is to leave could not be sent.",
        remedy="`timebell dead list` says what the provider has said; mend that, then `timebell jobs revive`.",
    ),
    AlertRule(
        name=PAYOUT_TO_REVERSE,
        severity="critical",
        about="Money has left for a lender that should go back.",
        remedy="Reverse the transfer at the payment provider.",
    ),
    AlertRule(
        name=PAYMENT_REVIEW,
        severity="critical",
        about="Something about a payment is to be looked at.",
        remedy="See GET /api/marketplace/payments and the booking's ledger. What came too late is refunded by itself.",
    ),
    AlertRule(
        name=BOOKING_REVIEW,
        severity="critical",
        about="A booking could not be charged, warned or released as it should.",
        remedy="Decide it by hand: the event payment.needs_review of the booking says why.",
    ),
    AlertRule(
        name=RUN_MISSED,
        severity="critical",
        about="A weekly run of a zone did not happen.",
        remedy="Nobody was charged for that week. Where the zone is not known, correct that of the project.",
    ),
)
