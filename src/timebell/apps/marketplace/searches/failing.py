"""Retry and skip after a failure: what could not be asked is asked again, or left out silently and counted. Nobody is
told part of an answer, and no user is told of a failure at all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

from timebell.apps.marketplace.searches.matching_store import MatchingStore
from timebell.apps.marketplace.searches.models import Cause, SearchSettings, Sort
from timebell.apps.marketplace.searches.rules import cause_of, try_again_after
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Done, Ids, Job, Outcome, Retry, Timebell
from timebell.logs import Logger

log = Logger("timebell.marketplace")

SKIPS: Final = "marketplace_search_skips"
SKIP_SECONDS: Final = "marketplace_search_skip_seconds"
# What is left out, whom it was about and which searches it would have told, as far as that is known.
Left = Callable[[Job], Awaitable[tuple[UUID | None, Sequence[UUID]]]]
Run = Callable[[SearchSettings], Awaitable[Outcome]]
_LOSSES_MAX: Final = 10_000
# Since when jobs have lost the database again and again, as far as this process has seen it.
_LOSSES: Final[WeakKeyDictionary[Timebell, OrderedDict[UUID, datetime]]] = WeakKeyDictionary()


async def guarded(job: Job, sort: Sort, run: Run, left: Left) -> Outcome:
    """Run it by what its tenant decided, all or nothing."""
    losses = _LOSSES.setdefault(job.bell, OrderedDict())
    hooks = len(job.tx.after_commit)
    try:
        settings = await SearchStore(job.bell.clock).read_search_settings(job.tx)
        lost = _elapsed_of(job, sort, losses)
        if lost is not None and lost > settings.windows["database"]:
            return await _skip(job, sort, "database", lost, left)
        try:
            async with job.tx.all_or_nothing():
                outcome = await run(settings)
        except (TimebellError, *DATABASE_ERRORS) as error:
            # What was undone is not counted either.
            del job.tx.after_commit[hooks:]
            if not _answers(error):
                raise
            return await _after(job, sort, error, settings, left)
    except DATABASE_ERRORS as error:
        if _answers(error):
            raise
        return _lost(job, losses, error)
    losses.pop(job.id, None)
    return outcome


def _lost(job: Job, losses: OrderedDict[UUID, datetime], error: BaseException) -> Outcome:
    """There is no database to write to. It costs no attempt, and is tried again until its window is over."""
    since = losses.setdefault(job.id, job.started_at)
    while len(losses) > _LOSSES_MAX:
        losses.popitem(last=False)
    delay = try_again_after(
        "database",
        "instant",
        tries=job.attempt,
        elapsed=job.started_at - since,
        windows={"database": timedelta.max},
        fraction=job.bell.chance.fraction(),
    )
    return Retry(f"database: {error}"[:500] or "database", "unavailable", delay)


def _elapsed_of(job: Job, sort: Sort, losses: OrderedDict[UUID, datetime]) -> timedelta | None:
    """For how long the database was away from it. An alert that could not even begin is as late as it is."""
    since = losses.get(job.id)
    if since is None and sort == "instant" and job.cursor is None and job.attempt == 1:
        since = job.due_at
    return None if since is None else job.started_at - since


def _answers(error: BaseException) -> bool:
    """Whether there is a server to go on with: it said so itself, or it was not about the database at all."""
    return getattr(error, "sqlstate", None) is not None or cause_of(error) != "database"


async def _after(job: Job, sort: Sort, error: Exception, settings: SearchSettings, left: Left) -> Outcome:
    cause = cause_of(error)
    elapsed = job.started_at - job.due_at
    delay = try_again_after(
        cause,
        sort,
        tries=job.attempt,
        elapsed=elapsed,
        windows=settings.windows,
        fraction=job.bell.chance.fraction(),
    )
    if delay is None:
        log.error(
            "saved searches could not be asked and are left out", sort=sort, cause=cause, exc_info=error
        )
        return await _skip(job, sort, cause, elapsed, left)
    log.warning("saved searches could not be asked", sort=sort, cause=cause, error=str(error))
    words = f"{cause}: {error}"[:500]
    return Retry(words, "transient" if cause == "query" else "unavailable", delay)


async def _skip(job: Job, sort: Sort, cause: Cause, duration: timedelta, left: Left) -> Outcome:
    worker_id, search_ids = await left(job)
    for id in search_ids:
        log.error("a saved search was left out", search_id=str(id), sort=sort, cause=cause)
    named: list[UUID | None] = [*search_ids] or [None]
    await MatchingStore(job.bell.clock).insert_skips(
        job.tx,
        ids=Ids(job.bell.chance).many(len(named)),
        search_ids=named,
        worker_id=worker_id,
        sort=sort,
        cause=cause,
        duration=duration,
    )

    def counted() -> None:
        job.bell.tallies.add(SKIPS, sort, cause, by=len(named))
        job.bell.tallies.note(SKIP_SECONDS, duration.total_seconds())

    job.tx.after_commit.append(counted)
    _LOSSES.get(job.bell, OrderedDict()).pop(job.id, None)
    return Done()
