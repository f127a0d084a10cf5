"""`Shifts`: the verbs about time logs, from clocking in to the approval of the timesheet.

Whoever changes a shift holds its booking first, so that of several who do so at once one is first, and the others see
what became of it. What a state implies, what is owed, what is told and what is paid, is written with the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.insurance.stop_store import StopStore
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.refusals import wrong_field
from timebell.apps.marketplace.shifts.guards import IS_AUTO_APPROVED
from timebell.apps.marketplace.shifts.models import Shift, ShiftStatus
from timebell.apps.marketplace.shifts.owing import Owing
from timebell.apps.marketplace.shifts.refusals import (
    clock_in_refused,
    no_time_log,
    not_possible,
)
from timebell.apps.marketplace.shifts.rules import (
    APPROVED_AFTER,
    AT_WORK,
    AUTO,
    DRAFT_AHEAD,
    OPEN,
    effective_end,
    extended,
    is_overdue,
    may_become,
    refused_end,
    worked_minutes,
)
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.shifts.sweeping import keep_sweeping
from timebell.apps.marketplace.staffing.access import Access, Part
from timebell.apps.marketplace.staffing.models import Booking, BookingStatus
from timebell.apps.marketplace.staffing.rules import ClockInRefusal, clock_in_refusal
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.apps.marketplace.texts import AUTO_APPROVED, SMS, tells
from timebell.kernel import Timebell, Transaction
from timebell.logs import Logger
from timebell.notify import Notify
from timebell.rules.localtime import zone

log = Logger("timebell.marketplace")

TIMESHEETS: Final = "marketplace_timesheets"
# Who may do what, besides the operator.
WORKER: Final[tuple[Part, ...]] = ("worker",)
VERIFIERS: Final[tuple[Part, ...]] = ("supervisor", "borrower_admin", "borrower_manager")
_REFUSALS: Final[Mapping[ClockInRefusal, str]] = {
    "shift_cancelled": "the shift was cancelled; clock in to another",
    "booking_cancelled": "the booking was cancelled; nobody works for it any more",
    "booking_suspended": "the booking is stopped, since an insurance is not valid; have it renewed first",
    "booking_over": "the last day of the booking is over",
    "clock_in_hold": "the booking is on hold until its disputes are resolved; have them resolved first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A shift and its booking, which nobody else changes until the transaction ends, and what time it is in there."""

    booking: Booking
    shift: Shift
    now: datetime


