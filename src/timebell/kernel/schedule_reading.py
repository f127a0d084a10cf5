"""Reading schedules and their occurrences, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from timebell.errors import InvalidInput, NotFound
from timebell.kernel.models import check_id, check_instant, check_name
from timebell.kernel.paging import Page, check_limit, decode_cursor, page_of
from timebell.kernel.schedule_models import STATES, Occurrence, Schedule, ScheduleState, check_choice
from timebell.kernel.schedule_rows import occurrence_of, override_of, schedule_of
from timebell.kernel.schedule_store import ScheduleStore
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.rules.planned import Override


def no_schedule(id: UUID) -> NotFound:
    return NotFound(f"this tenant has no schedule {id}")


class ScheduleReader:
    """What can be asked about schedules. Each takes a transaction and reads what its tenant has."""

    def __init__(self, store: ScheduleStore) -> None:
        self._store = store

    async def get(self, tx: Transaction, id: UUID) -> Schedule:
        check_transaction(tx)
        check_id("id", id)
        row = await self._store.read_schedule(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise no_schedule(id)
        return schedule_of(row)

    async def hold(self, tx: Transaction, id: UUID) -> Schedule:
        """As `get`; and nobody else changes it until the transaction ends."""
        check_transaction(tx)
        check_id("id", id)
        row = await self._store.lock_schedule(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise no_schedule(id)
        return schedule_of(row)

    async def overrides(self, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, list[Override]]:
        """What was changed about single occurrences, for each of some schedules of the tenant."""
        check_transaction(tx)
        rows = await self._store.read_overrides(tx.session, schedule_ids=list(ids))
        found: dict[UUID, list[Override]] = {id: [] for id in ids}
        for row in rows:
            found[row["schedule_id"]].append(override_of(row))
        return found

    async def list(
        self,
        tx: Transaction,
        *,
        owner: str | None = None,
        subject: str | None = None,
        state: ScheduleState | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Schedule]:
        """The schedules of the tenant, or those of one owner or about one subject, the oldest first."""
        check_transaction(tx)
        check_limit(limit)
        check_name("owner", owner)
        check_name("subject", subject)
        if state is not None:
            check_choice("state", state, STATES)
        if owner is not None and subject is not None:
            raise InvalidInput("give an owner or a subject, not both", field="subject")
        after = decode_cursor("schedules", cursor)
        rows = await self._store.list_schedules(
            tx.session,
            tenant=tx.tenant,
            owner=owner,
            subject=subject,
            state=state,
            after=after.id,
            limit=limit,
        )
        return page_of("schedules", rows, limit, schedule_of)

    async def occurrences(
        self,
        tx: Transaction,
        id: UUID,
        *,
        from_at: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Occurrence]:
        """The occurrences that were planned, past and future, in the order of time."""
        check_transaction(tx)
        check_id("id", id)
        check_limit(limit)
        check_instant("from_at", from_at)
        check_instant("before", before)
        after = decode_cursor("occurrences", cursor, dated=True)
        rows = await self._store.list_occurrences(
            tx.session,
            tenant=tx.tenant,
            schedule_id=id,
            from_at=from_at,
            before=before,
            after_at=after.at,
            after=after.id,
            limit=limit,
        )
        return page_of("occurrences", rows, limit, occurrence_of, at="occurs_at")
