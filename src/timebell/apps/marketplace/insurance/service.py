"""`Policies`: insurances of companies, added, renewed and invalidated. Each verb takes part in the transaction that it
is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.insurance.models import Policy
from timebell.apps.marketplace.insurance.refusals import no_policy, not_active
from timebell.apps.marketplace.insurance.rules import utc_date
from timebell.apps.marketplace.insurance.stopping import Stopping
from timebell.apps.marketplace.insurance.store import PolicyStore, policy_of
from timebell.apps.marketplace.models import SYSTEM, By
from timebell.apps.marketplace.refusals import wrong_field
from timebell.apps.marketplace.staffing.access import Access
from timebell.apps.marketplace.staffing.companies import Companies
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.kernel import Ids, Page, Step, Timebell, Transaction, decode_cursor, page_of
from timebell.notify import Notify

MONITOR: Final = "marketplace.monitor_insurance"
POLICIES: Final = "marketplace_insurance_policies"
# Of so many companies the insurances of one person are looked for.
_COMPANIES_MAX: Final = 500
_DAY: Final = timedelta(days=1)
# A run that comes late still does what its day asks for.
_GRACE: Final = timedelta(days=1)


class Policies:
    """Changed with an admin key, or by an admin of the company. Whoever changes something holds the company."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._access = Access(bell)
        self._companies = Companies(bell, notify)
        self._company_store = StaffingStore(bell.clock)
        self._stopping = Stopping(bell)
        self._store = PolicyStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(
        self, tx: Transaction, company_id: UUID, type: str, expiration_date: date, *, by: By
    ) -> Policy:
        """One more. It takes the place of those of its type that have ended, and what these have stopped goes on."""
        await self._companies.administered(tx, company_id, by=by)
        await self._store.lock_company(tx, id=company_id)
        id = self._ids.new()
        await self._store.insert_policy(
            tx, id=id, company_id=company_id, type=type, expiration_date=expiration_date
        )
        if expiration_date >= await self._today(tx):
            await self._store.replace_policies(tx, company_id=company_id, type=type, replaced_by=id)
        policy = await self._read(tx, id)
        said = {"company_id": str(company_id), "type": type}
        await self._record(tx, "added", policy, by, {**said, "after": _terms(policy)})
        await self._resume(tx, policy, by)
        await self.watch(tx, by=by)
        return policy

    async def get(self, tx: Transaction, id: UUID, *, by: By) -> Policy:
        """For members of the company; not for those who are lent."""
        policy = await self._read(tx, id)
        roles = await self._access.roles_in(tx, policy.company_id, by)
        if not by.is_operator and not roles.difference({"worker"}):
            raise no_policy(id)
        return policy

    async def list(
        self,
        tx: Transaction,
        *,
        company_id: UUID | None,
        is_active: bool | None,
        by: By,
        limit: int,
        cursor: str | None,
    ) -> Page[Policy]:
        """Those of one company, or of all that somebody is a member of; to the operator all."""
        after = decode_cursor("policies", cursor).id
        if company_id is not None:
            await self._companies.get(tx, company_id, by=by)
        if company_id is None and by.person is None:
            rows = await self._store.list_policies(tx, is_active=is_active, after=after, limit=limit)
        else:
            rows = await self._store.list_policies_of_companies(
                tx,
                company_ids=await self._companies_of(tx, company_id, by),
                is_active=is_active,
                after=after,
                limit=limit,
            )
        return page_of("policies", rows, limit, policy_of)

    async def renew(self, tx: Transaction, id: UUID, expiration_date: date, *, by: By) -> Policy:
        """Valid through another date. What its end has stopped goes on, and people are warned of the new date anew."""
        before = await self._held(tx, id, by)
        today = await self._today(tx)
        if expiration_date < today:
            raise wrong_field("expiration_date", f"{expiration_date} has passed; give {today} or later")
        await self._store.renew_policy(tx, id=id, expiration_date=expiration_date)
        after = await self._read(tx, id)
        await self._record(tx, "renewed", after, by, {"before": _terms(before), "after": _terms(after)})
        await self._resume(tx, after, by)
        return after

    async def invalidate(self, tx: Transaction, id: UUID, reason: str | None, *, by: By) -> Policy:
        """Not valid any more, whatever its date. Work stops as where it has expired."""
        before = await self._held(tx, id, by)
        if not before.is_active:
            raise not_active()
        await self._store.deactivate_policy(tx, id=id)
        after = await self._read(tx, id)
        said = {"before": _terms(before), "after": _terms(after), "reason": reason}
        await self._record(tx, "invalidated", after, by, said)
        stopped = await self._stopping.stop(tx, after, by=by)
        if stopped.count:
            await self._stopping.note(tx, after, by=by)
        job = self._stopping.stop_job(after, by, is_noted=bool(stopped.count))
        await self._bell.enqueue_many(tx, [job])
        return after

    async def _held(self, tx: Transaction, id: UUID, by: By) -> Policy:
        """For somebody who may decide about it; nobody else changes insurances of its company meanwhile."""
        seen = await self.get(tx, id, by=by)
        await self._companies.administered(tx, seen.company_id, by=by)
        await self._store.lock_company(tx, id=seen.company_id)
        return await self._read(tx, id)

    async def _resume(self, tx: Transaction, policy: Policy, by: By) -> None:
        """The first bookings at once, and the others by a job."""
        passed = await self._stopping.resume(tx, policy.company_id, policy.type, by=by)
        if passed.after is not None or passed.is_busy:
            job = self._stopping.resume_job(policy.company_id, policy.type, by)
            await self._bell.enqueue_many(tx, [job])

    async def watch(self, tx: Transaction, *, by: By) -> None:
        """The tenant has its daily run, from the first insurance on."""
        if await self._store.has_monitor(tx):
            return
        await self._store.lock_monitor(tx)
        if await self._store.has_monitor(tx):
            return
        tomorrow = datetime.combine(await self._today(tx) + _DAY, time())
        change = await self._bell.schedules.create(
            tx,
            timezone="UTC",
            recurrence="FREQ=DAILY",
            start_local=tomorrow,
            steps=[Step(key="look", kind=MONITOR, offset=timedelta(0))],
            catch_up="latest",
            grace=_GRACE,
            owner=SYSTEM,
            subject="marketplace:insurance",
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        await self._store.insert_monitor(tx, schedule_id=change.schedule.id)

    async def _companies_of(self, tx: Transaction, company_id: UUID | None, by: By) -> Sequence[UUID]:
        if by.person is None:
            return [] if company_id is None else [company_id]
        ids = await self._company_store.read_company_ids(tx, person=by.person, limit=_COMPANIES_MAX)
        return [id for id in ids if company_id in (None, id)]

    async def _today(self, tx: Transaction) -> date:
        return utc_date(await self._store.read_instant(tx))

    async def _read(self, tx: Transaction, id: UUID) -> Policy:
        policy = await self._store.read_policy(tx, id=id)
        if policy is None:
            raise no_policy(id)
        return policy

    async def _record(
        self, tx: Transaction, what: str, policy: Policy, by: By, data: Mapping[str, Any]
    ) -> None:
        await self._bell.record(
            tx,
            f"insurance_policy.{what}",
            data,
            subject=policy.subject,
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        tx.after_commit.append(lambda: self._bell.tallies.add(POLICIES, what))


def _terms(policy: Policy) -> dict[str, Any]:
    return {"expiration_date": policy.expiration_date.isoformat(), "is_active": policy.is_active}
