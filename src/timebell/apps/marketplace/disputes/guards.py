"""Guards: questions that are asked just before somebody is told something about a dispute."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.disputes.rules import times_out
from timebell.apps.marketplace.disputes.store import DisputeStore
from timebell.apps.marketplace.models import id_of
from timebell.apps.marketplace.staffing.booking_store import BookingStore
from timebell.kernel import Job

IS_UNRESOLVED: Final = "marketplace.is_unresolved"


async def is_unresolved(job: Job) -> bool:
    """Whether nobody has resolved it since, and its booking was not cancelled."""
    assert job.subject is not None, "whoever is told so is told about a dispute"
    async with job.bell.transaction(tenant=job.tenant) as tx:
        dispute = await DisputeStore(job.bell.clock).read_dispute(tx, id=id_of(job.subject))
        if dispute is None:
            return False
        booking = await BookingStore(job.bell.clock).read_booking(tx, id=dispute.booking_id)
    return booking is not None and times_out(dispute, booking)
