"""`Disputes`: what is disputed about a shift, and what is reported about one. Both pause the booking's payments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.disputes.models import (
    Dispute,
    DisputeOption,
    DisputeStatus,
    Incident,
    IncidentStatus,
)
from timebell.apps.marketplace.disputes.refusals import (
    dispute_too_late,
    incident_closed,
    no_dispute,
    no_incident,
)
from timebell.apps.marketplace.disputes.standing import Standing
from timebell.apps.marketplace.disputes.store import DisputeStore, dispute_of, incident_of
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.shifts.rules import DISPUTED_FOR, disputable
from timebell.apps.marketplace.shifts.service import VERIFIERS, Held, Shifts
from timebell.apps.marketplace.staffing.access import Access, Part
from timebell.apps.marketplace.staffing.rules import may_become
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.kernel import Ids, Page, Timebell, Transaction, decode_cursor, page_of

TIME_OUT: Final = "marketplace.time_out_dispute"
TIME_OUT_QUEUE: Final = "dispute-timeout"
DISPUTES: Final = "marketplace_disputes"
DISPUTERS: Final[tuple[Part, ...]] = (*VERIFIERS, "lender_admin", "lender_manager")
ENDED_BY_DISPUTE: Final = "End Booking & Dispute"


class Disputes:
    """Files disputes and reports. Whoever does so holds the booking."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._access = Access(bell)
        self._bookings = Bookings(bell)
        self._ending = Ending(bell)
        self._ledger = Ledger(bell)
        self._payouts = Payouts(bell)
        self._shifts = Shifts(bell)
        self._standing = Standing(bell)
        self._store = DisputeStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def file(
        self, tx: Transaction, held: Held, option: DisputeOption, reason: str, *, by: By
    ) -> Dispute:
        """The shift is disputed, what is held for it is frozen, and in three hours somebody looks again. With option B
        the booking ends with it.

        It was there in time if its transaction began no later than the timesheet was to be approved by itself. Where
        the clock approved while it waited for that, the approval is taken back, unless the money has gone.
        """
        booking, shift, now = held.booking, held.shift, held.now
        answer = disputable(shift, now)
        is_kept = answer != "no" and await self._payouts.cancel_transfer(tx, booking, shift)
        if answer == "no" or (answer == "if_unpaid" and not is_kept):
            raise dispute_too_late(shift.status, shift.auto_approval_time)
        disputed = await self._shifts.move_disputed(tx, held, by=by, reason=reason)
        id = self._ids.new()
        await self._store.insert_dispute(
            tx,
            id=id,
            shift=disputed,
            option=option,
            reason=reason,
            filed_by=by.name,
            filed_at=now,
            timeout_at=now + DISPUTED_FOR,
        )
        frozen = await self._ledger.freeze(tx, booking, disputed, id)
        dispute = await self._read(tx, id)
        await self._record(
            tx,
            "dispute.filed",
            dispute,
            by,
            {"option": option, "reason": reason, "frozen": frozen, "after": {"status": dispute.status}},
        )
        if not is_kept:
            # The lender was paid for the whole week before, so that it has to come back from there.
            await self._record(tx, "dispute.reversal_requested", dispute, by, {"amount": shift.amount})
        await self._bell.enqueue(
            tx,
            TIME_OUT,
            {
                "dispute_id": str(dispute.id),
                "booking_id": str(booking.id),
                "dispute_filed_at": dispute.dispute_filed_at.isoformat(),
                "timeout_expiration_time": dispute.timeout_expiration_time.isoformat(),
            },
            due_at=dispute.timeout_expiration_time,
            subject=dispute.subject,
            key=str(dispute.id),
            correlation_id=by.correlation_id,
        )
        if option == "B":
            await self._end(tx, held, by)
        tx.after_commit.append(lambda: self._bell.tallies.add(DISPUTES, "filed", option))
        return dispute

    async def _end(self, tx: Transaction, held: Held, by: By) -> None:
        """Option B: the booking is over. Of one whose worker was released only the days are left that are paid for."""
        booking, reason = held.booking, ENDED_BY_DISPUTE
        if may_become(booking.status, "Cancelled"):
            await self._ending.end_booking(
                tx, booking, status="Cancelled", cancel_from=held.now, end_date=None, reason=reason, by=by
            )
        else:
            await self._ending.cut_short(tx, booking, cancel_from=held.now, reason=reason, by=by)

    async def report(
        self, tx: Transaction, held: Held, option: DisputeOption, description: str, *, by: By
    ) -> Incident:
        """Something happened in a shift. Until the report is closed, the booking's payments are paused."""
        incident = await self._store.insert_incident(
            tx,
            id=self._ids.new(),
            shift=held.shift,
            option=option,
            description=description,
            reported_by=by.name,
        )
        after = {"status": incident.status}
        await self._record(tx, "incident.reported", incident, by, {"option": option, "after": after})
        return incident

    async def close(self, tx: Transaction, id: UUID, *, by: By) -> Incident:
        """Nothing is left to do about it. A booking that nothing else pauses goes on being paid for."""
        seen = await self._store.read_incident(tx, id=id)
        if seen is None:
            raise no_incident(id)
        booking = await self._bookings.hold(tx, seen.booking_id)
        await self._access.check(tx, booking, by, *VERIFIERS)
        incident = await self._store.close_incident(tx, id=id)
        if incident is None:
            raise incident_closed()
        changed = {"before": {"status": "Pending"}, "after": {"status": incident.status}}
        await self._record(tx, "incident.closed", incident, by, changed)
        await self._standing.restore(tx, booking, incident, by=by)
        return incident

    async def get(self, tx: Transaction, id: UUID, *, by: By) -> Dispute:
        dispute = await self._read(tx, id)
        await self._access.check(tx, await self._bookings.get(tx, dispute.booking_id), by)
        return dispute

    async def get_incident(self, tx: Transaction, id: UUID, *, by: By) -> Incident:
        incident = await self._store.read_incident(tx, id=id)
        if incident is None:
            raise no_incident(id)
        await self._access.check(tx, await self._bookings.get(tx, incident.booking_id), by)
        return incident

    async def list(
        self,
        tx: Transaction,
        booking_id: UUID,
        *,
        status: DisputeStatus | None,
        limit: int,
        cursor: str | None,
        by: By,
    ) -> Page[Dispute]:
        await self._access.check(tx, await self._bookings.get(tx, booking_id), by)
        after = decode_cursor("disputes", cursor).id
        rows = await self._store.list_disputes(
            tx, booking_id=booking_id, status=status, after=after, limit=limit
        )
        return page_of("disputes", rows, limit, dispute_of)

    async def list_incidents(
        self,
        tx: Transaction,
        booking_id: UUID,
        *,
        status: IncidentStatus | None,
        limit: int,
        cursor: str | None,
        by: By,
    ) -> Page[Incident]:
        await self._access.check(tx, await self._bookings.get(tx, booking_id), by)
        after = decode_cursor("incidents", cursor).id
        rows = await self._store.list_incidents(
            tx, booking_id=booking_id, status=status, after=after, limit=limit
        )
        return page_of("incidents", rows, limit, incident_of)

    async def _read(self, tx: Transaction, id: UUID) -> Dispute:
        dispute = await self._store.read_dispute(tx, id=id)
        if dispute is None:
            raise no_dispute(id)
        return dispute

    async def _record(
        self, tx: Transaction, name: str, of: Dispute | Incident, by: By, data: Mapping[str, Any]
    ) -> None:
        about = {"booking_id": str(of.booking_id), "time_log_id": str(of.time_log_id), **data}
        await self._bell.record(
            tx, name, about, subject=of.subject, actor=by.name, correlation_id=by.correlation_id
        )
