"""`Workers`: who can be booked, and the search for them. Each verb takes part in the transaction that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import MATCH_SEARCHES, By
from timebell.apps.marketplace.refusals import unknown_reference, wrong_field
from timebell.apps.marketplace.staffing.access import Access
from timebell.apps.marketplace.staffing.companies import Companies
from timebell.apps.marketplace.staffing.models import Role, Worker, WorkerFilter
from timebell.apps.marketplace.staffing.refusals import (
    no_company,
    no_worker,
    not_allowed,
    worker_exists,
)
from timebell.apps.marketplace.staffing.store import StaffingStore, worker_of
from timebell.kernel import Ids, Page, Timebell, Transaction, decode_cursor, page_of
from timebell.notify import Notify

_LEADERS: Final[tuple[Role, ...]] = ("lender_admin", "lender_manager")


class Workers:
    """A person is one worker, whoever lends them. Whether they are `Listed` says only who finds them: when they are
    taken, their bookings say."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._access = Access(bell)
        self._companies = Companies(bell, notify)
        self._store = StaffingStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(
        self, tx: Transaction, company_id: UUID, recipient_id: UUID, columns: Mapping[str, Any], *, by: By
    ) -> Worker:
        """Somebody becomes a worker of a company, whom nobody finds yet, and a member of it."""
        company = await self._companies.administered(tx, company_id, by=by)
        if company.type != "lender":
            raise wrong_field("company_id", f"{company_id} borrows workers; give a company that lends them")
        if not await self._notify.recipients.hold(tx, [recipient_id]):
            raise unknown_reference("recipient_id", "recipient", recipient_id)
        id = self._ids.new()
        if not await self._store.insert_worker(
            tx, id=id, company_id=company_id, recipient_id=recipient_id, **columns
        ):
            raise worker_exists(recipient_id)
        await self._store.insert_member(tx, company_id=company_id, recipient_id=recipient_id, role="worker")
        data = {"recipient_id": str(recipient_id), "company_id": str(company_id)}
        await self._record(tx, "worker.added", id, by, data)
        return await self._read(tx, id)

    async def get(self, tx: Transaction, id: UUID, *, by: By) -> Worker:
        """One who is listed everybody sees, any other those whom they concern."""
        worker = await self._read(tx, id)
        if by.is_operator or worker.state == "Listed" or by.person == worker.recipient_id:
            return worker
        if not (await self._access.roles_in(tx, worker.company_id, by)).difference({"worker"}):
            raise no_worker(id)
        return worker

    async def change(self, tx: Transaction, id: UUID, columns: Mapping[str, Any], *, by: By) -> Worker:
        """None leaves something as it is. Bookings keep the rate that they were made with."""
        worker = await self.get(tx, id, by=by)
        roles = await self._access.roles_in(tx, worker.company_id, by)
        if not by.is_operator and roles.isdisjoint(_LEADERS):
            raise not_allowed(_LEADERS)
        await self._store.lock_worker(tx, id=id)
        before = await self._read(tx, id)
        await self._store.update_worker(tx, id=id, **columns)
        after = await self._read(tx, id)
        changed = [name for name in columns if getattr(before, name) != getattr(after, name)]
        if changed:
            data = {
                "before": {name: getattr(before, name) for name in changed},
                "after": {name: getattr(after, name) for name in changed},
            }
            event = "worker.state_changed" if "state" in changed else "worker.changed"
            recorded = await self._record(tx, event, id, by, data)
            if "state" in changed and after.state == "Listed":
                await self._tell_searches(tx, id, recorded, by)
        return after

    async def _tell_searches(self, tx: Transaction, worker: UUID, event: UUID, by: By) -> None:
        """Whoever is listed is looked for by a job, so that nobody waits for it who lists them."""
        listed_at = await self._store.read_listed_at(tx, id=worker)
        payload = {"worker_id": str(worker), "event": str(event), "listed_at": listed_at.isoformat()}
        await self._bell.enqueue(
            tx,
            MATCH_SEARCHES,
            payload,
            key=f"listed:{event}",
            subject=f"worker:{worker}",
            correlation_id=by.correlation_id,
        )

    async def search(
        self, tx: Transaction, wanted: WorkerFilter, *, by: By, limit: int, cursor: str | None
    ) -> Page[Worker]:
        """Those who are listed; of a company that somebody is a member of, those in other states too."""
        after = decode_cursor("workers", cursor).id
        if wanted.state != "Listed" and not by.is_operator:
            if wanted.company_id is None:
                raise wrong_field("company_id", f"name yours to see workers who are {wanted.state}")
            if not (await self._access.roles_in(tx, wanted.company_id, by)).difference({"worker"}):
                raise no_company(wanted.company_id)
        if wanted.company_id is not None:
            read = self._store.list_company_workers
        elif wanted.trade is not None and wanted.state == "Listed":
            read = self._store.search_workers
        else:
            read = self._store.list_workers
        return page_of("workers", await read(tx, wanted, after=after, limit=limit), limit, worker_of)

    async def _read(self, tx: Transaction, id: UUID) -> Worker:
        worker = await self._store.read_worker(tx, id=id)
        if worker is None:
            raise no_worker(id)
        return worker

    async def _record(
        self, tx: Transaction, event: str, worker: UUID, by: By, data: Mapping[str, Any]
    ) -> UUID:
        return await self._bell.record(
            tx, event, data, subject=f"worker:{worker}", actor=by.name, correlation_id=by.correlation_id
        )
