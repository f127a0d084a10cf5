"""`scheduler.fire`: what is due is published, and is done once the broker has confirmed that a queue has it.

Nothing is written before that. A node that dies in between leaves a job that is tried again, and a second message that
is known by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from weakref import WeakKeyDictionary

from timebell.apps.scheduler.dues import Due, again_after, message_of, occurrence_of
from timebell.apps.scheduler.store import Columns, Row, SchedulerStore
from timebell.brokers import Away, Broker, Confirmed, Published, Returned
from timebell.kernel import (
    DATABASE_ERRORS,
    Cancel,
    Dead,
    Done,
    Job,
    Outcome,
    Retry,
    Snooze,
    Timebell,
    Together,
)
from timebell.logs import Logger

log = Logger("timebell.scheduler")

DUE: Final = "jobs_due"
FAILURES: Final = "publish_failures"
LAG: Final = "fire_lag_seconds"
_TELL_SECONDS: Final = 10.0
# A job is started once for each version of its row, and the first one is the second: it was written with the first.
_FIRST_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One occurrence that was published. `is_repeated`: it may have been before."""

    tenant: str
    id: str
    due_at: datetime
    is_repeated: bool


class Firing:
    """The handler. It holds the broker, and for each bell the statements that runs share."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rooms: WeakKeyDictionary[Timebell, _Room] = WeakKeyDictionary()

    async def __call__(self, job: Job) -> Outcome:
        id = job.payload.get("id")
        if not isinstance(id, str):
            return Dead("its payload has no id; nobody can say what it is for")
        room = self._rooms.get(job.bell)
        if room is None:
            room = self._rooms[job.bell] = _Room(job.bell)
        row = await room.read((job.tenant, id))
        unwanted = _unwanted(job, row)
        if unwanted is not None:
            return Cancel(unwanted)
        due = Due(
            id=id,
            tenant=job.tenant,
            due_at=job.due_at,
            fired_at=row["now"].astimezone(UTC),
            occurrence=occurrence_of(job.payload),
            payload=row["payload"],
            correlation_id=row["correlation_id"],
        )
        (published,) = await self._broker.publish([message_of(due)])
        if not isinstance(published, Confirmed):
            return room.not_published(due, published)
        room.published(due)
        if due.occurrence is not None:
            is_repeated = job.attempt > 1 or job.version > _FIRST_VERSION
            await room.note(Fired(tenant=job.tenant, id=id, due_at=job.due_at, is_repeated=is_repeated))
        return Done()


def _unwanted(job: Job, row: Row) -> str | None:
    """Why it is not to be published, if it is not: its request is gone, was cancelled, or has another job by now."""
    if not row["is_known"]:
        return "nobody asks for it any more"
    if row["cancelled_at"] is not None:
        return "it was cancelled"
    schedule_id = job.payload.get("schedule_id")
    is_its_own = row["job_id"] == job.id if schedule_id is None else str(row["schedule_id"]) == schedule_id
    return None if is_its_own else "another timing took its place"


class _Room:
    """What the runs on one bell share."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SchedulerStore(bell.clock)
        self._told_at = float("-inf")
        self.read = Together(self._read)
        self._count = Together(self._count_fired)

    def published(self, due: Due) -> None:
        self._bell.tallies.add(DUE)
        self._bell.tallies.note(LAG, (due.fired_at - due.due_at).total_seconds())

    def not_published(self, due: Due, published: Published) -> Outcome:
        """It stays owed. What the broker is to blame for passes; what it will not have must wait for its operator."""
        reason = type(published).__name__.lower()
        self._bell.tallies.add(FAILURES, reason)
        told = getattr(published, "reason", "")
        if isinstance(published, Away):
            return Retry(told, "unavailable")
        now = self._bell.clock.monotonic()
        if now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            remedy = "bind a queue for it" if isinstance(published, Returned) else "see what the broker says"
            log.warning(
                "what is due cannot be published",
                tenant=due.tenant,
                id=due.id,
                failure=reason,
                reason=told,
                remedy=remedy,
            )
        return Snooze(delay=again_after(due.fired_at - due.due_at), reason=f"{reason}: {told}"[:500])

    async def note(self, fired: Fired) -> None:
        """It is published and cannot be taken back: that it is not counted must not have it published again."""
        try:
            await self._count(fired)
        except DATABASE_ERRORS as error:
            log.warning("what was published could not be counted", tenant=fired.tenant, error=str(error))

    async def _read(self, asked: Sequence[tuple[str, str]]) -> Sequence[Row]:
        columns = {"tenants": [tenant for tenant, _ in asked], "ids": [id for _, id in asked]}
        async with self._bell.database.connection() as session:
            return await self._store.read_fired(session, columns=columns)

    async def _count_fired(self, fired: Sequence[Fired]) -> Sequence[None]:
        columns: Columns = {
            "tenants": [one.tenant for one in fired],
            "ids": [one.id for one in fired],
            "due_ats": [one.due_at for one in fired],
            "repeated": [one.is_repeated for one in fired],
        }
        async with self._bell.database.connection() as session:
            await self._store.count_fired(session, columns=columns)
        return [None] * len(fired)
