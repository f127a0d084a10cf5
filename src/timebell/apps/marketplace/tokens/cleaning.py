"""At 02:00 UTC what has expired, or was used by nobody for a day, is deleted: some in each transaction, until none is
left. What a night did is said in one line."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Final

from timebell.apps.marketplace.models import SYSTEM, By
from timebell.apps.marketplace.tokens.models import Cleaned
from timebell.apps.marketplace.tokens.rules import BATCH, first_cleaning
from timebell.apps.marketplace.tokens.store import TokenStore
from timebell.kernel import Done, Job, Outcome, Snooze, Step, Timebell, Transaction
from timebell.logs import Logger

log = Logger("timebell.marketplace")

CLEAN: Final = "marketplace.clean_tokens"
QUEUE: Final = "token-cleanup"
DELETED: Final = "marketplace_tokens_deleted"
# A night that was missed is made up for until the next.
_GRACE: Final = timedelta(hours=23)


class Cleaning:
    """The schedule that cleans the links of a tenant, from the first of them on."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = TokenStore(bell.clock)

    async def ensure(self, tx: Transaction, *, by: By) -> None:
        if await self._store.has_cleaning(tx):
            return
        await self._store.lock_cleaning(tx)
        if await self._store.has_cleaning(tx):
            return
        change = await self._bell.schedules.create(
            tx,
            timezone="UTC",
            recurrence="FREQ=DAILY",
            start_local=first_cleaning(await self._store.read_instant(tx)),
            steps=[Step(key="clean", kind=CLEAN, offset=timedelta(0))],
            catch_up="latest",
            grace=_GRACE,
            owner=SYSTEM,
            subject="marketplace:tokens",
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        await self._store.insert_cleaning(tx, schedule_id=change.schedule.id)


async def clean_tokens(job: Job) -> Outcome:
    """One batch. The next begins at once, in a transaction of its own."""
    bell, tx = job.bell, job.tx
    store = TokenStore(bell.clock)
    now = await store.read_instant(tx)
    cursor = job.cursor or {"began": now.isoformat(), **asdict(Cleaned())}
    before = Cleaned(**{name: cursor[name] for name in Cleaned.__dataclass_fields__})
    limit = job.batch(BATCH)
    deleted, expired = await store.delete_tokens(tx, limit=limit)
    after = replace(
        before,
        expired=before.expired + expired,
        unused=before.unused + deleted - expired,
        batches=before.batches + 1,
    )

    def counted() -> None:
        bell.tallies.add(DELETED, "expired", by=expired)
        bell.tallies.add(DELETED, "unused", by=deleted - expired)

    tx.after_commit.append(counted)
    if deleted == limit:
        return Snooze(
            delay=timedelta(0), reason="more to come", cursor={"began": cursor["began"], **asdict(after)}
        )
    seconds = (now - datetime.fromisoformat(cursor["began"])).total_seconds()
    tx.after_commit.append(lambda: _tell(tx.tenant, after, seconds))
    return Done()


def _tell(tenant: str, cleaned: Cleaned, seconds: float) -> None:
    log.info(
        "magic links were deleted",
        tenant=tenant,
        expired=cleaned.expired,
        unused=cleaned.unused,
        batches=cleaned.batches,
        seconds=seconds,
    )
