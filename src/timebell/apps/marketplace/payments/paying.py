"""`Paying`: a borrower asks to be charged again for the week that comes, as after a card was declined."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.checking import Checking
from timebell.apps.marketplace.payments.cycles import Week, charge_job
from timebell.apps.marketplace.payments.payment_store import TAKEN_OR_PENDING, PaymentStore
from timebell.apps.marketplace.payments.refusals import (
    CutoffPassed,
    NothingDue,
    PaymentContested,
    PaymentPending,
)
from timebell.apps.marketplace.payments.weeks import WEDNESDAY, cutoff_of, local_date, monday_of
from timebell.apps.marketplace.staffing.access import Access
from timebell.apps.marketplace.staffing.models import WEEKLY
from timebell.apps.marketplace.staffing.refusals import wrong_status
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.kernel import Ids, Timebell, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What will be charged, as far as nothing changes until then."""

    booking_id: UUID
    period_start: datetime
    period_end: datetime
    amount: int
    currency: str
    attempt: int
    job_id: UUID


class Paying:
    """The verb. It takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._access = Access(bell)
        self._bookings = Bookings(bell)
        self._store = PaymentStore(bell.clock)
        self._checking = Checking(bell)
        self._ids = Ids(bell.chance)

    async def pay(self, tx: Transaction, id: UUID, *, by: By) -> Asked:
        """Have the week that comes charged, by a job of its own."""
        booking = await self._bookings.get(tx, id)
        await self._access.check(tx, booking, by, "borrower_admin")
        booking = await self._bookings.hold(tx, id)
        if booking.status != "Active":
            raise wrong_status("pay for", booking.status)
        if booking.payment_type != WEEKLY:
            raise NothingDue(f"a booking with {booking.payment_type} is not paid by the week")
        if await self._checking.is_contested(tx, booking):
            raise PaymentContested("something is disputed; payments go on when it is resolved")
        now = await self._checking.now(tx)
        today = local_date(now, booking.timezone)
        cutoff = cutoff_of(today, booking.timezone)
        if now >= cutoff:
            raise CutoffPassed(f"the week that comes could be paid for until {cutoff.isoformat()}")
        week = Week.of("payments", booking.timezone, monday_of(today) + timedelta(days=WEDNESDAY))
        payments = await self._store.list_payments_of_period(
            tx, booking_id=booking.id, period_start=week.period.start
        )
        if any(payment.status == "Pending" for payment in payments):
            raise PaymentPending("a payment for that week is on its way; wait for its end")
        lines = await self._store.list_chargeable(
            tx,
            booking_id=booking.id,
            since=max(now, booking.funded_period_end),
            until=week.period.end,
            counted=TAKEN_OR_PENDING,
        )
        if not lines or any(payment.status == "Succeeded" for payment in payments):
            raise NothingDue("nothing of the week that comes is to be paid for")
        attempt = max((payment.attempt for payment in payments), default=0) + 1
        correlation_id = by.correlation_id or str(self._ids.new())
        key = f"{booking.id}:{week.period.start.date().isoformat()}:{attempt}"
        job = charge_job(week, booking.id, attempt, correlation_id, key=key)
        (enqueued,) = await self._bell.enqueue_many(tx, [job])
        said = {"period_start": week.period.start.isoformat(), "attempt": attempt}
        await self._bookings.record(tx, booking, "staffing_booking.payment_asked", by=by, data=said)
        return Asked(
            booking_id=booking.id,
            period_start=week.period.start,
            period_end=week.period.end,
            amount=sum(line.amount for line in lines),
            currency=booking.currency,
            attempt=attempt,
            job_id=enqueued.id,
        )
