"""`marketplace.cut_off`: no payment is accepted any more, and the worker of a booking that is not paid for is released.

A payment that is still on its way is settled first: the provider is asked, outside of any transaction, what became of
it, and to have it not happen. Nobody is released who was never asked to pay, since that was our failure: somebody looks
at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.applying import NOTICES, Applying
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.checking import (
    NEVER_ASKED,
    UNKNOWN_ZONE,
    Checking,
    booking_of,
    by_of,
    is_weekly,
    week_of_job,
)
from timebell.apps.marketplace.payments.cycles import Week
from timebell.apps.marketplace.payments.models import Payment
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.payments.provider import Charge, Charged, Refused, Unavailable, Uncertain
from timebell.apps.marketplace.payments.weeks import is_unpaid, sunday_of
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.texts import WORKER_RELEASED, tells
from timebell.errors import ConfigurationError
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.notify import Notify

REASON: Final = "Weekly Payment Hard Cutoff - Worker Released"
RELEASES: Final = "marketplace_releases"
# How long a payment that cannot be cancelled is waited for, and how often that is looked at.
WAIT_MAX: Final = timedelta(minutes=60)
WAIT_BETWEEN: Final = timedelta(minutes=5)

# What became of a payment that was on its way at the cutoff; `unknown` where it may still be taken.
Settled = Charged | Literal["never_asked", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnItsWay:
    """A payment that has to be settled before anybody is released."""

    payment_id: UUID
    charge: Charge
    ref: str | None


class Cutoff:
    """Cuts off bookings whose next week is not paid for."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._store = PaymentStore(bell.clock)
        self._checking = Checking(bell)
        self._applying = Applying(bell)
        self._ending = Ending(bell)
        self._notify = bell.shared.one(Notify)

    async def run(self, job: Job) -> Outcome:
        async with self._bell.transaction(tenant=job.tenant) as tx:
            on_its_way = await self._decide(tx, job)
        if on_its_way is None:
            return Done()
        settled = await self._settle(on_its_way)
        async with self._bell.transaction(tenant=job.tenant) as tx:
            return await self._apply(tx, job, on_its_way, settled)

    async def _decide(self, tx: Transaction, job: Job) -> OnItsWay | None:
        """Look again, and release; what has to be settled first comes back."""
        booking, by = await self._bookings.hold(tx, booking_of(job)), by_of(job)
        week = week_of_job(job, "cutoffs", booking)
        if week is None:
            said = {"reason": UNKNOWN_ZONE, "timezone": booking.timezone}
            await self._checking.note(tx, booking, "needs_review", by=by, data=said)
            return None
        if not await self._is_unpaid(tx, booking, week, by):
            return None
        payments = await self._store.list_payments_of_period(
            tx, booking_id=booking.id, period_start=week.period.start
        )
        pending = next((payment for payment in payments if payment.status == "Pending"), None)
        if pending is not None:
            charge = await self._checking.charge_of(tx, booking, pending)
            return OnItsWay(payment_id=pending.id, charge=charge, ref=pending.provider_intent_id)
        if not any(_was_asked(payment) for payment in payments):
            await self._leave(tx, booking, week, "nobody was asked to pay", by=by)
            return None
        await self._release(tx, booking, week, by=by)
        return None

    async def _is_unpaid(self, tx: Transaction, booking: Booking, week: Week, by: By) -> bool:
        """Whether the worker is to be released; what is disputed is paused in its place."""
        if not is_weekly(booking) or not is_unpaid(booking.funded_period_end, week.at):
            return False
        if await self._checking.is_contested(tx, booking):
            await self._checking.pause(tx, booking, by=by)
            return False
        return await self._checking.is_next_week_due(tx, booking, week)

    async def _settle(self, on_its_way: OnItsWay) -> Settled:
        """Ask what became of a payment, and have it not happen if it has not."""
        try:
            provider = provider_of(self._bell)
            found = await provider.look_up(on_its_way.charge, ref=on_its_way.ref)
            if found is None:
                return "never_asked"
            if found.state == "processing":
                found = await provider.cancel(on_its_way.charge, ref=found.ref)
            return "unknown" if found.state == "processing" else found
        except (Unavailable, Uncertain, Refused, ConfigurationError):
            return "unknown"

    async def _apply(self, tx: Transaction, job: Job, on_its_way: OnItsWay, settled: Settled) -> Outcome:
        """What the provider said, and then what follows for the booking, as both are by now."""
        booking, by = await self._bookings.hold(tx, booking_of(job)), by_of(job)
        payment = await self._store.read_payment(tx, id=on_its_way.payment_id)
        assert payment is not None, "payments are not deleted"
        week = week_of_job(job, "cutoffs", booking)
        assert week is not None, "it was known a moment ago"
        if payment.status == "Pending":
            if settled == "unknown":
                return await self._wait(tx, job, booking, week, payment)
            if settled == "never_asked":
                await self._applying.cancel(tx, payment, NEVER_ASKED, by=by)
                if await self._is_unpaid(tx, booking, week, by):
                    await self._leave(tx, booking, week, NEVER_ASKED, by=by)
                return Done()
            await self._applying.apply(tx, booking, payment, settled, by=by, is_told=False)
        elif isinstance(settled, Charged) and settled.state == "succeeded":
            await self._applying.apply(tx, booking, payment, settled, by=by)
        booking = await self._bookings.get(tx, booking.id)
        if await self._is_unpaid(tx, booking, week, by):
            await self._release(tx, booking, week, by=by)
        return Done()

    async def _wait(
        self, tx: Transaction, job: Job, booking: Booking, week: Week, payment: Payment
    ) -> Outcome:
        """It may still be taken and cannot be kept from it. After an hour somebody has to look."""
        now, by = await self._checking.now(tx), by_of(job)
        said = {"payment_id": str(payment.id), "period_start": week.period.start.isoformat()}
        if job.cursor is None:
            await self._checking.note(tx, booking, "cutoff_waits", by=by, data=said)
            since = now
        else:
            since = datetime.fromisoformat(job.cursor["since"])
        if now - since >= WAIT_MAX:
            await self._leave(tx, booking, week, "a payment could neither be settled nor cancelled", by=by)
            return Done()
        return Snooze(
            delay=WAIT_BETWEEN, cursor={"since": since.isoformat()}, reason="a payment is still on its way"
        )

    async def _leave(self, tx: Transaction, booking: Booking, week: Week, why: str, *, by: By) -> None:
        said = {"reason": why, "period_start": week.period.start.isoformat()}
        await self._checking.note(tx, booking, "needs_review", by=by, data=said)
        self._applying.count(tx, RELEASES, "needs_review")

    async def _release(self, tx: Transaction, booking: Booking, week: Week, *, by: By) -> None:
        """The booking ends on Sunday of the week in which the cutoff was meant to be, and everybody is told."""
        sunday = sunday_of(week.day)
        await self._ending.end_booking(
            tx,
            booking,
            status="Completed",
            cancel_from=week.period.start,
            end_date=sunday,
            reason=REASON,
            by=by,
        )
        people = await self._bookings.people_of(tx, booking)
        told = tells(
            WORKER_RELEASED,
            [people.worker, *people.borrower_admins, *people.lender_admins],
            subject=booking.subject,
            context={"booking_id": str(booking.id), "sunday": sunday.isoformat()},
            key=f"worker_released:{booking.id}",
            correlation_id=by.correlation_id,
        )
        await self._notify.tell_many(tx, told)
        self._applying.count(tx, NOTICES, "worker_released", by=len(told))
        self._applying.count(tx, RELEASES, "released")


def _was_asked(payment: Payment) -> bool:
    """Whether the provider was asked for it: it said no, or has a name for it."""
    return payment.status == "Failed" or payment.provider_intent_id is not None


async def cut_off(job: Job) -> Outcome:
    return await Cutoff(job.bell).run(job)
