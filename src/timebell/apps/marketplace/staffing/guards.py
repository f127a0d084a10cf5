"""Guards: questions that are asked just before somebody is told something about a booking."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.models import id_of
from timebell.apps.marketplace.staffing.booking_store import BookingStore
from timebell.apps.marketplace.staffing.rules import ENDED
from timebell.kernel import Job

IS_GOING_ON: Final = "marketplace.is_going_on"


async def is_going_on(job: Job) -> bool:
    """Whether the booking has not ended."""
    assert job.subject is not None, "whoever is told so is told about a booking"
    async with job.bell.transaction(tenant=job.tenant) as tx:
        booking = await BookingStore(job.bell.clock).read_booking(tx, id=id_of(job.subject))
    return booking is not None and booking.status not in ENDED
