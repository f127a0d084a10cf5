"""The handlers of the app: the jobs that the engine runs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.meetings.imports import Imports
from timebell.apps.meetings.models import id_of
from timebell.apps.meetings.service import Meetings
from timebell.apps.meetings.store import MeetingStore
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.notify import Notify

_SOON: Final = timedelta(seconds=1)


async def complete(job: Job) -> Outcome:
    """The slot is over. Somebody who changes the meeting right now waits for this very job, so nobody is waited for."""
    assert job.subject is not None, "every slot is a meeting's"
    is_settled = await _meetings(job.bell).complete_at_end(
        job.tx, id_of(job.subject), correlation_id=job.correlation_id
    )
    return Done() if is_settled else Snooze(delay=_SOON, reason="the meeting is being changed")


async def replan(job: Job) -> Outcome:
    """The tenant decided anew when to remind: state what is owed about each meeting that is on, some at a time."""
    after = None if job.cursor is None else UUID(job.cursor["after"])
    last = await _meetings(job.bell).replan(job.tx, after=after)
    if last is None:
        return Done()
    return Snooze(delay=timedelta(0), reason="more to come", cursor={"after": str(last)})


async def read_calendar(job: Job) -> Outcome:
    """Read an imported calendar again; one job for each, which goes on as long as that is there."""
    imports = Imports(job.bell, job.bell.shared.one(Notify))
    read_at = await imports.keep(job.tenant, UUID(job.payload["import_id"]))
    return Done() if read_at is None else Snooze(until=read_at, reason="until it is read again")


async def erase(bell: Timebell, tx: Transaction, person: UUID) -> None:
    await _meetings(bell).erase(tx, person)
    await Imports(bell, bell.shared.one(Notify)).erase(tx, person)


async def export(
    bell: Timebell, tx: Transaction, person: UUID, after: UUID | None, limit: int
) -> Sequence[Mapping[str, Any]]:
    return await MeetingStore(bell.clock).export_person(tx, person=person, after=after, limit=limit)


def _meetings(bell: Timebell) -> Meetings:
    return Meetings(bell, bell.shared.one(Notify))
