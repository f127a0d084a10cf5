"""`marketplace.warn`: whoever has not paid for next week is told so, once, on Wednesday afternoon."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.payments.applying import NOTICES
from timebell.apps.marketplace.payments.checking import (
    UNKNOWN_ZONE,
    Checking,
    booking_of,
    by_of,
    is_weekly,
    week_of_job,
)
from timebell.apps.marketplace.payments.weeks import is_unpaid
from timebell.apps.marketplace.staffing.guards import IS_GOING_ON
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.texts import FINAL_WARNING, tells
from timebell.kernel import Done, Job, Outcome, Snooze
from timebell.notify import Notify

_SOON: Final = timedelta(seconds=1)


async def warn(job: Job) -> Outcome:
    """Look again; who has paid meanwhile, has something disputed, or needs nothing next week, is not warned."""
    bell, tx = job.bell, job.tx
    bookings = Bookings(bell)
    booking = await bookings.hold_free(tx, booking_of(job))
    if booking is None:
        return Snooze(delay=_SOON, reason="the booking is being changed")
    if not await _is_wanted(job, booking):
        return Done()
    people = await bookings.people_of(tx, booking)
    told = tells(
        FINAL_WARNING,
        people.borrower_admins,
        subject=booking.subject,
        context={"booking_id": str(booking.id)},
        key=f"final_warning:{booking.id}:{job.payload['period_start']}",
        guard=IS_GOING_ON,
        correlation_id=by_of(job).correlation_id,
    )
    await bell.shared.one(Notify).tell_many(tx, told)
    said = {"period_start": job.payload["period_start"], "recipients": [str(one.recipient) for one in told]}
    await bookings.record(tx, booking, "staffing_booking.warned", by=by_of(job), data=said)
    tx.after_commit.append(lambda: bell.tallies.add(NOTICES, "final_warning", by=len(told)))
    return Done()


async def _is_wanted(job: Job, booking: Booking) -> bool:
    checking, tx = Checking(job.bell), job.tx
    week = week_of_job(job, "warnings", booking)
    if week is None:
        said = {"reason": UNKNOWN_ZONE, "timezone": booking.timezone}
        await checking.note(tx, booking, "needs_review", by=by_of(job), data=said)
        return False
    return (
        is_weekly(booking)
        and is_unpaid(booking.funded_period_end, week.at)
        and await checking.now(tx) < week.cutoff
        and not await checking.is_contested(tx, booking)
        and await checking.is_next_week_due(tx, booking, week)
    )
