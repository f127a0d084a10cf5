"""People who are erased or ask what is kept about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.staffing.booking_store import BookingStore
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.apps.marketplace.tokens.store import TokenStore
from timebell.kernel import Done, Handler, Job, Outcome, Snooze, Timebell, Transaction

LEAVE_BOOKINGS: Final = "marketplace.leave_bookings"
ERASED: Final = "the worker was erased"
_SOON: Final = timedelta(seconds=1)


async def erase(bell: Timebell, tx: Transaction, person: UUID) -> None:
    """Forget somebody. What they were booked for is ended by a job: whoever changes a booking may be waiting to tell
    this very person something, and nobody is to wait for the other in a circle."""
    store = BookingStore(bell.clock)
    await store.delete_memberships(tx, person=person)
    await PolicyStore(bell.clock).erase_warnings(tx, person=person)
    await SearchStore(bell.clock).delete_searches_of_person(tx, person=person)
    await TokenStore(bell.clock).delete_tokens_of_person(tx, person=person)
    worker_id = await store.erase_worker(tx, person=person)
    if worker_id is not None:
        await bell.enqueue(tx, LEAVE_BOOKINGS, {"worker_id": str(worker_id)})


async def export(
    bell: Timebell, tx: Transaction, person: UUID, after: UUID | None, limit: int
) -> Sequence[Mapping[str, Any]]:
    return await BookingStore(bell.clock).export_person(tx, person=person, after=after, limit=limit)


async def leave_bookings(job: Job) -> Outcome:
    """The bookings of somebody who is erased are cancelled, one in each transaction."""
    bell, tx = job.bell, job.tx
    ids = await BookingStore(bell.clock).list_open_bookings(
        tx, worker_id=UUID(job.payload["worker_id"]), limit=1
    )
    if not ids:
        return Done()
    booking = await Bookings(bell).hold_free(tx, ids[0])
    if booking is None:
        return Snooze(delay=_SOON, reason="the booking is being changed")
    await Ending(bell).end_booking(
        tx,
        booking,
        status="Cancelled",
        cancel_from=await StaffingStore(bell.clock).read_clock(tx),
        end_date=None,
        reason=ERASED,
        by=By(correlation_id=job.correlation_id),
    )
    return Snooze(delay=timedelta(0), reason="more to come", cursor={"left": str(booking.id)})


HANDLERS: Final = {LEAVE_BOOKINGS: Handler(run=leave_bookings, mode="transactional", queue="marketplace")}
