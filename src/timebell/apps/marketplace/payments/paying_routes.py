"""`/api/marketplace/bookings/{id}/pay`: the route for paying for a week."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.payments.paying import Paying
from timebell.apps.marketplace.payments.refusals import CODES
from timebell.web import Answer, Call, Instant, Output, Route


class PaymentAsked(Output):
    """What is charged as soon as its job runs, for shifts of that period that nobody has paid for."""

    booking_id: UUID
    period_start: Instant
    period_end: Instant
    amount: int
    currency: str
    attempt: int
    job_id: UUID


async def pay_booking(call: Call) -> Answer:
    """Charges the week that comes, as after a card was declined; until the end of Wednesday, for an admin of the
    borrower."""
    asked = await Paying(call.bell).pay(call.tx, call.path["id"], by=by_caller(call))
    return Answer(content=PaymentAsked.model_validate(asked))


ROUTES: Final = (
    Route(
        method="POST",
        path="/api/marketplace/bookings/{id}/pay",
        run=pay_booking,
        summary="Pay for the next week",
        tag="marketplace",
        status=202,
        scope="write",
        acts_for="either",
        answer=PaymentAsked,
        idempotency="required",
        problems={
            403: "the acting recipient is no admin of the borrower",
            409: "nothing is due, a payment is on its way, something is disputed, or the cutoff has passed",
        },
        codes=CODES,
    ),
)
