"""Digests: everybody of a batch is told in one mail who is new for their searches, or that nobody is.

It passes quiet hours, since five in the morning was chosen for it. Searches, mails and what was told are written
together: each search is in one digest of an instant, whatever crashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import orjson

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.searches.alerting import BATCHES, RETRIES, SEARCH_ALERTS, is_slow
from timebell.apps.marketplace.searches.cycles import DigestCycles, compose_job, zone_of
from timebell.apps.marketplace.searches.failing import guarded
from timebell.apps.marketplace.searches.matching_store import MatchingStore
from timebell.apps.marketplace.searches.models import Digested, SearchSettings
from timebell.apps.marketplace.searches.rules import (
    BATCH,
    ENTRIES_MAX,
    SEARCHES_MAX,
    cause_of,
    is_told,
    rate_of,
    title_of,
)
from timebell.apps.marketplace.searches.service import search_subject
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.apps.marketplace.searches.texts import SEARCH_DIGEST, SEARCH_ENDED
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.logs import Logger
from timebell.notify import Notify, Tell

log = Logger("timebell.marketplace")

_MAIL: Final = ("email",)


async def compose_digests(job: Job) -> Outcome:
    """The digests of some people. After a failure fewer are done at once, and the rest afterwards."""
    return await guarded(job, "digest", lambda settings: _compose(job, settings), _left_of_users)


async def _compose(job: Job, settings: SearchSettings) -> Outcome:
    cursor = job.cursor or {"done": 0}
    users = [UUID(user) for user in job.payload["users"]]
    begin, end = cursor["done"], cursor["done"] + job.batch(BATCH)
    await _compose_each(job, settings, users[begin:end])
    if end >= len(users):
        return Done()
    return Snooze(delay=timedelta(0), reason="more to come", cursor={"done": end})


async def _compose_each(job: Job, settings: SearchSettings, users: Sequence[UUID]) -> None:
    """As a whole, or each by themselves; those that fail are tried again by themselves."""
    digests, tx = Digests(job.bell, settings), job.tx
    timezone, at, by = job.payload["timezone"], datetime.fromisoformat(job.payload["at"]), _by(job)
    is_retry = len(job.payload["users"]) == 1 and bool(job.payload.get("is_retry"))
    try:
        async with tx.all_or_nothing():
            mails = await digests.compose(tx, users, timezone, at, by)
    except (TimebellError, *DATABASE_ERRORS) as error:
        if cause_of(error) != "query" or len(users) == 1 or is_slow(error):
            raise
        failure = error
    else:
        _count(job, mails)
        outcome = (RETRIES, "told") if is_retry else (BATCHES, "whole")
        tx.after_commit.append(lambda: job.bell.tallies.add(*outcome))
        return
    failed: list[UUID] = []
    for user in users:
        try:
            async with tx.all_or_nothing():
                _count(job, await digests.compose(tx, [user], timezone, at, by))
        except (TimebellError, *DATABASE_ERRORS) as error:
            if cause_of(error) != "query":
                raise
            log.warning("a digest is tried again", user_id=str(user), error=str(error))
            failed.append(user)
    if len(failed) == len(users):
        raise failure
    for user in failed:
        one = compose_job(timezone, at, [user], job.correlation_id)
        await job.bell.enqueue(
            tx,
            one.kind,
            {**one.payload, "is_retry": True},
            key=f"{one.key}:again",
            key_lifetime=one.key_lifetime,
            correlation_id=one.correlation_id,
            on_conflict="keep",
        )
    tx.after_commit.append(lambda: job.bell.tallies.add(BATCHES, "partial"))


class Digests:
    """Composes the mails of some people for one instant."""

    def __init__(self, bell: Timebell, settings: SearchSettings) -> None:
        self._bell = bell
        self._settings = settings
        self._store = MatchingStore(bell.clock)
        self._searches = SearchStore(bell.clock)
        self._notify = bell.shared.one(Notify)

    async def compose(
        self, tx: Transaction, users: Sequence[UUID], timezone: str, at: datetime, by: By
    ) -> list[bool]:
        """Of each mail, whether it names anybody."""
        await self._searches.lock_user(tx, user_ids=users)
        here = await self._still_here(tx, users, timezone, by)
        if not here:
            return []
        rows = await self._store.read_digest_searches(
            tx, user_ids=here, at=at, limit=SEARCHES_MAX * len(here)
        )
        if not rows:
            return []
        found = await self._found(tx, [row["id"] for row in rows], at)
        searches = [_digested(row, found.get(row["id"], ())) for row in rows]
        ended = await self._store.settle_digests(
            tx,
            ids=[one.id for one in searches],
            founds=[bool(one.workers) for one in searches],
            at=at,
            zero_max=self._settings.zero_digests_max,
        )
        mails: list[Tell] = []
        names: list[bool] = []
        for user, theirs in groupby(searches, key=lambda one: one.user_id):
            told = is_told(list(theirs))
            if told:
                mails.append(_mail(user, told, at, by))
                names.append(any(one.workers for one in told))
        mails += [_ended(one, at, by) for one in searches if one.id in ended]
        await self._notify.tell_many(tx, mails)
        return names

    async def _found(
        self, tx: Transaction, ids: Sequence[UUID], at: datetime
    ) -> Mapping[UUID, Sequence[Mapping[str, Any]]]:
        rows = await self._store.match_digests(tx, ids=ids, at=at, limit=ENTRIES_MAX)
        return {id: list(theirs) for id, theirs in groupby(rows, key=lambda row: row["search_id"])}

    async def _still_here(self, tx: Transaction, users: Sequence[UUID], timezone: str, by: By) -> list[UUID]:
        """Those who live in this zone. Whoever has moved has their digest there from now on."""
        # Whoever is being erased is waited for before anything is written that the erasure waits for.
        timezones = await self._notify.recipients.timezones(tx, users)
        here: list[UUID] = []
        for user in users:
            if user not in timezones:
                continue
            now_in = zone_of(timezones[user], user)
            if now_in == timezone:
                here.append(user)
                continue
            await self._searches.move_timezone(tx, user_id=user, timezone=now_in)
            await DigestCycles(self._bell).ensure(tx, now_in, by=by)
        return here


def _digested(row: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> Digested:
    return Digested(
        id=row["id"],
        user_id=row["user_id"],
        title=title_of(orjson.loads(row["criteria"])),
        digest_enabled=row["digest_enabled"],
        send_empty_digest=row["send_empty_digest"],
        workers=found[:ENTRIES_MAX],
        more_count=max(0, len(found) - ENTRIES_MAX),
    )


def _mail(user: UUID, told: Sequence[Digested], at: datetime, by: By) -> Tell:
    searches = [
        {
            "search_id": str(one.id),
            "title": one.title,
            "is_empty": not one.workers,
            "more_count": one.more_count or None,
            "workers": [
                {
                    "worker_id": str(worker["worker_id"]),
                    "trade": worker["trade"],
                    "zip": worker["zip"],
                    "rate": rate_of(worker["hourly_rate"]),
                    "skills": ", ".join(worker["skills"]) or None,
                }
                for worker in one.workers
            ],
        }
        for one in told
    ]
    return Tell(
        recipient=user,
        template=SEARCH_DIGEST,
        context={"searches": searches},
        channels=_MAIL,
        urgency="time_bound",
        subject=f"saved_searches:{user}",
        key=f"saved_search_digest:{user}:{at.isoformat()}",
        correlation_id=by.correlation_id,
    )


def _ended(search: Digested, at: datetime, by: By) -> Tell:
    return Tell(
        recipient=search.user_id,
        template=SEARCH_ENDED,
        context={"title": search.title},
        channels=_MAIL,
        subject=search_subject(search.id),
        key=f"saved_search_ended:{search.id}:{at.isoformat()}",
        correlation_id=by.correlation_id,
    )


def _count(job: Job, mails: Sequence[bool]) -> None:
    told = sum(mails)

    def counted() -> None:
        job.bell.tallies.add(SEARCH_ALERTS, "digest", "told", by=told)
        job.bell.tallies.add(SEARCH_ALERTS, "digest", "empty", by=len(mails) - told)

    job.tx.after_commit.append(counted)


def _by(job: Job) -> By:
    return By(correlation_id=job.correlation_id)


async def _left_of_users(job: Job) -> tuple[UUID | None, Sequence[UUID]]:
    """The searches of those whose digests were not composed."""
    done = 0 if job.cursor is None else job.cursor["done"]
    users = [UUID(user) for user in job.payload["users"][done:]]
    rows = await MatchingStore(job.bell.clock).read_digest_searches(
        job.tx,
        user_ids=users,
        at=datetime.fromisoformat(job.payload["at"]),
        limit=SEARCHES_MAX * len(users),
    )
    return None, [row["id"] for row in rows]
