"""`Payouts`: what leaves the escrow, for the lender or back to the borrower.

What is to leave is written down in the transaction that decides it, and a job of its own makes the provider move it: it
looks again, says that it is about to ask, asks with the same key however often it has to, and tells the ledger when the
provider has confirmed. Until it has said so the money can be kept back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import By, payment_subject
from timebell.apps.marketplace.payments.alerting import PAYOUT_REVIEW, PAYOUT_TO_REVERSE, SHIFT_UNFUNDED
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.ledger_store import LedgerStore, PayoutStore
from timebell.apps.marketplace.payments.models import Payment, PaymentLine, Payout, PayoutSort, Pot
from timebell.apps.marketplace.payments.provider import Movement, Refused, Unavailable, Uncertain
from timebell.apps.marketplace.payments.rules import left_entries, refunds_of
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import ConfigurationError
from timebell.kernel import Alerts, Dead, Done, Ids, Job, Outcome, Retry, Timebell, Transaction
from timebell.rules.backoff import RetryPolicy

PAY_OUT: Final = "marketplace.pay_out"
PAYOUTS_QUEUE: Final = "marketplace-payouts"
# One try and five more, as everything that moves money has.
MONEY: Final = RetryPolicy.exponential(
    base=timedelta(seconds=30), ceiling=timedelta(minutes=15), jitter="full", max_attempts=6
)
PAYOUTS: Final = "marketplace_payouts"
UNFUNDED: Final = "marketplace_unfunded_shifts"
VERIFIED: Final = "verified"
PAID: Final = "paid"
SETTLED: Final = "settled"
_BY: Final = By()


class Payouts:
    """Owes money to lenders and borrowers, and pays it. Whoever owes holds the booking."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = PayoutStore(bell.clock)
        self._entries = LedgerStore(bell.clock)
        self._ledger = Ledger(bell)
        self._bookings = Bookings(bell)
        self._alerts = Alerts(bell)
        self._ids = Ids(bell.chance)

    async def owe_shift(self, tx: Transaction, booking: Booking, shift: Shift, by: By) -> Payout | None:
        """What is held for a shift is the lender's, since it was verified. None where it has been paid, or is about to
        be; and where nothing was ever held for it, of which an event tells."""
        if await self._store.find_transfer(tx, time_log_id=shift.id) is not None:
            return None
        pots = await self._ledger.pots(tx, [shift.id])
        for pot in pots:
            if pot.free > 0:
                await self._alerts.close(tx, SHIFT_UNFUNDED, subject=shift.subject)
                return await self._owe(tx, booking, "transfer", pot.payment_id, _lines([pot]), VERIFIED, by)
        if shift.amount > 0 and not any(pot.released or pot.frozen or pot.leaving for pot in pots):
            said = {"amount": shift.amount, "currency": booking.currency, "booking_id": str(booking.id)}
            await self._record(tx, "time_log.unfunded", said, shift.subject, by)
            detail = f"{shift.amount} {booking.currency} of the booking {booking.id} are owed and not held"
            await self._alerts.open(tx, SHIFT_UNFUNDED, subject=shift.subject, detail=detail)
            tx.after_commit.append(lambda: self._bell.tallies.add(UNFUNDED))
        return None

    async def owe_payment(self, tx: Transaction, booking: Booking, payment: Payment, by: By) -> Payout | None:
        """All that a payment holds is the lender's at once, in one transfer: the other way of paying out."""
        pots = [pot for pot in await self._pots_of(tx, payment.id) if pot.free > 0]
        if not pots:
            return None
        return await self._owe(tx, booking, "transfer", payment.id, _lines(pots), PAID, by)

    async def owe_settlement(
        self,
        tx: Transaction,
        booking: Booking,
        *,
        lender: Mapping[UUID, Sequence[PaymentLine]],
        borrower: Mapping[UUID, Sequence[PaymentLine]],
        by: By,
    ) -> None:
        """What was agreed about money that is held again, by the payment that it came from."""
        shares: tuple[tuple[PayoutSort, Mapping[UUID, Sequence[PaymentLine]]], ...] = (
            ("transfer", lender),
            ("refund", borrower),
        )
        for sort, by_payment in shares:
            for payment_id, lines in by_payment.items():
                await self._owe(tx, booking, sort, payment_id, lines, SETTLED, by)

    async def keep_back(
        self, tx: Transaction, booking: Booking, shifts: Sequence[Shift], reason: str, by: By
    ) -> None:
        """What is to leave for shifts does not. What has left for the lender cannot be kept: an event asks for its
        reversal."""
        for shift in shifts:
            if not await self.cancel_transfer(tx, booking, shift):
                said = {"amount": shift.amount, "currency": booking.currency, "reason": reason}
                await self._record(tx, "payout.reversal_requested", said, shift.subject, by)
                detail = f"{shift.amount} {booking.currency} of the booking {booking.id}: {reason}"
                await self._alerts.open(tx, PAYOUT_TO_REVERSE, subject=shift.subject, detail=detail)
                tx.after_commit.append(lambda: self._bell.tallies.add(PAYOUTS, "transfer", "to_reverse"))

    async def refund_shifts(
        self, tx: Transaction, booking: Booking, shifts: Sequence[Shift], reason: str, by: By
    ) -> list[Payout]:
        """What is held for shifts goes back, in one refund for each payment that it came from."""
        await self.keep_back(tx, booking, shifts, reason, by)
        return await self.refund_free(tx, booking, shifts, reason, by)

    async def refund_free(
        self, tx: Transaction, booking: Booking, shifts: Sequence[Shift], reason: str, by: By
    ) -> list[Payout]:
        """The same of shifts of which nothing is about to leave."""
        pots = await self._ledger.pots(tx, [shift.id for shift in shifts])
        return [
            await self._owe(tx, booking, "refund", payment_id, lines, reason, by)
            for payment_id, lines in refunds_of(pots).items()
        ]

    async def refund_payment(
        self, tx: Transaction, booking: Booking, payment: Payment, reason: str, by: By
    ) -> Payout | None:
        """All of a payment that is still here goes back. One that succeeded too late for anything to be held from it is
        charged and refunded in one, when the provider has confirmed the refund."""
        if await self._entries.read_charge_ref(tx, payment_id=payment.id) is not None:
            lines = refunds_of(await self._pots_of(tx, payment.id)).get(payment.id)
            if not lines:
                return None
            return await self._owe(tx, booking, "refund", payment.id, lines, reason, by)
        if await self._store.find_refund(tx, payment_id=payment.id) is not None:
            return None
        return await self._owe(tx, booking, "refund", payment.id, (), reason, by, amount=payment.amount)

    async def cancel_transfer(self, tx: Transaction, booking: Booking, shift: Shift) -> bool:
        """Keep back what is to leave for a shift; False where that is too late."""
        id = await self._store.find_transfer(tx, time_log_id=shift.id)
        if id is None:
            return True
        payout = await self._read(tx, id)
        if payout.state != "pending":
            return False
        await self._keep_back(tx, payout, [shift.id], reason="the shift is not to be paid out")
        return True

    async def pay(self, job: Job) -> Outcome:
        """`marketplace.pay_out`: one payout, from looking again to the ledger."""
        id = UUID(job.payload["payout_id"])
        try:
            provider = provider_of(self._bell)
        except ConfigurationError as error:
            return Retry(error=str(error), error_class="unavailable")
        movement = await self._begin(job.tenant, id)
        if movement is None:
            return Done()
        payout, said = movement
        try:
            call = provider.transfer if payout.sort == "transfer" else provider.refund
            ref = await call(said)
        except Unavailable as error:
            after = None if error.retry_after is None else timedelta(seconds=error.retry_after)
            return Retry(error=error.reason, error_class="unavailable", after=after)
        except Uncertain as error:
            if job.attempt >= MONEY.max_attempts:
                await self._tell_of_failure(job.tenant, payout, error.reason)
            return Retry(error=error.reason)
        except Refused as error:
            await self._refused(job.tenant, payout, error.reason, was_begun=said.was_begun)
            return Dead(reason=error.reason)
        await self._settle(job.tenant, id, ref)
        return Done()

    async def _begin(self, tenant: str, id: UUID) -> tuple[Payout, Movement] | None:
        """Look again, and from then on it cannot be kept back. None where nothing is to leave any more."""
        async with self._bell.transaction(tenant=tenant) as tx:
            _, payout = await self._hold(tx, id)
            if payout.state in ("sent", "cancelled"):
                return None
            was_begun = payout.state == "sending"
            if not was_begun:
                # What was settled was agreed about these shifts as they are.
                if payout.sort == "transfer" and payout.reason != SETTLED:
                    unpayable = await self._store.list_unpayable(
                        tx,
                        ids=[line.time_log_id for line in payout.lines],
                        is_verified=payout.reason == VERIFIED,
                    )
                    payout = await self._keep_back(
                        tx, payout, list(unpayable), reason="the shift has changed"
                    )
                    if payout.state == "cancelled":
                        return None
                payout = replace(payout, state="sending")
                await self._store.update_payout(tx, payout, from_state="pending")
            of_ref = await self._charge_ref(tx, payout)
            destination = await self._store.read_destination(tx, booking_id=payout.booking_id)
        return payout, Movement(
            key=payout.idempotency_key,
            amount=payout.amount,
            currency=payout.currency,
            tenant=tenant,
            booking_id=payout.booking_id,
            of_ref=of_ref,
            destination=destination if payout.sort == "transfer" else None,
            was_begun=was_begun,
        )

    async def _settle(self, tenant: str, id: UUID, ref: str) -> None:
        """The provider has confirmed. Whoever comes second finds that it is written."""
        async with self._bell.transaction(tenant=tenant) as tx:
            booking, payout = await self._hold(tx, id)
            if payout.state == "sent":
                return
            charge_ref = await self._charge_ref(tx, payout)
            entries = left_entries(payout, ref, charge_ref=charge_ref)
            await self._ledger.post(tx, booking, entries)
            sent = replace(payout, state="sent", provider_ref=ref)
            await self._store.update_payout(tx, sent, from_state="sending")
            await self._record_payout(tx, "payout.sent", sent, provider_ref=ref)
            await self._alerts.close(tx, PAYOUT_REVIEW, subject=_subject(payout))
            if payout.sort == "refund" and await self._store.mark_refunded(tx, id=payout.payment_id):
                said = {"amount": payout.amount, "currency": payout.currency, "reason": payout.reason}
                await self._record(
                    tx, "payment.refunded", said, payment_subject(payout.payment_id), _by(payout)
                )
            tx.after_commit.append(lambda: self._bell.tallies.add(PAYOUTS, payout.sort, "sent"))

    async def _refused(self, tenant: str, payout: Payout, reason: str, *, was_begun: bool) -> None:
        """Nothing has moved, for certain, so it may still be kept back. A provider answers the same key with the same
        refusal for a day: whoever revives the job when the reason is gone asks with another.

        An earlier call that nobody heard the end of may have moved it all the same. Then it stays as it is, and whoever
        asks again looks for it first, under the key that it has.
        """
        if not was_begun:
            async with self._bell.transaction(tenant=tenant) as tx:
                _, held = await self._hold(tx, payout.id)
                if held.state == "sending":
                    attempt = held.attempt + 1
                    again = replace(
                        held, state="pending", attempt=attempt, idempotency_key=_key(held.id, attempt)
                    )
                    await self._store.update_payout(tx, again, from_state="sending")
        await self._tell_of_failure(tenant, payout, reason)

    async def _tell_of_failure(self, tenant: str, payout: Payout, error: str) -> None:
        async with self._bell.transaction(tenant=tenant) as tx:
            await self._record_payout(tx, "payout.needs_review", payout, error=error)
            detail = f"{payout.sort} of {payout.amount} {payout.currency} for the booking {payout.booking_id}: {error}"
            await self._alerts.open(tx, PAYOUT_REVIEW, subject=_subject(payout), detail=detail)
            tx.after_commit.append(lambda: self._bell.tallies.add(PAYOUTS, payout.sort, "needs_review"))

    async def _owe(
        self,
        tx: Transaction,
        booking: Booking,
        sort: PayoutSort,
        payment_id: UUID,
        lines: Sequence[PaymentLine],
        reason: str,
        by: By,
        *,
        amount: int | None = None,
    ) -> Payout:
        id = self._ids.new()
        await self._store.insert_payout(
            tx,
            id=id,
            booking_id=booking.id,
            sort=sort,
            payment_id=payment_id,
            amount=sum(line.amount for line in lines) if amount is None else amount,
            currency=booking.currency,
            reason=reason,
            idempotency_key=_key(id, 1),
            correlation_id=by.correlation_id,
        )
        await self._store.insert_payout_lines(tx, payout_id=id, sort=sort, lines=lines)
        payout = await self._read(tx, id)
        await self._record_payout(tx, "payout.owed", payout, by=by)
        await self._bell.enqueue(
            tx,
            PAY_OUT,
            {"payout_id": str(id), "booking_id": str(booking.id)},
            subject=payment_subject(payment_id),
            key=str(id),
            max_attempts=MONEY.max_attempts,
            correlation_id=by.correlation_id,
        )
        return payout

    async def _keep_back(
        self, tx: Transaction, payout: Payout, time_log_ids: Sequence[UUID], *, reason: str
    ) -> Payout:
        """Take shifts out of a transfer that has not begun; without any it is cancelled."""
        kept = [line for line in payout.lines if line.time_log_id not in time_log_ids]
        if len(kept) == len(payout.lines):
            return payout
        await self._store.delete_payout_lines(tx, payout_id=payout.id, time_log_ids=time_log_ids)
        changed = (
            replace(payout, lines=kept, amount=sum(line.amount for line in kept))
            if kept
            else replace(payout, lines=(), state="cancelled")
        )
        await self._store.update_payout(tx, changed, from_state="pending")
        ids = [str(id) for id in time_log_ids]
        await self._record_payout(tx, "payout.kept_back", changed, kept_back=ids, why=reason)
        return changed

    async def _hold(self, tx: Transaction, id: UUID) -> tuple[Booking, Payout]:
        """Lock the booking of a payout, and read it as it stands then."""
        payout = await self._read(tx, id)
        booking = await self._bookings.hold(tx, payout.booking_id)
        return booking, await self._read(tx, id)

    async def _read(self, tx: Transaction, id: UUID) -> Payout:
        payout = await self._store.read_payout(tx, id=id)
        assert payout is not None, "payouts are not deleted"
        return payout

    async def _charge_ref(self, tx: Transaction, payout: Payout) -> str:
        """Of a payment that nothing was held from the ledger does not know the charge yet; the payment does."""
        ref = await self._entries.read_charge_ref(tx, payment_id=payout.payment_id)
        if ref is None:
            ref = await self._store.read_intent(tx, id=payout.payment_id)
        assert ref is not None, "whatever leaves was charged"
        return ref

    async def _pots_of(self, tx: Transaction, payment_id: UUID) -> list[Pot]:
        ids = await self._entries.read_held_shifts(tx, payment_id=payment_id)
        return [pot for pot in await self._ledger.pots(tx, ids) if pot.payment_id == payment_id]

    async def _record_payout(
        self, tx: Transaction, name: str, payout: Payout, *, by: By | None = None, **said: Any
    ) -> None:
        about = {
            "payout_id": str(payout.id),
            "sort": payout.sort,
            "amount": payout.amount,
            "currency": payout.currency,
            "reason": payout.reason,
            "booking_id": str(payout.booking_id),
            "time_log_ids": [str(line.time_log_id) for line in payout.lines],
            **said,
        }
        await self._record(tx, name, about, payment_subject(payout.payment_id), by or _by(payout))

    async def _record(self, tx: Transaction, name: str, said: dict[str, Any], subject: str, by: By) -> None:
        await self._bell.record(
            tx, name, said, subject=subject, actor=by.name, correlation_id=by.correlation_id
        )


async def pay_out(job: Job) -> Outcome:
    return await Payouts(job.bell).pay(job)


def _by(payout: Payout) -> By:
    return replace(_BY, correlation_id=payout.correlation_id)


def _subject(payout: Payout) -> str:
    """What an alert about it is about."""
    return f"payout:{payout.id}"


def _key(id: UUID, attempt: int) -> str:
    return f"payout:{id}:{attempt}"


def _lines(pots: Sequence[Pot]) -> list[PaymentLine]:
    return [PaymentLine(time_log_id=pot.time_log_id, amount=pot.free) for pot in pots]
