"""`Ending`: a booking ends before its last day, since it was cancelled, or since nobody paid for the next week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final, Literal
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.owing import Owing
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Timebell, Transaction
from timebell.logs import Logger

log = Logger("timebell.marketplace")

CANCEL_REST: Final = "marketplace.cancel_shifts"
UNCANCELLED: Final = "marketplace_uncancelled_shifts"
_FAILURES: Final = (TimebellError, *DATABASE_ERRORS)
_EVENTS: Final = {"Cancelled": "staffing_booking.cancelled", "Completed": "staffing_booking.released"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A booking that has ended, the shifts that were cancelled with it, and those that a job goes on trying with."""

    booking: Booking
    cancelled: Sequence[Shift] = ()
    failed: Sequence[UUID] = ()


class Ending:
    """Ends bookings. Whoever does so holds the booking."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._bookings = Bookings(bell)
        self._owing = Owing(bell)
        self._payouts = Payouts(bell)
        self._store = ShiftStore(bell.clock)

    async def end_booking(
        self,
        tx: Transaction,
        booking: Booking,
        *,
        status: Literal["Cancelled", "Completed"],
        cancel_from: datetime,
        end_date: date | None,
        reason: str,
        by: By,
    ) -> Ended:
        """The booking has ended: from `cancel_from` on the worker is free and the shifts that nobody has clocked in to
        are cancelled, and what is held for those goes back.

        A shift that cannot be cancelled does not keep the booking: a job goes on with it. The last day is brought
        forward and never put off. Whoever works is not reminded to clock out of a booking that was cancelled.
        """
        last = (
            booking.end_date if end_date is None else max(booking.start_date, min(booking.end_date, end_date))
        )
        ended = await self._bookings.move(
            tx,
            booking,
            status,
            by=by,
            reason=reason,
            end_date=last,
            event=_EVENTS[status],
            action="cancel" if status == "Cancelled" else "release the worker of",
        )
        return await self.cut_short(tx, ended, cancel_from=cancel_from, reason=reason, by=by)

    async def cut_short(
        self, tx: Transaction, booking: Booking, *, cancel_from: datetime, reason: str, by: By
    ) -> Ended:
        """What the end of a booking means for its worker and its shifts."""
        await self._bookings.free_worker(tx, booking, cancel_from)
        ended = await self.cancel_shifts(tx, booking, cancel_from=cancel_from, reason=reason, by=by)
        if ended.failed:
            await self._bell.enqueue(
                tx,
                CANCEL_REST,
                {"booking_id": str(booking.id), "cancel_from": cancel_from.isoformat(), "reason": reason},
                subject=booking.subject,
                correlation_id=by.correlation_id,
            )
        if booking.status == "Cancelled":
            for shift in await self._store.list_at_work(tx, booking_id=booking.id):
                await self._owing.owe(tx, booking, shift, reason="cancelled", by=by)
                await self._owing.take_back(tx, shift, reason="cancelled", by=by)
        return ended

    async def cancel_shifts(
        self, tx: Transaction, booking: Booking, *, cancel_from: datetime, reason: str, by: By
    ) -> Ended:
        """Cancel those that are to come, each for itself, and give back what is held for them."""
        ended = await self.cancel_each(tx, booking, cancel_from=cancel_from, reason=reason, by=by)
        if ended.cancelled:
            await self._payouts.refund_shifts(tx, booking, ended.cancelled, reason, by)
        return ended

    async def cancel_each(
        self, tx: Transaction, booking: Booking, *, cancel_from: datetime, reason: str, by: By
    ) -> Ended:
        """The same, without giving anything back."""
        cancelled: list[Shift] = []
        failed: list[UUID] = []
        for shift in await self._store.list_scheduled(tx, booking_id=booking.id, since=cancel_from):
            try:
                async with tx.all_or_nothing():
                    cancelled.append(await self._cancel(tx, shift, reason=reason, by=by))
            except _FAILURES as error:
                log.error("a shift could not be cancelled", exc_info=error, time_log_id=str(shift.id))
                failed.append(shift.id)
        if failed:
            tx.after_commit.append(lambda: self._bell.tallies.add(UNCANCELLED, by=len(failed)))
        return Ended(booking=booking, cancelled=cancelled, failed=failed)

    async def _cancel(self, tx: Transaction, shift: Shift, *, reason: str, by: By) -> Shift:
        """Nothing is owed yet about a shift that nobody has clocked in to."""
        moved = await self._store.save_shift(tx, replace(shift, status="Cancelled", cancel_reason=reason))
        data: Mapping[str, Any] = {
            "booking_id": str(shift.booking_id),
            "before": {"status": shift.status},
            "after": {"status": moved.status},
            "reason": reason,
        }
        await self._bell.record(
            tx,
            "time_log.cancelled",
            data,
            subject=shift.subject,
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        return moved
