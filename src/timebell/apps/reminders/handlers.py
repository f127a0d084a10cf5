"""The handlers of the app: the jobs that the engine runs for it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.reminders.service import Reminders
from timebell.apps.reminders.tasks import Tasks
from timebell.errors import NotFound
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.notify import Notify

SILENCE: Final = "reminders.silence"


async def keep_tasks(job: Job) -> Outcome:
    """Make the tasks of what was planned since; one job for each schedule, which goes on as long as that.

    It has a transaction of its own. Were it the job's, whoever edits the schedule, and with it this job, and this job,
    which waits for the schedule, would wait for each other.
    """
    async with job.bell.transaction(tenant=job.tenant) as tx:
        try:
            schedule = await job.bell.schedules.hold(tx, UUID(job.payload["schedule_id"]))
        except NotFound:
            return Done()
        look_at = await Tasks(job.bell).keep(tx, schedule)
    if look_at is None:
        return Done()
    return Snooze(until=look_at, reason="until more is planned")


async def silence(_: Job) -> None:
    """What an occurrence owes that nobody wants to be reminded of, as the release before muted its schedule."""


async def erase(bell: Timebell, tx: Transaction, person: UUID) -> None:
    await Reminders(bell, bell.shared.one(Notify)).erase(tx, person)
