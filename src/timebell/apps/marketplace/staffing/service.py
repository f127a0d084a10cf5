"""`Bookings`: what everything about a booking begins with. Each verb takes part in the transaction that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.staffing.booking_store import BookingStore, booking_of
from timebell.apps.marketplace.staffing.models import Booking, BookingFilter, BookingStatus, People
from timebell.apps.marketplace.staffing.refusals import no_booking, wrong_status
from timebell.apps.marketplace.staffing.rules import may_become
from timebell.kernel import Page, Timebell, Transaction, decode_cursor, page_of

# What a transition is called in the audit trail, by where it leads.
_EVENTS: Final[Mapping[BookingStatus, str]] = {
    "Active": "staffing_booking.resumed",
    "Payment_Paused_Dispute": "staffing_booking.paused",
    "Suspended_Insurance": "staffing_booking.suspended",
    "Cancelled": "staffing_booking.cancelled",
    "Completed": "staffing_booking.completed",
}


class Bookings:
    """Bookings as they are, held and moved. Whoever changes anything about one holds it first."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = BookingStore(bell.clock)

    async def get(self, tx: Transaction, id: UUID) -> Booking:
        booking = await self._store.read_booking(tx, id=id)
        if booking is None:
            raise no_booking(id)
        return booking

    async def hold(self, tx: Transaction, id: UUID) -> Booking:
        """The booking as it is, about which nobody else changes anything until the transaction ends."""
        if not await self._store.lock_booking(tx, id=id):
            raise no_booking(id)
        return await self.get(tx, id)

    async def hold_free(self, tx: Transaction, id: UUID) -> Booking | None:
        """As `hold`, without waiting: None where somebody else has it, or where there is none."""
        if not await self._store.lock_free_booking(tx, id=id):
            return None
        return await self.get(tx, id)

    async def list(
        self, tx: Transaction, wanted: BookingFilter, *, by: By, limit: int, cursor: str | None
    ) -> Page[Booking]:
        """Those that somebody has a part in; to the operator all."""
        after = decode_cursor("bookings", cursor).id
        if by.person is None:
            rows = await self._store.list_bookings(tx, wanted, after=after, limit=limit)
        else:
            rows = await self._store.list_bookings_of_person(
                tx, wanted, person=by.person, after=after, limit=limit
            )
        return page_of("bookings", rows, limit, booking_of)

    async def people_of(self, tx: Transaction, booking: Booking) -> People:
        """Whom something about a booking may concern."""
        rows = await self._store.read_people(
            tx, company_ids=[booking.borrower_company_id, booking.lender_company_id]
        )

        def having(company: UUID, role: str) -> tuple[UUID, ...]:
            return tuple(
                row["recipient_id"] for row in rows if (row["company_id"], row["role"]) == (company, role)
            )

        return People(
            worker=booking.worker_recipient_id,
            supervisor=booking.supervisor_id,
            borrower_admins=having(booking.borrower_company_id, "borrower_admin"),
            borrower_managers=having(booking.borrower_company_id, "borrower_manager"),
            lender_admins=having(booking.lender_company_id, "lender_admin"),
            lender_managers=having(booking.lender_company_id, "lender_manager"),
        )

    async def move(
        self,
        tx: Transaction,
        booking: Booking,
        status: BookingStatus,
        *,
        by: By,
        reason: str | None = None,
        end_date: date | None = None,
        event: str | None = None,
        action: str = "change",
        data: Mapping[str, Any] | None = None,
    ) -> Booking:
        """A booking that is held changes its status, and with it its last day where one is given.

        `event` is what the audit trail calls it where the status alone does not say it, `action` what somebody wanted
        who is refused. The reason of a release stays with the booking.
        """
        if not may_become(booking.status, status):
            raise wrong_status(action, booking.status)
        await self._store.move_booking(
            tx,
            id=booking.id,
            from_status=booking.status,
            to_status=status,
            end_date=end_date,
            release_reason=reason if status in ("Cancelled", "Completed") else None,
        )
        after: dict[str, Any] = {"status": status}
        before: dict[str, Any] = {"status": booking.status}
        if end_date is not None and end_date != booking.end_date:
            before["end_date"], after["end_date"] = booking.end_date.isoformat(), end_date.isoformat()
        await self.record(
            tx,
            booking,
            event or _EVENTS[status],
            by=by,
            data={"before": before, "after": after, "reason": reason, **(data or {})},
        )
        return await self.get(tx, booking.id)

    async def fund(self, tx: Transaction, booking: Booking, until: datetime) -> Booking:
        """Paid for up to then, unless it is already paid for longer."""
        await self._store.fund_booking(tx, id=booking.id, funded_period_end=until)
        return await self.get(tx, booking.id)

    async def hold_clock_in(self, tx: Transaction, booking: Booking, *, is_held: bool, by: By) -> Booking:
        """Whether nobody may clock in until the disputes are resolved."""
        if is_held == booking.clock_in_hold:
            return booking
        await self._store.hold_clock_in(tx, id=booking.id, is_held=is_held)
        event = "staffing_booking.held" if is_held else "staffing_booking.hold_lifted"
        changed = {"before": {"clock_in_hold": not is_held}, "after": {"clock_in_hold": is_held}}
        await self.record(tx, booking, event, by=by, data=changed)
        return await self.get(tx, booking.id)

    async def free_worker(self, tx: Transaction, booking: Booking, from_at: datetime) -> None:
        """The worker can be booked by others from then on."""
        await self._store.free_worker(tx, booking_id=booking.id, from_at=from_at)

    async def record(
        self, tx: Transaction, booking: Booking, event: str, *, by: By, data: Mapping[str, Any]
    ) -> None:
        await self._bell.record(
            tx,
            event,
            data,
            subject=booking.subject,
            actor=by.name,
            correlation_id=by.correlation_id,
        )
