"""`Timing`: a dispute that nobody resolved within three hours cancels the shifts to come of its booking.

What is kept of them by the policy is frozen with the money of the disputed shift, and the rest goes back. The booking
goes on as it is: what was not cancelled is worked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.disputes.alerting import DISPUTE_REVIEW
from timebell.apps.marketplace.disputes.guards import IS_UNRESOLVED
from timebell.apps.marketplace.disputes.models import Dispute, TimedOut
from timebell.apps.marketplace.disputes.rules import penalty_of, times_out
from timebell.apps.marketplace.disputes.service import DISPUTES, TIME_OUT_QUEUE
from timebell.apps.marketplace.disputes.store import DisputeStore
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.apps.marketplace.texts import DISPUTE_UNRESOLVED, tells
from timebell.kernel import Alerts, Timebell, Transaction
from timebell.notify import Notify

TELL_UNRESOLVED: Final = "marketplace.tell_unresolved"
REASON: Final = "Dispute_Timeout"
# What begins right now has begun, so what is to come begins later by the least that a clock can tell.
_LATER: Final = timedelta(microseconds=1)


class Timing:
    """Times disputes out, and tells of it."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._alerts = Alerts(bell)
        self._bookings = Bookings(bell)
        self._ending = Ending(bell)
        self._ledger = Ledger(bell)
        self._notify = bell.shared.one(Notify)
        self._payouts = Payouts(bell)
        self._settings = StaffingStore(bell.clock)
        self._shifts = ShiftStore(bell.clock)
        self._store = DisputeStore(bell.clock)

    async def time_out(self, tx: Transaction, id: UUID, *, by: By) -> TimedOut | None:
        """None where somebody has the booking, who is not waited for. Nothing is written where no shift could be
        cancelled of those that are to come, so that it is tried again as a whole.

        Whoever comes again goes on with what is left; people are told once.
        """
        dispute = await self._store.read_dispute(tx, id=id)
        if dispute is None:
            return TimedOut()
        booking = await self._bookings.hold_free(tx, dispute.booking_id)
        if booking is None:
            return None
        dispute = await self._store.read_dispute(tx, id=id)
        assert dispute is not None, "a dispute is never deleted"
        if not times_out(dispute, booking):
            return TimedOut()
        now = await self._shifts.read_clock(tx)
        if now < dispute.timeout_expiration_time:
            return TimedOut(not_before=dispute.timeout_expiration_time)
        ended = await self._ending.cancel_each(tx, booking, cancel_from=now + _LATER, reason=REASON, by=by)
        cancelled = [shift.id for shift in ended.cancelled]
        if ended.failed and not cancelled:
            return TimedOut(failed=ended.failed)
        kept = await self._share_out(tx, booking, dispute, ended.cancelled, now, by)
        if dispute.timed_out_at is None or cancelled:
            said = {
                "booking_id": str(booking.id),
                "dispute_id": str(dispute.id),
                "time_log_ids": [str(id) for id in cancelled],
                "frozen": kept,
                "reason": REASON,
            }
            await self._record(tx, "dispute.timed_out", dispute, by, **said)
        if dispute.timed_out_at is None:
            await self._note(tx, dispute, by)
        return TimedOut(cancelled=cancelled, failed=ended.failed)

    async def tell(self, tx: Transaction, id: UUID, *, by: By) -> None:
        """The admins of both sides and the worker learn of it; each dispute tells for itself."""
        dispute = await self._store.read_dispute(tx, id=id)
        assert dispute is not None, "a dispute is never deleted"
        people = await self._bookings.people_of(tx, await self._bookings.get(tx, dispute.booking_id))
        told = tells(
            DISPUTE_UNRESOLVED,
            [*people.borrower_admins, *people.lender_admins, people.worker],
            subject=dispute.subject,
            key=f"dispute_unresolved:{id}",
            guard=IS_UNRESOLVED,
            correlation_id=by.correlation_id,
        )
        await self._notify.tell_many(tx, told)

    async def give_up(self, tx: Transaction, id: UUID, failed: Sequence[UUID], *, by: By) -> None:
        """Shifts that could not be cancelled however often it was tried: somebody has to look."""
        dispute = await self._store.read_dispute(tx, id=id)
        assert dispute is not None, "a dispute is never deleted"
        ids = [str(id) for id in failed]
        await self._record(
            tx,
            "dispute.needs_review",
            dispute,
            by,
            booking_id=str(dispute.booking_id),
            dispute_id=str(id),
            time_log_ids=ids,
            reason="shifts could not be cancelled",
        )
        self._count(tx, "needs_review")
        detail = f"{len(ids)} shifts of the booking {dispute.booking_id} could not be cancelled"
        await self._alerts.open(tx, DISPUTE_REVIEW, subject=dispute.subject, detail=detail)

    async def _share_out(
        self,
        tx: Transaction,
        booking: Booking,
        dispute: Dispute,
        shifts: Sequence[Shift],
        now: datetime,
        by: By,
    ) -> int:
        """What is kept of cancelled shifts is frozen, and the rest goes back. Answers with how much is kept of what is
        here; of what is still on its way it is kept when it comes."""
        if not shifts:
            return 0
        policy = (await self._settings.read_settings(tx)).penalty_policy
        penalties = {
            shift.id: penalty_of(policy, booking, shift.scheduled_start, shift.amount, now)
            for shift in shifts
        }
        due = {id: amount for id, amount in penalties.items() if amount > 0}
        await self._store.insert_penalties(tx, dispute_id=dispute.id, amounts=due)
        await self._payouts.keep_back(tx, booking, shifts, REASON, by)
        kept = await self._ledger.penalize(tx, booking, due, dispute.id)
        await self._payouts.refund_free(tx, booking, shifts, REASON, by)
        return kept

    async def _note(self, tx: Transaction, dispute: Dispute, by: By) -> None:
        """Telling is a job of its own, so that whatever fails there undoes nothing here."""
        await self._store.note_timeout(tx, id=dispute.id)
        await self._bell.enqueue(
            tx,
            TELL_UNRESOLVED,
            {"dispute_id": str(dispute.id)},
            queue=TIME_OUT_QUEUE,
            subject=dispute.subject,
            correlation_id=by.correlation_id,
        )
        self._count(tx, "timed_out")

    async def _record(self, tx: Transaction, name: str, dispute: Dispute, by: By, **data: object) -> None:
        await self._bell.record(
            tx, name, data, subject=dispute.subject, actor=by.name, correlation_id=by.correlation_id
        )

    def _count(self, tx: Transaction, what: str) -> None:
        tx.after_commit.append(lambda: self._bell.tallies.add(DISPUTES, what, "A"))
