"""Refusals about payments, as errors."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.refusals import MarketplaceRefused

# As the pages explain them that a refusal points to.
CODES: Final = {
    "nothing_due": (
        "Nothing of the week that comes is to be paid for: there is no work, it was paid for, or the booking is not "
        "paid for by the week."
    ),
    "payment_pending": "A payment for that week is on its way. Wait for what becomes of it.",
    "payment_contested": "Something about the booking is disputed. Payments go on when that is resolved.",
    "cutoff_passed": (
        "The week that comes could be paid for until the end of Wednesday, by the project's clock. Nothing is accepted "
        "for it any more."
    ),
}


class NothingDue(MarketplaceRefused):
    """Nothing of the week that comes is to be paid for."""


class PaymentPending(MarketplaceRefused):
    """A payment for that week is on its way."""


class PaymentContested(MarketplaceRefused):
    """Something about the booking is disputed."""


class CutoffPassed(MarketplaceRefused):
    """Nothing is accepted any more for the week that comes."""