class Shifts:
    """What is worked, and what becomes of the timesheet."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._notify = bell.shared.one(Notify)
        self._access = Access(bell)
        self._bookings = Bookings(bell)
        self._owing = Owing(bell)
        self._payouts = Payouts(bell)
        self._settings = StaffingStore(bell.clock)
        self._stops = StopStore(bell.clock)
        self._store = ShiftStore(bell.clock)

    async def get(self, tx: Transaction, id: UUID, *, by: By) -> Shift:
        """For whoever has a part in its booking."""
        shift = await self._store.read_shift(tx, id=id)
        if shift is None:
            raise no_time_log(id)
        await self._access.check(tx, await self._bookings.get(tx, shift.booking_id), by)
        return shift

    async def hold(self, tx: Transaction, id: UUID, *needed: Part, by: By) -> Held:
        """404 where there is none for whoever asks, and 403 where that is none of those who may."""
        seen = await self._store.read_shift(tx, id=id)
        if seen is None:
            raise no_time_log(id)
        booking = await self._bookings.hold(tx, seen.booking_id)
        await self._access.check(tx, booking, by, *needed)
        return await self.within(tx, booking, id)

    async def hold_free(self, tx: Transaction, booking_id: UUID, id: UUID) -> Held | None:
        """As `hold`, for a job: None where somebody has it, who may be waiting for that very job."""
        booking = await self._bookings.hold_free(tx, booking_id)
        return None if booking is None else await self.within(tx, booking, id)

    async def within(self, tx: Transaction, booking: Booking, id: UUID) -> Held:
        """A shift of a booking that is held already."""
        shift = await self._store.read_shift(tx, id=id)
        assert shift is not None, "a time log is never deleted"
        return Held(booking=booking, shift=shift, now=await self._store.read_clock(tx))

    async def clock_in(self, tx: Transaction, held: Held, *, by: By) -> Shift:
        booking, shift, now = held.booking, held.shift, held.now
        refused = clock_in_refusal(
            booking_status=await self._status_of(tx, booking),
            has_hold=booking.clock_in_hold,
            end_date=booking.end_date,
            shift_status=shift.status,
            today=now.astimezone(zone(booking.timezone)).date(),
        )
        if refused is not None:
            raise clock_in_refused(refused, _REFUSALS[refused])
        _check(shift, "Working", "clock in to")
        if effective_end(booking, shift) is None:
            log.warning("nobody is reminded to clock out: no end is known", time_log_id=str(shift.id))
        working = replace(shift, status="Working", clock_in_time=now, work_start=now, end_stated_at=now)
        await keep_sweeping(self._bell, tx)
        return await self._move(tx, held, working, "time_log.clocked_in", by=by)

    async def _status_of(self, tx: Transaction, booking: Booking) -> BookingStatus:
        """What the booking is to whoever clocks in: of one that was released its status does not say that work is
        stopped."""
        is_stopped = booking.status == "Completed" and await self._stops.is_stopped(tx, booking_id=booking.id)
        return "Suspended_Insurance" if is_stopped else booking.status

    async def draft(self, tx: Transaction, held: Held, end: datetime | None, *, by: By) -> Shift:
        """The timesheet is begun. Whoever does not submit it is reminded all the same."""
        shift = held.shift
        if shift.status not in AT_WORK:
            raise not_possible("draft", shift.status)
        _check_end(shift.work_start, end, held.now + DRAFT_AHEAD)
        drafted = replace(shift, status="Draft", draft_end=end or shift.draft_end)
        return await self._save(tx, held, drafted, "time_log.drafted", by=by)

    async def submit(self, tx: Transaction, held: Held, end: datetime | None, *, by: By) -> Shift:
        return await self._clock_out(tx, held, end, "time_log.submitted", "submit", by=by)

    async def force_clock_out(self, tx: Transaction, held: Held, end: datetime | None, *, by: By) -> Shift:
        return await self._clock_out(tx, held, end, "time_log.forced", "force out of", by=by)

    async def verify(self, tx: Transaction, held: Held, *, by: By) -> Shift:
        """What was worked is right, and is paid for."""
        shift = held.shift
        if shift.status != "Pending_Verification":
            raise not_possible("verify", shift.status)
        return await self._approve(tx, held, by.name, "time_log.verified", by=by)

    async def approve(self, tx: Transaction, held: Held, *, by: By) -> bool:
        """Nobody verified it in time. False where that is not so, or where a dispute is open."""
        if not is_overdue(held.shift, held.now):
            return False
        if await self._store.has_open_dispute(tx, time_log_id=held.shift.id):
            return False
        shift = await self._approve(tx, held, AUTO, "time_log.auto_approved", by=by)
        told = tells(
            AUTO_APPROVED,
            [held.booking.worker_recipient_id],
            subject=shift.subject,
            channels=SMS,
            guard=IS_AUTO_APPROVED,
            correlation_id=by.correlation_id,
        )
        await self._notify.tell_many(tx, told)
        return True

    async def edit(
        self,
        tx: Transaction,
        held: Held,
        *,
        start: datetime | None,
        end: datetime | None,
        reason: str,
        by: By,
    ) -> Shift:
        """Correct the times. While somebody works, the end is the one that they are reminded of; afterwards it is when
        work ended. The time to verify goes on, and the supervisor who edits shortly before it is over extends it."""
        booking, shift, now = held.booking, held.shift, held.now
        if shift.status not in OPEN:
            raise not_possible("edit", shift.status)
        is_over = shift.status == "Pending_Verification"
        begun = shift.work_start if start is None else start
        ended = shift.work_end if end is None else end
        if start is not None and start > now:
            raise wrong_field("start", "is still to come; give when work began")
        if is_over:
            _check_end(begun, ended, now, field="start" if end is None else "end")
            edited = replace(
                shift, work_start=begun, work_end=ended, worked_minutes=worked_minutes(begun, ended)
            )
        else:
            if end is not None and end <= shift.scheduled_start:
                raise wrong_field(
                    "end", f"must be after the shift begins, at {shift.scheduled_start.isoformat()}"
                )
            if shift.draft_end is not None and begun is not None and shift.draft_end < begun:
                raise wrong_field("start", "is after the end that the draft says; give an earlier one")
            edited = replace(shift, work_start=begun, scheduled_end=end or shift.scheduled_end)
            if end is not None:
                edited = replace(edited, end_stated_at=now)
                await self._owing.take_back(tx, shift, reason="edited", by=by)
        moved = await self._move(tx, held, edited, "time_log.edited", by=by, reason=reason)
        if by.person != booking.supervisor_id:
            return moved
        limit = (await self._settings.read_settings(tx)).max_extensions
        deadline = extended(moved, now, limit)
        if deadline is None:
            return moved
        longer = replace(moved, auto_approval_time=deadline, extensions=moved.extensions + 1)
        return await self._move(
            tx, replace(held, shift=moved), longer, "time_log.extended", by=by, reason=reason
        )

    async def owe_again(self, tx: Transaction, held: Held, *, by: By) -> int:
        """State what is owed as it stands, since something of it was lost, or is not owed any more. Answers with how
        much was lost."""
        _, diff = await self._owing.owe(tx, held.booking, held.shift, reason="stated again", by=by)
        return 0 if diff is None else len(diff.added)

    async def move_disputed(self, tx: Transaction, held: Held, *, by: By, reason: str) -> Shift:
        """Disputed: nothing is owed about it, and nobody is told that it is approved."""
        await self._owing.take_back(tx, held.shift, reason="disputed", by=by)
        was_approved = held.shift.status == "Verified"
        disputed = replace(held.shift, status="Disputed", verified_at=None, verified_by=None)
        if was_approved:
            await self._record(tx, "time_log.approval_reverted", held.shift, held.shift, by, reason)
        return await self._move(tx, held, disputed, "time_log.disputed", by=by, reason=reason)

    async def settle(self, tx: Transaction, held: Held, *, by: By, reason: str) -> Shift:
        """What was disputed is resolved: it counts as verified, and who gets its money was agreed otherwise."""
        verified = replace(held.shift, status="Verified", verified_at=held.now, verified_by=by.name)
        tx.after_commit.append(lambda: self._bell.tallies.add(TIMESHEETS, "person"))
        return await self._move(tx, held, verified, "time_log.settled", by=by, reason=reason)

    async def _clock_out(
        self, tx: Transaction, held: Held, end: datetime | None, event: str, action: str, *, by: By
    ) -> Shift:
        """The hours until the approval count from now, whatever the end that is said to have been."""
        shift, now = held.shift, held.now
        _check(shift, "Pending_Verification", action)
        _check_end(shift.work_start, end, now)
        ended = end or (now if shift.draft_end is None else min(shift.draft_end, now))
        await self._owing.take_back(tx, shift, reason="clocked out", by=by)
        submitted = replace(
            shift,
            status="Pending_Verification",
            clock_out_time=now,
            auto_approval_time=now + APPROVED_AFTER,
            work_end=ended,
            worked_minutes=worked_minutes(shift.work_start, ended),
        )
        await keep_sweeping(self._bell, tx)
        return await self._move(tx, held, submitted, event, by=by)

    async def _approve(self, tx: Transaction, held: Held, verified_by: str, event: str, *, by: By) -> Shift:
        """What was verified is paid by a job of its own, after the commit."""
        await self._owing.take_back(tx, held.shift, reason="verified", by=by)
        verified = replace(held.shift, status="Verified", verified_at=held.now, verified_by=verified_by)
        moved = await self._move(tx, held, verified, event, by=by)
        await self._payouts.owe_shift(tx, held.booking, moved, by)
        how = AUTO if verified_by == AUTO else "person"
        tx.after_commit.append(lambda: self._bell.tallies.add(TIMESHEETS, how))
        return moved

    async def _move(
        self, tx: Transaction, held: Held, shift: Shift, event: str, *, by: By, reason: str | None = None
    ) -> Shift:
        """What the shift is from now on, and what is owed about it then."""
        saved = await self._save(tx, held, shift, event, by=by, reason=reason)
        owing, _ = await self._owing.owe(tx, held.booking, saved, reason=event.partition(".")[2], by=by)
        return owing

    async def _save(
        self, tx: Transaction, held: Held, shift: Shift, event: str, *, by: By, reason: str | None = None
    ) -> Shift:
        saved = await self._store.save_shift(tx, shift)
        await self._record(tx, event, held.shift, saved, by, reason)
        return saved

    async def _record(
        self, tx: Transaction, event: str, before: Shift, after: Shift, by: By, reason: str | None
    ) -> None:
        changed = {name for name in _TOLD if getattr(before, name) != getattr(after, name)}
        data = {
            "booking_id": str(after.booking_id),
            "before": {name: _shown(getattr(before, name)) for name in sorted(changed)},
            "after": {name: _shown(getattr(after, name)) for name in sorted(changed)},
            "reason": reason,
        }
        await self._bell.record(
            tx, event, data, subject=after.subject, actor=by.name, correlation_id=by.correlation_id
        )


# What the audit trail says of a change.
_TOLD: Final = (
    "status",
    "scheduled_end",
    "clock_in_time",
    "draft_end",
    "clock_out_time",
    "work_start",
    "work_end",
    "auto_approval_time",
    "extensions",
    "verified_by",
)


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _check(shift: Shift, status: ShiftStatus, action: str) -> None:
    if not may_become(shift.status, status):
        raise not_possible(action, shift.status)


def _check_end(start: datetime | None, end: datetime | None, latest: datetime, *, field: str = "end") -> None:
    message = None if end is None else refused_end(start, end, latest)
    if message is not None:
        raise wrong_field(field, message)
