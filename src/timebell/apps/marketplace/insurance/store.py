"""The statements about insurances: one method for each file in `sql/`, of the same name. What they stop has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from timebell.apps.marketplace.insurance.models import DuePolicy, Expired, Policy, Threshold
from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction

Row = Mapping[str, Any]


class PolicyStore(Statements):
    """Insurances, and who was warned of them."""

    queries = load_queries("timebell.apps.marketplace.insurance.sql")

    async def read_instant(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_instant"))[0]["now"]
        return now.astimezone(UTC)

    async def insert_policy(
        self, tx: Transaction, *, id: UUID, company_id: UUID, type: str, expiration_date: date
    ) -> None:
        await self._run(
            tx.session,
            "insert_policy",
            tenant=tx.tenant,
            id=id,
            company_id=company_id,
            type=type,
            expiration_date=expiration_date,
        )

    async def read_policy(self, tx: Transaction, *, id: UUID) -> Policy | None:
        rows = await self._run(tx.session, "read_policy", tenant=tx.tenant, id=id)
        return policy_of(rows[0]) if rows else None

    async def list_policies(
        self, tx: Transaction, *, is_active: bool | None, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_policies", tenant=tx.tenant, is_active=is_active, after=after, limit=limit
        )

    async def list_policies_of_companies(
        self,
        tx: Transaction,
        *,
        company_ids: Sequence[UUID],
        is_active: bool | None,
        after: UUID | None,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_policies_of_companies",
            tenant=tx.tenant,
            company_ids=list(company_ids),
            is_active=is_active,
            after=after,
            limit=limit,
        )

    async def lock_company(self, tx: Transaction, *, id: UUID) -> None:
        await self._run(tx.session, "lock_company", tenant=tx.tenant, id=id)

    async def share_companies(self, tx: Transaction, *, ids: Sequence[UUID]) -> None:
        await self._run(tx.session, "share_companies", tenant=tx.tenant, ids=list(ids))

    async def renew_policy(self, tx: Transaction, *, id: UUID, expiration_date: date) -> None:
        await self._run(tx.session, "renew_policy", tenant=tx.tenant, id=id, expiration_date=expiration_date)

    async def deactivate_policy(self, tx: Transaction, *, id: UUID) -> None:
        await self._run(tx.session, "deactivate_policy", tenant=tx.tenant, id=id)

    async def deactivate_expired(self, tx: Transaction, *, ids: Sequence[UUID], today: date) -> list[Expired]:
        rows = await self._run(tx.session, "deactivate_expired", tenant=tx.tenant, ids=list(ids), today=today)
        return [Expired(**row) for row in rows]

    async def replace_policies(
        self, tx: Transaction, *, company_id: UUID, type: str, replaced_by: UUID
    ) -> None:
        await self._run(
            tx.session,
            "replace_policies",
            tenant=tx.tenant,
            company_id=company_id,
            type=type,
            replaced_by=replaced_by,
        )

    async def is_covered(self, tx: Transaction, *, company_id: UUID, type: str, today: date) -> bool:
        rows = await self._run(
            tx.session, "is_covered", tenant=tx.tenant, company_id=company_id, type=type, today=today
        )
        return bool(rows[0]["is_covered"])

    async def list_wanting(
        self, tx: Transaction, *, company_ids: Sequence[UUID], today: date, limit: int
    ) -> list[tuple[UUID, str]]:
        rows = await self._run(
            tx.session,
            "list_wanting",
            tenant=tx.tenant,
            company_ids=list(company_ids),
            today=today,
            limit=limit,
        )
        return [(row["company_id"], row["type"]) for row in rows]

    async def list_due_policies(
        self, tx: Transaction, *, until: date, after_date: date, after_id: UUID, limit: int
    ) -> list[DuePolicy]:
        rows = await self._run(
            tx.session,
            "list_due_policies",
            tenant=tx.tenant,
            until=until,
            after_date=after_date,
            after_id=after_id,
            limit=limit,
        )
        return [DuePolicy(**row) for row in rows]

    async def insert_warnings(
        self,
        tx: Transaction,
        *,
        ids: Sequence[UUID],
        threshold: Threshold,
        channels: Sequence[str],
        today: date,
    ) -> list[tuple[UUID, UUID]]:
        """Who is to be warned of which, once for each pair; whoever was warned before is left out."""
        rows = await self._run(
            tx.session,
            "insert_warnings",
            tenant=tx.tenant,
            ids=list(ids),
            threshold=threshold,
            channels=list(channels),
            today=today,
        )
        return list(dict.fromkeys((row["policy_id"], row["recipient_id"]) for row in rows))

    async def lock_monitor(self, tx: Transaction) -> None:
        await self._run(tx.session, "lock_monitor", tenant=tx.tenant)

    async def has_monitor(self, tx: Transaction) -> bool:
        return bool((await self._run(tx.session, "has_monitor", tenant=tx.tenant))[0]["has_one"])

    async def insert_monitor(self, tx: Transaction, *, schedule_id: UUID) -> None:
        await self._run(tx.session, "insert_monitor", tenant=tx.tenant, schedule_id=schedule_id)

    async def erase_warnings(self, tx: Transaction, *, person: UUID) -> None:
        await self._run(tx.session, "erase_warnings", tenant=tx.tenant, person=person)

    async def prune_warnings(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_warnings", days=days, limit=limit))


def policy_of(row: Row) -> Policy:
    return Policy(**{name: row[name] for name in Policy.__dataclass_fields__})
