"""`marketplace.charge`: one week of one booking is paid for, once, whatever is repeated.

First, with the booking held, everything is looked at again, and the payment and what it is for are written down. Then
the provider is asked outside of any transaction, with a key that is the same for every run of this attempt; whoever
comes again asks first what became of it. What the provider answers is applied with the booking held again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.applying import Applied, Applying
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.checking import (
    UNKNOWN_ZONE,
    Checking,
    booking_of,
    by_of,
    is_weekly,
    week_of_job,
)
from timebell.apps.marketplace.payments.cycles import Week
from timebell.apps.marketplace.payments.models import Payment, PaymentLine
from timebell.apps.marketplace.payments.overdue import Overdue
from timebell.apps.marketplace.payments.payment_store import TAKEN_OR_PENDING, PaymentStore
from timebell.apps.marketplace.payments.payouts import MONEY
from timebell.apps.marketplace.payments.provider import (
    Charge,
    Charged,
    PaymentProvider,
    Refused,
    Unavailable,
    Uncertain,
)
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import ConfigurationError
from timebell.kernel import Done, Ids, Job, Outcome, Retry, Timebell, Transaction

# When a provider that is away is asked again, unless it says when: there is time until the cutoff.
_AWAY: Final = timedelta(minutes=2)
UNWANTED: Final = "the booking is not to be charged any more"
# How much of what a provider says is kept.
_REASON_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A payment that is to be asked for. `was_begun`: by an earlier run, so the provider may know of it.

    `is_wanted`: the booking is still to be charged. Where it is not, only what became of the earlier run is asked.
    `tries`: how often the job is run at most.
    """

    payment_id: UUID
    charge: Charge
    was_begun: bool
    is_wanted: bool = True
    tries: int = MONEY.max_attempts


