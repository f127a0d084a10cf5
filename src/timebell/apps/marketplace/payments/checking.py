"""Checks of the weekly cycle: what its jobs look at again when they run, each with the booking held."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final, Literal
from uuid import UUID

from timebell.apps.marketplace.models import SYSTEM, By
from timebell.apps.marketplace.payments.alerting import BOOKING_REVIEW
from timebell.apps.marketplace.payments.applying import PAYMENTS
from timebell.apps.marketplace.payments.cycles import Week
from timebell.apps.marketplace.payments.models import Payment
from timebell.apps.marketplace.payments.payment_store import TAKEN, PaymentStore
from timebell.apps.marketplace.payments.provider import Charge
from timebell.apps.marketplace.payments.weekly_store import WeeklyStore
from timebell.apps.marketplace.payments.weeks import Run
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import WEEKLY, Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import UnknownTimezone
from timebell.kernel import Alerts, Job, Timebell, Transaction

UNKNOWN_ZONE: Final = "the timezone is not known"
NEVER_ASKED: Final = "the provider was never asked for it"
Noted = Literal["not_due", "skipped", "needs_review", "cutoff_waits", "webhook_overdue"]


class Checking:
    """Asks about a booking that is held, and writes down why nothing is done about it."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._shifts = ShiftStore(bell.clock)
        self._weekly = WeeklyStore(bell.clock)
        self._payments = PaymentStore(bell.clock)
        self._alerts = Alerts(bell)

    async def now(self, tx: Transaction) -> datetime:
        return await self._weekly.read_time(tx)

    async def is_contested(self, tx: Transaction, booking: Booking) -> bool:
        """Whether something about it is disputed, or reported and not closed."""
        return await self._shifts.is_contested(tx, booking_id=booking.id)

    async def pause(self, tx: Transaction, booking: Booking, *, by: By) -> None:
        """Payments wait until nothing is disputed any more; work goes on."""
        await self._bookings.move(tx, booking, "Payment_Paused_Dispute", by=by, reason="a dispute is open")
        self._count(tx, "paused")

    async def is_next_week_due(self, tx: Transaction, booking: Booking, week: Week) -> bool:
        """Whether there is work in the week that comes which nobody has paid for."""
        lines = await self._payments.list_chargeable(
            tx, booking_id=booking.id, since=week.period.start, until=week.period.end, counted=TAKEN
        )
        return bool(lines)

    async def note(
        self,
        tx: Transaction,
        booking: Booking,
        what: Noted,
        *,
        by: By,
        data: Mapping[str, Any],
    ) -> None:
        """An event about the booking, and a count that operators see."""
        await self._bookings.record(tx, booking, f"payment.{what}", by=by, data=data)
        self._count(tx, what)
        if what == "needs_review":
            detail = f"{data.get('reason', what)}, of the booking {booking.id}"
            await self._alerts.open(tx, BOOKING_REVIEW, subject=booking.subject, detail=detail)

    async def charge_of(self, tx: Transaction, booking: Booking, payment: Payment) -> Charge:
        """What the provider is asked for, the same for every call about this payment."""
        customer, method = await self._payments.read_card(tx, booking_id=booking.id)
        return Charge(
            key=payment.idempotency_key,
            amount=payment.amount,
            currency=payment.currency,
            tenant=tx.tenant,
            booking_id=booking.id,
            payment_id=payment.id,
            customer=customer,
            method=method,
            asked_at=payment.created_at,
        )

    def _count(self, tx: Transaction, outcome: str) -> None:
        tx.after_commit.append(lambda: self._bell.tallies.add(PAYMENTS, outcome))


def is_weekly(booking: Booking) -> bool:
    return booking.status == "Active" and booking.payment_type == WEEKLY


def booking_of(job: Job) -> UUID:
    return UUID(job.payload["booking_id"])


def by_of(job: Job) -> By:
    return By(name=SYSTEM, correlation_id=job.payload.get("correlation_id") or job.correlation_id)


def week_of_job(job: Job, run: Run, booking: Booking) -> Week | None:
    """What the job is about, by the clock of the booking; None where its zone is not known any more."""
    try:
        return Week.of(run, booking.timezone, date.fromisoformat(job.payload["run_on"]))
    except UnknownTimezone:
        return None
