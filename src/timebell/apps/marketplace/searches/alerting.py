"""Somebody was listed: whoever looks for such a worker is told at once.

A job goes through the searches that find them, fifty at a time. What is told, and to whom it is left to be told in the
next digest, is written together with the notifications, so that a batch that is run again finds what it did before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import By, id_of
from timebell.apps.marketplace.searches.cycles import DigestCycles
from timebell.apps.marketplace.searches.failing import guarded
from timebell.apps.marketplace.searches.matching_store import MatchingStore
from timebell.apps.marketplace.searches.models import AlertChannel, Listed, Match, SearchSettings
from timebell.apps.marketplace.searches.rules import BATCH, cause_of, probes_of, rate_of, shared
from timebell.apps.marketplace.searches.service import search_subject
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.apps.marketplace.searches.texts import SEARCH_ALERT
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Done, Enqueue, Job, Outcome, Snooze, Timebell, Transaction
from timebell.logs import Logger
from timebell.notify import Notify, Recipient, Route, Tell
from timebell.rules.localtime import zone
from timebell.rules.quiet_hours import window_at

log = Logger("timebell.marketplace")

ALERT_SEARCH: Final = "marketplace.alert_search"
STILL_MATCHES: Final = "marketplace.still_matches"
SEARCH_ALERTS: Final = "marketplace_search_alerts"
BATCHES: Final = "marketplace_search_batches"
RETRIES: Final = "marketplace_search_retries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a batch came to."""

    told: int = 0
    overflow: int = 0
    quiet: int = 0


async def match_searches(job: Job) -> Outcome:
    """One batch of those who look for somebody who was listed."""
    return await guarded(job, "instant", lambda settings: _match(job, settings), _left_of_worker)


async def alert_search(job: Job) -> Outcome:
    """One search of a batch in which it alone could not be told."""

    async def run(settings: SearchSettings) -> Outcome:
        worker = await _worker_of(job)
        if worker is None:
            return Done()
        match = await MatchingStore(job.bell.clock).find_match(
            job.tx, id=UUID(job.payload["search_id"]), worker_id=worker.id
        )
        if match is not None:
            _count(job, await Alerts(job.bell, settings).give(job.tx, worker, [match], _by(job)))
        job.tx.after_commit.append(lambda: job.bell.tallies.add(RETRIES, "told"))
        return Done()

    return await guarded(job, "instant", run, _left_of_search)


async def still_matches(job: Job) -> bool:
    """Asked before anybody is told, which may be after quiet hours. Where it is not so any more, nobody was told, and
    whoever is listed again is told of."""
    context = job.payload.get("context", {})
    if job.subject is None or "worker_id" not in context:
        return False
    search_id, worker_id = id_of(job.subject), UUID(context["worker_id"])
    store = MatchingStore(job.bell.clock)
    async with job.bell.transaction(tenant=job.tenant) as tx:
        if await store.find_match(tx, id=search_id, worker_id=worker_id) is not None:
            return True
        await store.forget_alert(tx, search_id=search_id, worker_id=worker_id, event=UUID(context["event"]))
    return False


class Alerts:
    """Tells some users about one worker."""

    def __init__(self, bell: Timebell, settings: SearchSettings) -> None:
        self._bell = bell
        self._settings = settings
        self._store = MatchingStore(bell.clock)
        self._searches = SearchStore(bell.clock)
        self._notify = bell.shared.one(Notify)

    async def give(self, tx: Transaction, worker: Listed, matches: Sequence[Match], by: By) -> Given:
        """All of them or none. A search tells of somebody once a day, and a person is told so many an hour."""
        settings = self._settings
        users = sorted({match.user_id for match in matches})
        await self._searches.lock_user(tx, user_ids=users)
        # Whoever is being erased is waited for here, and not when something is written that the erasure waits for.
        there = await self._notify.recipients.hold(tx, users)
        matches = [match for match in matches if match.user_id in there]
        recent = await self._store.read_alerts(
            tx, search_ids=[match.id for match in matches], worker_id=worker.id
        )
        counts = await self._store.count_alerts(tx, user_ids=users, limit=settings.alerts_per_hour)
        fresh = [match for match in matches if match.id not in recent]
        ways = {match.id: tuple(match.channels) for match in fresh}
        if settings.in_quiet_hours == "drop":
            ways = await self._awake(tx, fresh)
        loud = [match for match in fresh if ways[match.id]]
        parts = shared(loud, recent=recent, counts=counts, most=settings.alerts_per_hour)
        states = ["told"] * len(parts.told) + ["overflow"] * len(parts.overflow)
        if states:
            await self._store.write_alerts(tx, worker, matches=[*parts.told, *parts.overflow], states=states)
        if parts.overflow:
            await self._leave(tx, parts.overflow, by)
        await self._notify.tell_many(tx, [_tell(worker, match, ways[match.id], by) for match in parts.told])
        return Given(told=len(parts.told), overflow=len(parts.overflow), quiet=len(fresh) - len(loud))

    async def _leave(self, tx: Transaction, overflow: Sequence[Match], by: By) -> None:
        """What is too much for an hour is told in the next digest, also to whoever wants none otherwise."""
        await self._store.note_overflow(tx, ids=[match.id for match in overflow])
        cycles = DigestCycles(self._bell)
        for timezone in sorted({match.timezone for match in overflow}):
            await cycles.ensure(tx, timezone, by=by)

    async def _awake(self, tx: Transaction, matches: Sequence[Match]) -> dict[UUID, tuple[AlertChannel, ...]]:
        """On which channels of each search its user has no quiet hours now."""
        people = await self._notify.recipients.get_many(tx, sorted({match.user_id for match in matches}))
        now = await self._searches.read_hour(tx)
        return {
            match.id: tuple(
                channel
                for channel in match.channels
                if match.user_id in people and not _is_quiet(people[match.user_id], channel, now)
            )
            for match in matches
        }


