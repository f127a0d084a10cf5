"""`Owing`: what is owed about a shift is stated here, and nowhere else; and what was told about it is taken back.

Neither keeps anybody from clocking in or out. What could not be stated is logged, and the hourly sweep states it again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.rules import APPROVE, REMINDERS, RUNGS, Due, Owed, owed
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import Booking
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, AgendaDiff, Step, Timebell, Transaction
from timebell.logs import Logger
from timebell.notify import Notify

log = Logger("timebell.marketplace")

REMIND: Final = "marketplace.remind_clock_out"
CLIMB: Final = "marketplace.climb_ladder"
AUTO_APPROVE: Final = "marketplace.auto_approve"
REMIND_QUEUE: Final = "clock-out-reminders"
CLIMB_QUEUE: Final = "timesheet-notifications"
APPROVE_QUEUE: Final = "timesheet-auto-approval"

# What was lost is stated again within the hour, and told then; later it would be of no use.
_LATE: Final = timedelta(hours=1)
_FAILURES: Final = (TimebellError, *DATABASE_ERRORS)
_FIRST, _SECOND = (key for key, _ in REMINDERS)
_REMINDERS: Final = frozenset({_FIRST, _SECOND})
_AT_ONCE: Final = frozenset({RUNGS[0][0], APPROVE})


class Owing:
    """Writes the agenda of shifts. Whoever states it holds the booking."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._notify = bell.shared.one(Notify)
        self._store = ShiftStore(bell.clock)

    async def owe(
        self, tx: Transaction, booking: Booking, shift: Shift, *, reason: str, by: By
    ) -> tuple[Shift, AgendaDiff | None]:
        """State as a whole what is owed about a shift as it stands. No difference comes back where that failed."""
        try:
            async with tx.all_or_nothing():
                return await self._owe(tx, booking, shift, reason=reason, by=by)
        except _FAILURES as error:
            log.error(
                "what is owed about a time log could not be stated; the sweep does it",
                exc_info=error,
                time_log_id=str(shift.id),
                status=shift.status,
            )
            return shift, None

    async def take_back(self, tx: Transaction, shift: Shift, *, reason: str, by: By) -> None:
        """What was to be told about a shift and has not begun is told to nobody."""
        try:
            async with tx.all_or_nothing():
                await self._notify.withdraw(tx, subject=shift.subject, reason=reason, actor=by.name)
        except _FAILURES as error:
            log.warning(
                "what was told about a time log could not be taken back; it is asked about before it is sent",
                exc_info=error,
                time_log_id=str(shift.id),
            )

    async def _owe(
        self, tx: Transaction, booking: Booking, shift: Shift, *, reason: str, by: By
    ) -> tuple[Shift, AgendaDiff]:
        due = owed(booking, shift)
        diff = await self._bell.set_agenda(
            tx,
            subject=shift.subject,
            steps=[_step(one, due.payload or {}) for one in due.steps],
            reason=reason,
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        ids = _reminder_ids(shift, due, diff)
        noted = replace(shift, **ids)
        if noted != shift:
            await self._store.note_reminders(tx, id=shift.id, **ids)
        return noted, diff


def _step(due: Due, payload: Any) -> Step:
    kind, queue = (
        (REMIND, REMIND_QUEUE)
        if due.key in _REMINDERS
        else (AUTO_APPROVE, APPROVE_QUEUE)
        if due.key == APPROVE
        else (CLIMB, CLIMB_QUEUE)
    )
    at_once = due.key in _AT_ONCE
    return Step(
        key=due.key,
        kind=kind,
        at=due.at,
        payload=payload,
        queue=queue,
        late="run" if at_once else "grace",
        grace=timedelta(0) if at_once else _LATE,
        urgency="critical" if due.key == RUNGS[0][0] else "time_bound",
    )


def _reminder_ids(shift: Shift, due: Owed, diff: AgendaDiff) -> dict[str, Any]:
    """The jobs that remind: those that there are, and that there were for the same end."""
    there = {change.key: change.job_id for change in (*diff.kept, *diff.moved, *diff.added)}
    stated = {one.key for one in due.steps}
    before = {_FIRST: shift.reminder_5m_job_id, _SECOND: shift.reminder_30m_job_id}
    ids = {key: there.get(key, before[key]) if key in stated else None for key in before}
    return {"reminder_5m_job_id": ids[_FIRST], "reminder_30m_job_id": ids[_SECOND]}
