"""The digests of a zone: one schedule by its wall clock, for everybody there.

A run only enqueues, some searches in each transaction; what is told is composed by a job for each batch. The same run
twice makes nothing new.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import SYSTEM, By
from timebell.apps.marketplace.payments.weeks import wall_instant
from timebell.apps.marketplace.searches.matching_store import MatchingStore
from timebell.apps.marketplace.searches.rules import BATCH, digest_batches, first_digest
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.errors import UnknownTimezone
from timebell.kernel import Done, Enqueue, Job, Outcome, Snooze, Step, Timebell, Transaction
from timebell.logs import Logger
from timebell.rules.localtime import zone

log = Logger("timebell.marketplace")

ENQUEUE_DIGESTS: Final = "marketplace.enqueue_digests"
COMPOSE_DIGESTS: Final = "marketplace.compose_digests"
UTC_NAME: Final = "UTC"
# So many batches are enqueued in one transaction.
_PAGE: Final = 20 * BATCH
# A morning that was missed is made up for until eleven.
_GRACE: Final = timedelta(hours=6)
_KEPT: Final = timedelta(days=7)


def zone_of(timezone: str, user: UUID) -> str:
    """Where somebody's morning is; UTC where that is not known, or not any more."""
    try:
        zone(timezone)
    except UnknownTimezone as error:
        log.error(
            "a digest goes by UTC, since nobody knows the timezone", user_id=str(user), error=str(error)
        )
        return UTC_NAME
    return timezone


class DigestCycles:
    """Makes the schedules of zones."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SearchStore(bell.clock)

    async def ensure(self, tx: Transaction, timezone: str, *, by: By) -> None:
        """The zone has its schedule, from the first digest there on."""
        if await self._store.has_digest_cycle(tx, timezone=timezone):
            return
        await self._store.lock_digest_cycle(tx, timezone=timezone)
        if await self._store.has_digest_cycle(tx, timezone=timezone):
            return
        now = await self._store.read_hour(tx)
        change = await self._bell.schedules.create(
            tx,
            timezone=timezone,
            recurrence="FREQ=DAILY",
            start_local=first_digest(now.astimezone(zone(timezone)).replace(tzinfo=None)),
            steps=[Step(key="enqueue", kind=ENQUEUE_DIGESTS, offset=timedelta(0))],
            payload={"timezone": timezone},
            catch_up="latest",
            grace=_GRACE,
            owner=SYSTEM,
            subject=f"digest_cycle:{timezone}",
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        await self._store.insert_digest_cycle(tx, timezone=timezone, schedule_id=change.schedule.id)


async def enqueue_digests(job: Job) -> Outcome:
    """One page of those who have a digest in a zone: a job for each fifty searches. Nobody is asked for anything."""
    timezone, at = job.payload["timezone"], _instant_of(job)
    after = None if job.cursor is None else UUID(job.cursor["after"])
    rows = await MatchingStore(job.bell.clock).list_digest_searches(
        job.tx, timezone=timezone, after=after, limit=_PAGE
    )
    is_last = len(rows) < _PAGE
    batches = digest_batches(rows, is_last=is_last)
    correlation_id = job.correlation_id or str(job.id)
    jobs = [compose_job(timezone, at, users, correlation_id) for users in batches]
    await job.bell.enqueue_many(job.tx, jobs)
    if is_last:
        return Done()
    return Snooze(delay=timedelta(0), reason="more to come", cursor={"after": str(batches[-1][-1])})


def compose_job(timezone: str, at: datetime, users: list[UUID], correlation_id: str | None) -> Enqueue:
    payload: dict[str, Any] = {
        "timezone": timezone,
        "at": at.isoformat(),
        "users": [str(user) for user in users],
    }
    return Enqueue(
        kind=COMPOSE_DIGESTS,
        payload=payload,
        key=f"digest:{at.isoformat()}:{timezone}:{users[0]}:{len(users)}",
        key_lifetime=_KEPT,
        correlation_id=correlation_id,
        on_conflict="keep",
    )


def _instant_of(job: Job) -> datetime:
    """When the digest was meant to be, however late it is."""
    wall = datetime.fromisoformat(job.payload["original_local"])
    try:
        return wall_instant(wall, job.payload["timezone"])
    except UnknownTimezone:
        return job.due_at
