"""`Applying`: what the answer or the report of a payment provider does to a payment and to its booking.

A payment that is pending becomes what the provider says. What the provider says of one that is not pending any more
changes nothing, with one exception: money that came after all. That goes back, since its week was paid for otherwise,
or the booking has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.alerting import PAYMENT_REVIEW
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.models import Payment
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.payments.provider import Charged, Report
from timebell.apps.marketplace.payments.rules import charge_entries
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.guards import IS_GOING_ON
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.apps.marketplace.texts import ACTION_REQUIRED, tells
from timebell.kernel import Alerts, Timebell, Transaction
from timebell.notify import Notify

# What became of payments, and what people were told about them.
PAYMENTS: Final = "marketplace_payments"
NOTICES: Final = "marketplace_payment_notices"

Applied = Literal["succeeded", "failed", "cancelled", "processing", "late", "repeated"]
CHARGED_TOO_LATE: Final = "charged too late"
SHIFT_CANCELLED: Final = "the shift was cancelled"
BOOKING_ENDED: Final = "the booking has ended"


class Applying:
    """Applies what is known about a payment. Whoever does so holds the booking, and has read the payment since."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = PaymentStore(bell.clock)
        self._shifts = ShiftStore(bell.clock)
        self._settings = StaffingStore(bell.clock)
        self._bookings = Bookings(bell)
        self._ledger = Ledger(bell)
        self._payouts = Payouts(bell)
        self._notify = bell.shared.one(Notify)
        self._alerts = Alerts(bell)

    async def apply(
        self,
        tx: Transaction,
        booking: Booking,
        payment: Payment,
        charged: Charged,
        *,
        by: By,
        is_told: bool = True,
    ) -> Applied:
        """Make true what the provider says. `is_told`: whoever has to pay is told of a failure."""
        if charged.state == "succeeded":
            return await self.succeed(tx, booking, payment, charged.ref, by=by)
        if payment.status != "Pending":
            return "repeated"
        if charged.state == "declined":
            failure = charged.failure or "declined"
            return await self.fail(tx, booking, payment, failure, ref=charged.ref, by=by, is_told=is_told)
        if charged.state == "cancelled":
            why = charged.failure or "cancelled by the provider"
            return await self.cancel(tx, payment, why, ref=charged.ref, by=by)
        await self._store.note_intent(tx, id=payment.id, provider_intent_id=charged.ref)
        return "processing"

    async def apply_report(self, tx: Transaction, booking: Booking, report: Report, *, by: By) -> Applied:
        """The same for what the provider tells afterwards, in any order and any number of times."""
        payment = await self._store.read_payment(tx, id=report.payment_id)
        assert payment is not None, "the booking was found by it"
        charged = Charged(ref=report.ref, state=report.state, failure=report.failure)
        return await self.apply(tx, booking, payment, charged, by=by)

    async def succeed(
        self, tx: Transaction, booking: Booking, payment: Payment, ref: str, *, by: By
    ) -> Applied:
        """The money is here: it is held for the shifts, and the booking is paid for up to the end of the period.

        What was meanwhile cancelled goes back, what was verified is the lender's, and what is disputed is frozen.
        """
        if payment.status in ("Succeeded", "Refunded"):
            return "repeated"
        if payment.status != "Pending":
            return await self._give_back(tx, booking, payment, ref, CHARGED_TOO_LATE, by=by)
        await self._settle(tx, payment, "Succeeded", "payment.succeeded", by=by, ref=ref)
        await self._ledger.post(tx, booking, charge_entries(payment, ref))
        if booking.status in ("Cancelled", "Completed"):
            await self._payouts.refund_payment(tx, booking, payment, BOOKING_ENDED, by)
            await self.review(tx, payment, "it was paid for after the booking had ended", by=by)
            return "late"
        await self._bookings.fund(tx, booking, payment.period_end)
        await self._share_out(tx, booking, payment, by=by)
        return "succeeded"

    async def fail(
        self,
        tx: Transaction,
        booking: Booking,
        payment: Payment,
        failure: str,
        *,
        by: By,
        ref: str | None = None,
        is_told: bool = True,
    ) -> Applied:
        """The card was declined. The booking stays as it is, and its borrower has to act."""
        await self._settle(tx, payment, "Failed", "payment.failed", by=by, ref=ref, failure=failure)
        if is_told and booking.status == "Active":
            people = await self._bookings.people_of(tx, booking)
            told = tells(
                ACTION_REQUIRED,
                people.borrower_admins,
                subject=booking.subject,
                context={"booking_id": str(booking.id)},
                key=f"action_required:{payment.id}",
                guard=IS_GOING_ON,
                correlation_id=by.correlation_id,
            )
            await self._notify.tell_many(tx, told)
            self.count(tx, NOTICES, "action_required", by=len(told))
        return "failed"

    async def cancel(
        self, tx: Transaction, payment: Payment, why: str, *, by: By, ref: str | None = None
    ) -> Applied:
        """Nothing was taken and nothing will be."""
        await self._settle(tx, payment, "Cancelled", "payment.cancelled", by=by, ref=ref, failure=why)
        return "cancelled"

    async def review(self, tx: Transaction, payment: Payment, why: str, *, by: By) -> None:
        """Somebody has to look at it."""
        await self._record(tx, payment, "payment.needs_review", {"reason": why}, by=by)
        detail = f"the payment of the booking {payment.booking_id}: {why}"
        await self._alerts.open(tx, PAYMENT_REVIEW, subject=payment.subject, detail=detail)
        self.count(tx, PAYMENTS, "needs_review")

    def count(self, tx: Transaction, measure: str, *labels: str, by: int = 1) -> None:
        """Counted when it has been written."""
        tx.after_commit.append(lambda: self._bell.tallies.add(measure, *labels, by=by))

    async def _give_back(
        self, tx: Transaction, booking: Booking, payment: Payment, ref: str, reason: str, *, by: By
    ) -> Applied:
        """Money that came although the payment was given up."""
        await self._store.note_intent(tx, id=payment.id, provider_intent_id=ref)
        if await self._payouts.refund_payment(tx, booking, payment, reason, by) is None:
            return "repeated"
        await self.review(tx, payment, reason, by=by)
        return "late"

    async def _share_out(self, tx: Transaction, booking: Booking, payment: Payment, *, by: By) -> None:
        """What becomes of the money of shifts that are not as they were when it was asked for."""
        found: dict[str, list[Shift]] = {"Cancelled": [], "Verified": [], "Disputed": []}
        for id, status in await self._store.list_paid_shifts(
            tx, payment_id=payment.id, statuses=("Cancelled", "Verified", "Disputed")
        ):
            shift = await self._shifts.read_shift(tx, id=id)
            assert shift is not None, "shifts are not deleted"
            found[status].append(shift)
        who = replace(by, correlation_id=by.correlation_id or payment.correlation_id)
        if found["Cancelled"]:
            await self._keep_penalties(tx, booking, found["Cancelled"], who)
            await self._payouts.refund_shifts(tx, booking, found["Cancelled"], SHIFT_CANCELLED, by)
        for shift in found["Disputed"]:
            dispute_id = await self._store.find_open_dispute(tx, time_log_id=shift.id)
            if dispute_id is not None:
                await self._ledger.freeze_later(tx, booking, shift, dispute_id, by=who)
        if (await self._settings.read_settings(tx)).payout_trigger == "webhook":
            await self._payouts.owe_payment(tx, booking, payment, by)
            return
        for shift in found["Verified"]:
            await self._payouts.owe_shift(tx, booking, shift, by)

    async def _keep_penalties(
        self, tx: Transaction, booking: Booking, shifts: Sequence[Shift], by: By
    ) -> None:
        """What a dispute that is not resolved keeps of shifts that it cancelled before they were paid for."""
        kept: defaultdict[UUID, dict[UUID, int]] = defaultdict(dict)
        for row in await self._store.list_penalties(tx, time_log_ids=[shift.id for shift in shifts]):
            kept[row["dispute_id"]][row["time_log_id"]] = row["amount"]
        for dispute_id, amounts in kept.items():
            frozen = await self._ledger.penalize(tx, booking, amounts, dispute_id)
            await self._ledger.tell_frozen(tx, booking, dispute_id, frozen, by=by)

    async def _settle(
        self,
        tx: Transaction,
        payment: Payment,
        status: Literal["Succeeded", "Failed", "Cancelled"],
        event: str,
        *,
        by: By,
        ref: str | None = None,
        failure: str | None = None,
    ) -> None:
        settled = await self._store.settle_payment(
            tx, id=payment.id, status=status, provider_intent_id=ref, failure=failure
        )
        assert settled, "the booking is held, and the payment was read since"
        said = {"before": {"status": payment.status}, "after": {"status": status}, "reason": failure}
        await self._record(tx, payment, event, said, by=by)
        self.count(tx, PAYMENTS, status.lower())

    async def _record(
        self, tx: Transaction, payment: Payment, event: str, data: Mapping[str, Any], *, by: By
    ) -> None:
        about = {
            "booking_id": str(payment.booking_id),
            "amount": payment.amount,
            "currency": payment.currency,
            "period_start": payment.period_start.isoformat(),
            "attempt": payment.attempt,
        }
        await self._bell.record(
            tx,
            event,
            {**about, **data},
            subject=payment.subject,
            actor=by.name,
            correlation_id=by.correlation_id or payment.correlation_id,
        )