def _is_quiet(person: Recipient, channel: AlertChannel, now: datetime) -> bool:
    quiet = person.quiet_hours
    if quiet is None or channel not in quiet.channels:
        return False
    return window_at(now, quiet.start, quiet.end, zone(person.timezone), quiet.days) is not None


def _tell(worker: Listed, match: Match, channels: Sequence[AlertChannel], by: By) -> Tell:
    """On each of the channels. Quiet hours are kept: whatever comes in them is told after them, if it still holds."""
    return Tell(
        recipient=match.user_id,
        template=SEARCH_ALERT,
        context={
            "worker_id": str(worker.id),
            "event": str(worker.event),
            "trade": worker.trade,
            "zip": worker.zip,
            "rate": rate_of(worker.hourly_rate),
            "skills": ", ".join(worker.skills) or None,
        },
        channels=Route(first=tuple(channels[:1]), also=tuple(channels[1:])),
        subject=search_subject(match.id),
        key=f"saved_search:{match.id}:{worker.event}",
        guard=STILL_MATCHES,
        correlation_id=by.correlation_id,
    )


async def _match(job: Job, settings: SearchSettings) -> Outcome:
    worker = await _worker_of(job)
    if worker is None:
        return Done()
    limit = job.batch(BATCH)
    cursor = job.cursor or {"number": 1, "after": None}
    found = await MatchingStore(job.bell.clock).match_searches(
        job.tx,
        worker_id=worker.id,
        probes=probes_of(worker.trade, worker.zip, worker.skills),
        after_number=cursor["number"],
        after=None if cursor["after"] is None else UUID(cursor["after"]),
        limit=limit,
    )
    page = found[:limit]
    if page:
        await _give_each(job, settings, worker, page)
    if len(found) <= limit:
        return Done()
    last = {"number": page[-1].number, "after": str(page[-1].id)}
    return Snooze(delay=timedelta(0), reason="more to come", cursor=last)


async def _give_each(job: Job, settings: SearchSettings, worker: Listed, page: Sequence[Match]) -> None:
    """A batch is told as a whole; where it cannot be, each is told by itself, and those that cannot are tried again by
    themselves. Where none can, it is the batch that failed."""
    alerts, by, tx = Alerts(job.bell, settings), _by(job), job.tx
    try:
        async with tx.all_or_nothing():
            given = await alerts.give(tx, worker, page, by)
    except (TimebellError, *DATABASE_ERRORS) as error:
        if cause_of(error) != "query" or len(page) == 1 or is_slow(error):
            raise
        failure = error
    else:
        _count(job, given)
        tx.after_commit.append(lambda: job.bell.tallies.add(BATCHES, "whole"))
        return
    failed: list[Match] = []
    for match in page:
        try:
            async with tx.all_or_nothing():
                _count(job, await alerts.give(tx, worker, [match], by))
        except (TimebellError, *DATABASE_ERRORS) as error:
            if cause_of(error) != "query":
                raise
            log.warning("a saved search is tried again", search_id=str(match.id), error=str(error))
            failed.append(match)
    if len(failed) == len(page):
        raise failure
    await job.bell.enqueue_many(tx, [_one(job, match) for match in failed])
    tx.after_commit.append(lambda: job.bell.tallies.add(BATCHES, "partial"))


def is_slow(error: BaseException) -> bool:
    """A statement that took too long takes too long again, for each of a batch."""
    return getattr(error, "sqlstate", None) == "57014"


def _one(job: Job, match: Match) -> Enqueue:
    return Enqueue(
        kind=ALERT_SEARCH,
        payload={**job.payload, "search_id": str(match.id)},
        key=f"alert:{match.id}:{job.payload['event']}",
        key_lifetime=timedelta(days=7),
        subject=search_subject(match.id),
        correlation_id=job.correlation_id,
        on_conflict="keep",
    )


def _count(job: Job, given: Given) -> None:
    def counted() -> None:
        tallies = job.bell.tallies
        tallies.add(SEARCH_ALERTS, "instant", "told", by=given.told)
        tallies.add(SEARCH_ALERTS, "instant", "overflow", by=given.overflow)
        tallies.add(SEARCH_ALERTS, "instant", "quiet", by=given.quiet)

    job.tx.after_commit.append(counted)


async def _worker_of(job: Job) -> Listed | None:
    payload: dict[str, Any] = job.payload
    return await MatchingStore(job.bell.clock).read_listed(
        job.tx,
        id=UUID(payload["worker_id"]),
        event=UUID(payload["event"]),
        listed_at=datetime.fromisoformat(payload["listed_at"]),
    )


def _by(job: Job) -> By:
    return By(correlation_id=job.correlation_id)


async def _left_of_worker(job: Job) -> tuple[UUID | None, Sequence[UUID]]:
    return UUID(job.payload["worker_id"]), ()


async def _left_of_search(job: Job) -> tuple[UUID | None, Sequence[UUID]]:
    job.tx.after_commit.append(lambda: job.bell.tallies.add(RETRIES, "failed"))
    return UUID(job.payload["worker_id"]), [UUID(job.payload["search_id"])]
