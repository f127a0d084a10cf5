"""`marketplace.retry_payment`: what nobody was asked to pay while something was disputed is charged at once.

It does not wait for Wednesday, and no cutoff stands in its way: from now on to the end of the week that comes, what is
not paid for is asked for, as the weekly payment does. A run that is repeated finds what an earlier one wrote.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from timebell.apps.marketplace.disputes.rules import Retried, retry_of
from timebell.apps.marketplace.disputes.standing import RETRIES
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.charging import Begun, Charging
from timebell.apps.marketplace.payments.checking import UNKNOWN_ZONE, Checking, booking_of, by_of, is_weekly
from timebell.apps.marketplace.payments.cycles import Week
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.payments.weeks import WEDNESDAY, local_date, monday_of
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import ConfigurationError, UnknownTimezone
from timebell.kernel import Done, Job, Outcome, Retry, Timebell, Transaction

PAYMENT_RETRIES: Final = "marketplace_payment_retries"
RETRY_SECONDS: Final = "marketplace_payment_retry_seconds"


class Retrying:
    """Charges bookings about which nothing is disputed any more."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._charging = Charging(bell)
        self._checking = Checking(bell)
        self._payments = PaymentStore(bell.clock)

    async def run(self, job: Job) -> Outcome:
        try:
            provider = provider_of(self._bell)
        except ConfigurationError as error:
            return Retry(error=str(error), error_class="unavailable")
        async with self._bell.transaction(tenant=job.tenant) as tx:
            begun = await self._begin(tx, job, provider.name)
        if not isinstance(begun, Begun):
            await self._count(job, begun)
            return Done()
        begun = replace(begun, tries=RETRIES.max_attempts)
        outcome, applied = await self._charging.carry_out(job, provider, begun)
        if applied is not None:
            await self._count(job, applied)
        elif job.attempt >= RETRIES.max_attempts:
            await self._count(job, "needs_review")
        return outcome

    async def _begin(self, tx: Transaction, job: Job, provider: str) -> Begun | Retried:
        """Look again, with the booking held: what was resolved may be disputed again, or be paid for by now."""
        booking, by = await self._bookings.hold(tx, booking_of(job)), by_of(job)
        now = await self._checking.now(tx)
        try:
            week = _week_of(booking, now)
        except UnknownTimezone:
            said = {"reason": UNKNOWN_ZONE, "timezone": booking.timezone}
            await self._checking.note(tx, booking, "needs_review", by=by, data=said)
            return "needs_review"
        payments = await self._payments.list_payments_of_period(
            tx, booking_id=booking.id, period_start=week.period.start
        )
        resolved_at = datetime.fromisoformat(job.payload["dispute_resolved_at"])
        found = retry_of(payments, resolved_at)
        if isinstance(found, str):
            return found
        if not isinstance(found, int):
            return await self._charging.resume(tx, booking, found, by)
        if not is_weekly(booking):
            return "not_wanted"
        if await self._checking.is_contested(tx, booking):
            return "contested"
        begun = await self._charging.begin(tx, booking, week, found, provider, by)
        return "not_due" if begun is None else begun

    async def _count(self, job: Job, outcome: str) -> None:
        """How it ended, and how long that took since the dispute was resolved."""
        async with self._bell.transaction(tenant=job.tenant) as tx:
            now = await self._checking.now(tx)
        took: timedelta = now - datetime.fromisoformat(job.payload["dispute_resolved_at"])
        self._bell.tallies.add(PAYMENT_RETRIES, outcome)
        self._bell.tallies.note(RETRY_SECONDS, took.total_seconds())


def _week_of(booking: Booking, now: datetime) -> Week:
    today = local_date(now, booking.timezone)
    return Week.of("payments", booking.timezone, monday_of(today) + timedelta(days=WEDNESDAY))


async def retry_payment(job: Job) -> Outcome:
    return await Retrying(job.bell).run(job)
