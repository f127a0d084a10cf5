"""The handlers of the app: the jobs that the engine runs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.sequences.bookings import BATCH, Bookings
from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.models import By, Transition
from timebell.apps.sequences.service import Sequences
from timebell.apps.sequences.store import SequenceStore
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.notify import Notify

_ITSELF: Final = "sequences"
_SOON: Final = timedelta(seconds=1)


async def check_in(job: Job) -> Outcome:
    """The start of a booking that checks in by itself."""
    return await _move(job, "check-in")


async def complete(job: Job) -> Outcome:
    """The end of a booking that completes by itself."""
    return await _move(job, "complete")


async def _move(job: Job, transition: Transition) -> Outcome:
    assert job.subject is not None, "every transition is a booking's"
    bookings = Bookings(job.bell, job.bell.shared.one(Notify))
    is_settled = await bookings.move_by_itself(job.tx, job.subject, transition, by=_by(job))
    return Done() if is_settled else Snooze(delay=_SOON, reason="the booking is being changed")


async def apply(job: Job) -> Outcome:
    """A version for all who are enrolled, or the end of a sequence: some at a time, each time in one transaction."""
    after = job.payload["after"] if job.cursor is None else job.cursor["after"]
    application_id = UUID(job.payload["application_id"])
    sequences = Sequences(job.bell, job.bell.shared.one(Notify))
    last = await sequences.go_on(job.tx, application_id, after=after, by=_by(job))
    return _until(last)


async def replan(job: Job) -> Outcome:
    """What is owed about many subjects is stated anew, some at a time."""
    after = "" if job.cursor is None else job.cursor["after"]
    person = job.payload.get("person")
    bookings = Bookings(job.bell, job.bell.shared.one(Notify))
    last = await bookings.replan(
        job.tx, after=after, person=None if person is None else UUID(person), by=_by(job)
    )
    return _until(last)


def _until(last: str | None) -> Outcome:
    if last is None:
        return Done()
    return Snooze(delay=timedelta(0), reason="more to come", cursor={"after": last})


async def erase(bell: Timebell, tx: Transaction, person: UUID) -> None:
    """Forget a person who is erased: nothing concerns them any more, and the next contact in line is the primary."""
    store, enrolling = SequenceStore(bell.clock), Enrolling(bell, bell.shared.one(Notify))
    after = ""
    while names := await store.list_subjects_of_person(tx, person=person, after=after, limit=BATCH):
        await store.lock_subjects(tx, subjects=names)
        await store.remove_person(tx, person=person, subjects=names)
        held = await enrolling.read(tx, names)
        await enrolling.replan(tx, list(held.values()), "erased", by=By(name=_ITSELF))
        after = names[-1]


async def export(
    bell: Timebell, tx: Transaction, person: UUID, after: UUID | None, limit: int
) -> Sequence[Mapping[str, Any]]:
    return await SequenceStore(bell.clock).export_person(tx, person=person, after=after, limit=limit)


def _by(job: Job) -> By:
    return By(name=_ITSELF, correlation_id=job.correlation_id)
