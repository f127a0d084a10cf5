"""The handlers of disputes: the jobs that the engine runs about them. Whoever changes a booking right now may be
waiting for one of these very jobs, so none of them waits for a booking."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.disputes.service import TIME_OUT
from timebell.apps.marketplace.disputes.store import DisputeStore
from timebell.apps.marketplace.disputes.timing import Timing
from timebell.apps.marketplace.models import By, dispute_subject
from timebell.apps.marketplace.payments.payouts import MONEY
from timebell.apps.marketplace.shifts.handlers import sweep_shifts
from timebell.apps.marketplace.shifts.sweeping import REPAIRED, SWEPT_MAX
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Dead, Done, Job, Outcome, Retry, Snooze
from timebell.logs import Logger

log = Logger("timebell.marketplace")

_SOON: Final = timedelta(seconds=1)
_BUSY: Final = Snooze(delay=_SOON, reason="the booking is being changed")
_DISPUTES_AFTER: Final = "disputes_after"


async def time_out_dispute(job: Job) -> Outcome:
    """A dispute that nobody has resolved in time."""
    id = UUID(job.payload["dispute_id"])
    timing = Timing(job.bell)
    timed_out = await timing.time_out(job.tx, id, by=_by(job))
    if timed_out is None:
        return _BUSY
    if timed_out.not_before is not None:
        return Snooze(until=timed_out.not_before, reason="there is time to resolve it")
    if not timed_out.failed:
        return Done()
    error = f"{len(timed_out.failed)} shifts could not be cancelled"
    # Of those that could be cancelled nothing is undone: a retry would roll them back.
    if timed_out.cancelled:
        return Snooze(delay=_SOON, reason=error)
    if job.attempt < MONEY.max_attempts:
        return Retry(error=error)
    await timing.give_up(job.tx, id, timed_out.failed, by=_by(job))
    return Dead(reason=error)


async def tell_unresolved(job: Job) -> Outcome:
    await Timing(job.bell).tell(job.tx, UUID(job.payload["dispute_id"]), by=_by(job))
    return Done()


async def sweep(job: Job) -> Outcome:
    """Once an hour, the disputes that should have timed out and have not, and then the shifts."""
    cursor = job.cursor or {}
    if cursor.get("after") is None:
        last = await _sweep_disputes(job, cursor.get(_DISPUTES_AFTER))
        if last is not None:
            return Snooze(
                delay=timedelta(0), reason="more to come", cursor={"after": None, _DISPUTES_AFTER: last}
            )
    return await sweep_shifts(job)


async def _sweep_disputes(job: Job, after: str | None) -> str | None:
    """Some of them; the last, where more may come."""
    store = DisputeStore(job.bell.clock)
    found = await store.list_untimed(
        job.tx, kind=TIME_OUT, after=None if after is None else UUID(after), limit=SWEPT_MAX
    )
    timed_out = 0
    for id in found:
        try:
            async with job.tx.all_or_nothing():
                timed_out += await _time_out(job, id)
        except (TimebellError, *DATABASE_ERRORS) as error:
            # The others are not held up by it.
            log.error("a dispute could not be timed out", exc_info=error, dispute_id=str(id))
    if timed_out:
        job.tx.after_commit.append(lambda: job.bell.tallies.add(REPAIRED, by=timed_out))
    return str(found[-1]) if len(found) == SWEPT_MAX else None


async def _time_out(job: Job, id: UUID) -> int:
    """Its timer was lost. What cannot be cancelled now is gone on with by another."""
    timed_out = await Timing(job.bell).time_out(job.tx, id, by=_by(job))
    if timed_out is None:
        return 0
    if timed_out.failed:
        await job.bell.enqueue(
            job.tx,
            TIME_OUT,
            {"dispute_id": str(id)},
            subject=dispute_subject(id),
            correlation_id=job.correlation_id,
        )
    return 1


def _by(job: Job) -> By:
    return By(correlation_id=job.correlation_id)
