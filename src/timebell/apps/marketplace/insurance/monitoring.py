"""`marketplace.monitor_insurance`: every day at midnight UTC, the insurances that have ended or soon will.

It goes through them by their last day, some in each transaction. What has ended comes first and is deactivated whatever
becomes of the warnings; what that stops is stopped by jobs of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.insurance.models import DuePolicy, Threshold
from timebell.apps.marketplace.insurance.rules import CHANNELS, WARNED_AHEAD, due_of, utc_date
from timebell.apps.marketplace.insurance.service import POLICIES
from timebell.apps.marketplace.insurance.stop_store import NIL
from timebell.apps.marketplace.insurance.stopping import stop_job
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.apps.marketplace.models import SYSTEM, policy_subject
from timebell.apps.marketplace.texts import EMAIL, INSURANCE_EXPIRING, SMS_AND_EMAIL, tells
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Done, Job, Outcome, Snooze
from timebell.logs import Logger
from timebell.notify import Notify, Tell

log = Logger("timebell.marketplace")

WARNINGS: Final = "marketplace_insurance_warnings"
BATCH: Final = 200
# So much is told at once, however many people a batch concerns.
_TOLD_AT_ONCE: Final = 1_000


class Monitoring:
    """One batch of the daily run, in the transaction of its job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._bell = job.bell
        self._tx = job.tx
        self._store = PolicyStore(job.bell.clock)
        self._correlation_id = job.correlation_id or str(job.id)

    async def run(self) -> Outcome:
        cursor = self._job.cursor or {}
        today = await self._today(cursor)
        limit = self._job.batch(BATCH)
        found = await self._store.list_due_policies(
            self._tx,
            until=today + WARNED_AHEAD,
            after_date=date.fromisoformat(cursor["date"]) if cursor else date.min,
            after_id=UUID(cursor["id"]) if cursor else NIL,
            limit=limit,
        )
        due = {policy.id: due_of(policy.expiration_date, today) for policy in found}
        ended = [policy for policy in found if due[policy.id] == "expired"]
        if ended:
            # In a transaction of their own, so that no warning that fails takes it back.
            await self._end([policy.id for policy in ended], today)
            return self._on(ended[-1], today)
        for threshold in CHANNELS:
            await self._warn([policy for policy in found if due[policy.id] == threshold], threshold, today)
        return Done() if len(found) < limit else self._on(found[-1], today)

    def _on(self, last: DuePolicy, today: date) -> Snooze:
        at = {"today": today.isoformat(), "date": last.expiration_date.isoformat(), "id": str(last.id)}
        return Snooze(delay=timedelta(0), reason="more to come", cursor=at)

    async def _today(self, cursor: dict[str, Any]) -> date:
        """The day on which the run began, though it may go on into the next."""
        if cursor:
            return date.fromisoformat(cursor["today"])
        return utc_date(await self._store.read_instant(self._tx))

    async def _end(self, ids: Sequence[UUID], today: date) -> None:
        ended = await self._store.deactivate_expired(self._tx, ids=ids, today=today)
        for policy in ended:
            await self._bell.record(
                self._tx,
                "insurance_policy.expired",
                {
                    "company_id": str(policy.company_id),
                    "type": policy.type,
                    "expiration_date": policy.expiration_date.isoformat(),
                    "before": {"is_active": True},
                    "after": {"is_active": False},
                },
                subject=policy_subject(policy.id),
                actor=SYSTEM,
                correlation_id=self._correlation_id,
            )
        jobs = [stop_job(policy.id, policy.revision, self._correlation_id) for policy in ended]
        await self._bell.enqueue_many(self._tx, jobs)
        self._tx.after_commit.append(lambda: self._bell.tallies.add(POLICIES, "expired", by=len(ended)))

    async def _warn(self, policies: Sequence[DuePolicy], threshold: Threshold, today: date) -> None:
        """All of a batch at once; where that fails, each for itself, so that one keeps no other from being warned of.
        What was not is warned of by the next run."""
        if not policies:
            return
        try:
            async with self._tx.all_or_nothing():
                await self._tell(policies, threshold, today)
            return
        except (TimebellError, *DATABASE_ERRORS) as error:
            log.error("a batch of insurances could not be warned of", exc_info=error, threshold=threshold)
        for policy in policies:
            try:
                async with self._tx.all_or_nothing():
                    await self._tell([policy], threshold, today)
            except (TimebellError, *DATABASE_ERRORS) as error:
                log.error("nobody was warned of an insurance", exc_info=error, policy_id=str(policy.id))
                self._tx.after_commit.append(
                    lambda: self._bell.tallies.add(WARNINGS, str(threshold), "failed")
                )

    async def _tell(self, policies: Sequence[DuePolicy], threshold: Threshold, today: date) -> None:
        warned = await self._store.insert_warnings(
            self._tx,
            ids=[policy.id for policy in policies],
            threshold=threshold,
            channels=CHANNELS[threshold],
            today=today,
        )
        by_id = {policy.id: policy for policy in policies}
        told = [tell for id, person in warned for tell in self._tells(by_id[id], threshold, person)]
        for start in range(0, len(told), _TOLD_AT_ONCE):
            await self._bell.shared.one(Notify).tell_many(self._tx, told[start : start + _TOLD_AT_ONCE])
        count = len(told)
        if count:
            self._tx.after_commit.append(
                lambda: self._bell.tallies.add(WARNINGS, str(threshold), "told", by=count)
            )

    def _tells(self, policy: DuePolicy, threshold: Threshold, person: UUID) -> list[Tell]:
        return tells(
            INSURANCE_EXPIRING,
            [person],
            subject=policy_subject(policy.id),
            context={
                "type": policy.type,
                "company": policy.company_name,
                "expiration_date": policy.expiration_date.isoformat(),
            },
            channels=SMS_AND_EMAIL if "sms" in CHANNELS[threshold] else EMAIL,
            urgency="normal",
            correlation_id=self._correlation_id,
        )


async def monitor_insurance(job: Job) -> Outcome:
    return await Monitoring(job).run()
