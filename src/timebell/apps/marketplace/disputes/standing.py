"""`Standing`: what a booking is when one thing less is disputed or reported about it, and that it is paid for then."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.disputes.models import Dispute, Incident
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.rules import standing_of
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.kernel import Timebell, Transaction
from timebell.rules.backoff import RetryPolicy

RETRY_PAYMENT: Final = "marketplace.retry_payment"
RETRY_QUEUE: Final = "dispute-resolution-payment-retry"
# Payments begin at this rate over all nodes together, however many disputes are resolved at once.
RETRY_RATE: Final = 10
RETRIES: Final = RetryPolicy.exponential(
    base=timedelta(seconds=30), ceiling=timedelta(minutes=15), jitter="full", max_attempts=4
)


class Standing:
    """Has a booking go on. Whoever does so holds it."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._shifts = ShiftStore(bell.clock)

    async def restore(
        self, tx: Transaction, booking: Booking, ended: Dispute | Incident, *, by: By
    ) -> Booking:
        """Its status follows from what is left. With the last of it the hold is lifted, and what nobody was asked to
        pay meanwhile is charged by a job, of which there is one, since whoever comes here holds the booking."""
        is_contested = await self._shifts.is_contested(tx, booking_id=booking.id)
        standing = standing_of(
            status=booking.status,
            is_contested=is_contested,
            is_insured=booking.status != "Suspended_Insurance",
        )
        previous = booking
        if standing != booking.status:
            why = "nothing is disputed any more"
            booking = await self._bookings.move(tx, booking, standing, by=by, reason=why)
        if is_contested:
            return booking
        booking = await self._bookings.hold_clock_in(tx, booking, is_held=False, by=by)
        if isinstance(ended, Incident):
            # What was reported kept nobody from paying unless it paused the booking.
            if previous.status == booking.status:
                return booking
            ended_at = ended.closed_at
        elif ended.dispute_option == "B":
            return booking
        else:
            ended_at = ended.resolved_at
        assert ended_at is not None, "it has ended"
        await self._bell.enqueue(
            tx,
            RETRY_PAYMENT,
            {
                "booking_id": str(booking.id),
                "dispute_resolved_at": ended_at.isoformat(),
                "previous_status": previous.status,
            },
            subject=booking.subject,
            key=f"{booking.id}:{ended.id}",
            max_attempts=RETRIES.max_attempts,
            correlation_id=by.correlation_id,
        )
        return booking
