"""`marketplace.webhook_overdue`: a payment that nobody has settled is asked about once a day, until it is.

Whoever waits for a report is a row and not a job that runs. The job is written together with the payment, so that no
crash, no answer that went unheard and no cutoff that stopped waiting leaves a payment that nobody asks about. One that
was given up since the provider had not heard of it is asked about too, until its week begins: a call that was on its
way then may have come after all, and its report may be lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.payments.applying import Applying
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.checking import NEVER_ASKED, Checking, booking_of, by_of
from timebell.apps.marketplace.payments.models import Payment
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.payments.provider import Charge, Charged, Refused, Unavailable, Uncertain
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import ConfigurationError
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction

WEBHOOK_OVERDUE: Final = "marketplace.webhook_overdue"
OVERDUE_AFTER: Final = timedelta(hours=24)
# How soon a provider that gave no answer is asked again, and for how long a payment is asked about.
_AWAY: Final = timedelta(hours=1)
ASKED_FOR_MAX: Final = timedelta(days=30)
# How much of what a provider says is kept.
_REASON_CHARS_MAX: Final = 300
# The job goes on with it, so that it is noted once.
_NOTED: Final = {"is_noted": True}


class Overdue:
    """Asks about payments of which no report has come."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._store = PaymentStore(bell.clock)
        self._checking = Checking(bell)
        self._applying = Applying(bell)

    async def expect(self, tx: Transaction, payment: Payment) -> None:
        """Have it asked about in a day, if it is still pending then."""
        await self._bell.enqueue(
            tx,
            WEBHOOK_OVERDUE,
            {"payment_id": str(payment.id), "booking_id": str(payment.booking_id)},
            delay=OVERDUE_AFTER,
            subject=payment.subject,
            correlation_id=payment.correlation_id,
        )

    async def run(self, job: Job) -> Outcome:
        async with self._bell.transaction(tenant=job.tenant) as tx:
            begun = await self._begin(tx, job)
        if begun is None:
            return Done()
        payment, charge = begun
        try:
            found = await provider_of(self._bell).look_up(charge, ref=payment.provider_intent_id)
        except (Unavailable, Uncertain, Refused, ConfigurationError) as error:
            return Snooze(delay=_AWAY, cursor=_NOTED, reason=str(error)[:_REASON_CHARS_MAX])
        async with self._bell.transaction(tenant=job.tenant) as tx:
            if await self._apply(tx, job, payment.id, found):
                return Done()
        return Snooze(delay=OVERDUE_AFTER, cursor=_NOTED, reason="it is not settled")

    async def _begin(self, tx: Transaction, job: Job) -> tuple[Payment, Charge] | None:
        """What is to be asked about. It is noted once; whoever would ask for ever has somebody look instead."""
        booking, by = await self._bookings.hold(tx, booking_of(job)), by_of(job)
        payment = await self._read(tx, UUID(job.payload["payment_id"]))
        if not _may_be_taken(payment):
            return None
        if payment.status == "Pending" and job.cursor is None and job.attempt == 1:
            said = {"payment_id": str(payment.id)}
            await self._checking.note(tx, booking, "webhook_overdue", by=by, data=said)
        if await self._checking.now(tx) - payment.created_at > ASKED_FOR_MAX:
            await self._applying.review(tx, payment, "nobody could say what became of it", by=by)
            return None
        return payment, await self._checking.charge_of(tx, booking, payment)

    async def _apply(self, tx: Transaction, job: Job, payment_id: UUID, found: Charged | None) -> bool:
        """Make true what the provider says; whether it is settled then."""
        booking, by = await self._bookings.hold(tx, booking_of(job)), by_of(job)
        payment = await self._read(tx, payment_id)
        if found is not None:
            await self._applying.apply(tx, booking, payment, found, by=by)
            return found.state != "processing"
        if not _may_be_taken(payment):
            return True
        # Until its period begins, a job may still be about to ask for it.
        if payment.provider_intent_id is not None or await self._checking.now(tx) < payment.period_start:
            return False
        if payment.status == "Pending":
            await self._applying.cancel(tx, payment, NEVER_ASKED, by=by)
        return True

    async def _read(self, tx: Transaction, id: UUID) -> Payment:
        payment = await self._store.read_payment(tx, id=id)
        assert payment is not None, "payments are not deleted"
        return payment


def _may_be_taken(payment: Payment) -> bool:
    """Whether nobody knows for certain that its money is not taken."""
    is_given_up = payment.status in ("Cancelled", "Failed") and payment.provider_intent_id is None
    return payment.status == "Pending" or is_given_up


async def ask_again(job: Job) -> Outcome:
    return await Overdue(job.bell).run(job)
