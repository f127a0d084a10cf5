"""The handlers of shifts: the jobs that the engine runs about them. Whoever changes a booking right now may be waiting
for one of these very jobs, so none of them waits for a booking."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.shifts.guards import IS_PENDING, IS_WORKING
from timebell.apps.marketplace.shifts.links import TimesheetLinks
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.rules import (
    AT_WORK,
    REMINDERS,
    RUNGS,
    is_overdue,
    next_sweep,
    owed,
)
from timebell.apps.marketplace.shifts.service import Held, Shifts
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.shifts.sweeping import REPAIRED, SWEPT_MAX, find_lost
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.texts import (
    CLOCK_OUT_NOW,
    SMS,
    STILL_WORKING,
    TIMESHEET_PENDING,
    TIMESHEET_SUBMITTED,
    TIMESHEET_URGENT,
    tells,
)
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Done, Job, Outcome, Retry, Snooze
from timebell.logs import Logger
from timebell.notify import Notify, Tell

log = Logger("timebell.marketplace")

_SOON: Final = timedelta(seconds=1)
_BUSY: Final = Snooze(delay=_SOON, reason="the booking is being changed")
_FIRST_RUNG, _SECOND_RUNG, _ = (key for key, _ in RUNGS)
_FIRST_REMINDER: Final = REMINDERS[0][0]


async def remind_clock_out(job: Job) -> Outcome:
    """The shift should have ended: worker and supervisor are told, unless somebody has clocked out."""
    held = await _hold(job)
    if held is None:
        return _BUSY
    if held.shift.status not in AT_WORK or not _is_owed(job, held):
        return Done()
    template = STILL_WORKING if job.step == _FIRST_REMINDER else CLOCK_OUT_NOW
    people = [held.booking.worker_recipient_id, held.booking.supervisor_id]
    await _tell(job, held, template, people, guard=IS_WORKING)
    return Done()


async def climb_ladder(job: Job) -> Outcome:
    """The timesheet waits to be verified: the supervisor is told, and later the borrower's admins too. Where it does
    not wait any more, the rungs above are not climbed either."""
    held = await _hold(job)
    if held is None:
        return _BUSY
    if held.shift.status != "Pending_Verification":
        await Shifts(job.bell).owe_again(job.tx, held, by=_by(job))
        return Done()
    booking, shift = held.booking, held.shift
    people = await Bookings(job.bell).people_of(job.tx, booking)
    names = await job.bell.shared.one(Notify).recipients.names(job.tx, [people.worker])
    worker = names.get(people.worker, "?")
    if job.step == _FIRST_RUNG:
        link = TimesheetLinks(job.bell).url(shift, people.supervisor)
        await _tell(
            job,
            held,
            TIMESHEET_SUBMITTED,
            [people.supervisor],
            guard=IS_PENDING,
            urgency="critical",
            worker=worker,
            link=link,
        )
        return Done()
    template = TIMESHEET_PENDING if job.step == _SECOND_RUNG else TIMESHEET_URGENT
    told = [people.supervisor, *people.borrower_admins]
    await _tell(job, held, template, told, guard=IS_PENDING, worker=worker)
    return Done()


async def auto_approve(job: Job) -> Outcome:
    """Nobody verified the timesheet in time. A dispute beats it, and whatever else happened to it ends it silently."""
    held = await _hold(job)
    if held is None:
        return _BUSY
    deadline = held.shift.auto_approval_time
    if held.shift.status == "Pending_Verification" and deadline is not None and deadline > held.now:
        return Snooze(until=deadline, reason="the time to verify was extended")
    await Shifts(job.bell).approve(job.tx, held, by=_by(job))
    return Done()


async def sweep_shifts(job: Job) -> Outcome:
    """Once an hour, what was lost is owed again, and what should have been approved is; some shifts at a time."""
    store = ShiftStore(job.bell.clock)
    after = None if not job.cursor or job.cursor["after"] is None else UUID(job.cursor["after"])
    now = await store.read_clock(job.tx)
    found = await store.list_open_shifts(job.tx, after=after, limit=SWEPT_MAX)
    lost = {shift.id for shift in await find_lost(job.bell, job.tx, found, now)}
    repaired = 0
    for shift in found:
        if shift.id not in lost and not is_overdue(shift, now):
            continue
        try:
            async with job.tx.all_or_nothing():
                repaired += await _repair(job, shift)
        except (TimebellError, *DATABASE_ERRORS) as error:
            # The others are not held up by it.
            log.error("a time log could not be mended", exc_info=error, time_log_id=str(shift.id))
    if repaired:
        job.tx.after_commit.append(lambda: job.bell.tallies.add(REPAIRED, by=repaired))
    if len(found) == SWEPT_MAX:
        return Snooze(delay=timedelta(0), reason="more to come", cursor={"after": str(found[-1].id)})
    return Snooze(until=next_sweep(now), reason="until the next hour", cursor={"after": None})


async def _repair(job: Job, shift: Shift) -> int:
    """Approve what is overdue, or state again what is owed. Whoever has the booking states that anyway."""
    shifts = Shifts(job.bell)
    held = await shifts.hold_free(job.tx, shift.booking_id, shift.id)
    if held is None or await shifts.approve(job.tx, held, by=_by(job)):
        return 0
    return await shifts.owe_again(job.tx, held, by=_by(job))


async def cancel_shifts(job: Job) -> Outcome:
    """The shifts of a booking that has ended, of which some could not be cancelled with it."""
    booking = await Bookings(job.bell).hold_free(job.tx, UUID(job.payload["booking_id"]))
    if booking is None:
        return _BUSY
    ended = await Ending(job.bell).cancel_shifts(
        job.tx,
        booking,
        cancel_from=datetime.fromisoformat(job.payload["cancel_from"]),
        reason=job.payload["reason"],
        by=_by(job),
    )
    # Of those that could be cancelled nothing is undone: a retry would roll them back.
    if ended.failed and ended.cancelled:
        return Snooze(delay=_SOON, reason=f"{len(ended.failed)} could not be cancelled")
    return Retry(error=f"{len(ended.failed)} shifts could not be cancelled") if ended.failed else Done()


async def _hold(job: Job) -> Held | None:
    payload = job.payload
    return await Shifts(job.bell).hold_free(job.tx, UUID(payload["booking_id"]), UUID(payload["time_log_id"]))


def _is_owed(job: Job, held: Held) -> bool:
    """Whether the end is still the one that it speaks of."""
    return any(one.key == job.step and one.at == job.due_at for one in owed(held.booking, held.shift).steps)


async def _tell(
    job: Job,
    held: Held,
    template: str,
    people: Iterable[UUID],
    *,
    guard: str,
    urgency: Literal["time_bound", "critical"] = "time_bound",
    **context: str,
) -> None:
    told: list[Tell] = tells(
        template,
        people,
        subject=held.shift.subject,
        context=context,
        channels=SMS,
        urgency=urgency,
        guard=guard,
        correlation_id=job.correlation_id,
    )
    await job.bell.shared.one(Notify).tell_many(job.tx, told)


def _by(job: Job) -> By:
    return By(correlation_id=job.correlation_id)