class Charging:
    """Charges the weeks of bookings."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._store = PaymentStore(bell.clock)
        self._checking = Checking(bell)
        self._applying = Applying(bell)
        self._overdue = Overdue(bell)
        self._ids = Ids(bell.chance)

    async def run(self, job: Job) -> Outcome:
        try:
            provider = provider_of(self._bell)
        except ConfigurationError as error:
            return Retry(error=str(error), error_class="unavailable")
        async with self._bell.transaction(tenant=job.tenant) as tx:
            begun = await self._begin(tx, job, provider.name)
        if begun is None:
            return Done()
        outcome, _ = await self.carry_out(job, provider, begun)
        return outcome

    async def carry_out(
        self, job: Job, provider: PaymentProvider, begun: Begun
    ) -> tuple[Outcome, Applied | None]:
        """Ask for a payment, and apply the answer."""
        charged = await self._ask(job, provider, begun)
        if not isinstance(charged, Charged | None):
            return charged, "failed" if isinstance(charged, Done) else None
        async with self._bell.transaction(tenant=job.tenant) as tx:
            booking = await self._bookings.hold(tx, begun.charge.booking_id)
            payment = await self._read(tx, begun.payment_id)
            if charged is None:
                if payment.status == "Pending":
                    await self._applying.cancel(tx, payment, UNWANTED, by=by_of(job))
                return Done(), "cancelled"
            return Done(), await self._applying.apply(tx, booking, payment, charged, by=by_of(job))

    async def _begin(self, tx: Transaction, job: Job, provider: str) -> Begun | None:
        """Look again, and write down what is to be charged. None where there is nothing to ask for."""
        booking = await self._bookings.hold(tx, booking_of(job))
        by = by_of(job)
        week = week_of_job(job, "payments", booking)
        if week is None:
            said = {"reason": UNKNOWN_ZONE, "timezone": booking.timezone}
            await self._checking.note(tx, booking, "needs_review", by=by, data=said)
            return None
        attempt: int = job.payload["attempt"]
        payments = await self._store.list_payments_of_period(
            tx, booking_id=booking.id, period_start=week.period.start
        )
        mine = next((payment for payment in payments if payment.attempt == attempt), None)
        now = await self._checking.now(tx)
        if mine is not None:
            is_open = mine.status == "Pending" and now < week.cutoff
            return await self.resume(tx, booking, mine, by) if is_open else None
        if not is_weekly(booking) or any(payment.status in TAKEN_OR_PENDING for payment in payments):
            return None
        if await self._checking.is_contested(tx, booking):
            await self._checking.pause(tx, booking, by=by)
            return None
        if now >= week.cutoff:
            await self._checking.note(
                tx, booking, "skipped", by=by, data={"reason": "the cutoff has passed", **_about(week)}
            )
            return None
        return await self.begin(tx, booking, week, attempt, provider, by)

    async def begin(
        self, tx: Transaction, booking: Booking, week: Week, attempt: int, provider: str, by: By
    ) -> Begun | None:
        """Write down what is to be charged, from now on to the end of the week. None where that is nothing."""
        now = await self._checking.now(tx)
        lines = await self._store.list_chargeable(
            tx,
            booking_id=booking.id,
            since=max(now, booking.funded_period_end),
            until=week.period.end,
            counted=TAKEN_OR_PENDING,
        )
        if not lines:
            await self._checking.note(tx, booking, "not_due", by=by, data=_about(week))
            return None
        payment = await self._write(tx, booking, week, lines, attempt, provider, by)
        charge = await self._checking.charge_of(tx, booking, payment)
        return Begun(payment_id=payment.id, charge=charge, was_begun=False)

    async def resume(self, tx: Transaction, booking: Booking, payment: Payment, by: By) -> Begun:
        """The booking may have ended, or be disputed, since an earlier run wrote the payment down."""
        is_wanted = is_weekly(booking)
        if is_wanted and await self._checking.is_contested(tx, booking):
            await self._checking.pause(tx, booking, by=by)
            is_wanted = False
        charge = await self._checking.charge_of(tx, booking, payment)
        return Begun(payment_id=payment.id, charge=charge, was_begun=True, is_wanted=is_wanted)

    async def _write(
        self,
        tx: Transaction,
        booking: Booking,
        week: Week,
        lines: list[PaymentLine],
        attempt: int,
        provider: str,
        by: By,
    ) -> Payment:
        id = self._ids.new()
        is_written = await self._store.insert_payment(
            tx,
            id=id,
            booking_id=booking.id,
            period_start=week.period.start,
            period_end=week.period.end,
            amount=sum(line.amount for line in lines),
            currency=booking.currency,
            provider=provider,
            idempotency_key=_key(booking.id, week, attempt),
            attempt=attempt,
            correlation_id=by.correlation_id,
        )
        assert is_written, "the booking is held, and no payment of this week counts"
        await self._store.insert_payment_lines(tx, payment_id=id, lines=lines)
        payment = await self._read(tx, id)
        await self._overdue.expect(tx, payment)
        said = {
            **_about(week),
            "booking_id": str(booking.id),
            "amount": payment.amount,
            "currency": payment.currency,
            "attempt": attempt,
            "after": {"status": payment.status},
            "time_log_ids": [str(line.time_log_id) for line in lines],
        }
        await self._bell.record(
            tx,
            "payment.created",
            said,
            subject=payment.subject,
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        return payment

    async def _ask(self, job: Job, provider: PaymentProvider, begun: Begun) -> Charged | Outcome | None:
        """Have it charged, once; of one that may have been asked for, ask first what became of it. None where nothing
        did, and nothing is to."""
        try:
            if begun.was_begun:
                found = await provider.look_up(begun.charge)
                if found is not None or not begun.is_wanted:
                    return found
            return await provider.charge(begun.charge)
        except Unavailable as error:
            after = _AWAY if error.retry_after is None else timedelta(seconds=error.retry_after)
            return Retry(error=error.reason, error_class="unavailable", after=after)
        except Uncertain as error:
            if job.attempt >= begun.tries:
                await self._give_up(job, begun, error.reason)
            return Retry(error=error.reason)
        except Refused as error:
            await self._refused(job, begun, error.reason)
            return Done()

    async def _refused(self, job: Job, begun: Begun, reason: str) -> None:
        """The provider will never take it, as where there is no card: to the borrower that is a payment that failed."""
        async with self._bell.transaction(tenant=job.tenant) as tx:
            booking = await self._bookings.hold(tx, begun.charge.booking_id)
            payment = await self._read(tx, begun.payment_id)
            if payment.status == "Pending":
                failure = reason[:_REASON_CHARS_MAX]
                await self._applying.fail(tx, booking, payment, failure, by=by_of(job))

    async def _give_up(self, job: Job, begun: Begun, reason: str) -> None:
        """Nobody knows whether it was taken. The cutoff asks again, and so does what is overdue; somebody may look."""
        async with self._bell.transaction(tenant=job.tenant) as tx:
            payment = await self._read(tx, begun.payment_id)
            await self._applying.review(tx, payment, reason[:_REASON_CHARS_MAX], by=by_of(job))

    async def _read(self, tx: Transaction, id: UUID) -> Payment:
        payment = await self._store.read_payment(tx, id=id)
        assert payment is not None, "payments are not deleted"
        return payment


def _key(booking_id: UUID, week: Week, attempt: int) -> str:
    """It follows from what it is for, so that nothing that is lost can make another."""
    return f"charge:{booking_id}:{week.period.start.date().isoformat()}:{attempt}"


def _about(week: Week) -> dict[str, Any]:
    return {"period_start": week.period.start.isoformat(), "period_end": week.period.end.isoformat()}


async def charge(job: Job) -> Outcome:
    return await Charging(job.bell).run(job)
