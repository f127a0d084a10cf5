"""What the engine runs for this app."""

from __future__ import annotations

from uuid import UUID

from timebell.apps.reminders.service import Reminders
from timebell.apps.reminders.tasks import Tasks
from timebell.errors import NotFound
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.notify import Notify


async def keep_tasks(job: Job) -> Outcome:
    """Make the tasks of what was planned since; one job for each schedule, which goes on as long as that."""
    tasks = Tasks(job.bell)
    schedule_id = UUID(job.payload["schedule_id"])
    await tasks.hold(job.tx, schedule_id)
    try:
        schedule = await job.bell.schedules.get(job.tx, schedule_id)
    except NotFound:
        return Done()
    look_at = await tasks.keep(job.tx, schedule)
    if look_at is None:
        return Done()
    return Snooze(until=look_at, reason="until more is planned")


async def silence(_: Job) -> None:
    """What an occurrence owes that nobody wants to be reminded of."""


async def erase(bell: Timebell, tx: Transaction, person: UUID) -> None:
    await Reminders(bell, Notify(bell)).erase(tx, person)
