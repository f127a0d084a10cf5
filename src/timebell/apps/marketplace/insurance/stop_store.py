"""The statements about what an insurance stops: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from timebell.apps.marketplace.insurance.models import Told
from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction

NIL = UUID(int=0)


class StopStore(Statements):
    """Bookings that are stopped, and whom that concerns."""

    queries = load_queries("timebell.apps.marketplace.insurance.sql")

    async def list_affected(
        self, tx: Transaction, *, company_id: UUID, type: str, since: date, after: UUID, limit: int
    ) -> dict[UUID, bool]:
        """Which they are, and whether somebody is at work there."""
        rows = await self._run(
            tx.session,
            "list_affected",
            tenant=tx.tenant,
            company_id=company_id,
            type=type,
            since=since,
            after=after,
            limit=limit,
        )
        return {row["id"]: row["is_at_work"] for row in rows}

    async def list_stopped(
        self, tx: Transaction, *, company_id: UUID, type: str, after: UUID, limit: int
    ) -> list[UUID]:
        rows = await self._run(
            tx.session,
            "list_stopped",
            tenant=tx.tenant,
            company_id=company_id,
            type=type,
            after=after,
            limit=limit,
        )
        return [row["id"] for row in rows]

    async def lock_free_bookings(self, tx: Transaction, *, ids: Sequence[UUID]) -> list[UUID]:
        rows = await self._run(tx.session, "lock_free_bookings", tenant=tx.tenant, ids=list(ids))
        return [row["id"] for row in rows]

    async def insert_stop(
        self,
        tx: Transaction,
        *,
        booking_id: UUID,
        company_id: UUID,
        type: str,
        policy_id: UUID,
        ended_work: bool,
    ) -> None:
        await self._run(
            tx.session,
            "insert_stop",
            tenant=tx.tenant,
            booking_id=booking_id,
            company_id=company_id,
            type=type,
            policy_id=policy_id,
            ended_work=ended_work,
        )

    async def delete_stop(self, tx: Transaction, *, booking_id: UUID, company_id: UUID, type: str) -> None:
        await self._run(
            tx.session,
            "delete_stop",
            tenant=tx.tenant,
            booking_id=booking_id,
            company_id=company_id,
            type=type,
        )

    async def is_stopped(self, tx: Transaction, *, booking_id: UUID) -> bool:
        rows = await self._run(tx.session, "is_stopped", tenant=tx.tenant, booking_id=booking_id)
        return bool(rows[0]["is_stopped"])

    async def list_told_of_stop(
        self, tx: Transaction, *, policy_id: UUID, after: UUID, shown_max: int, limit: int
    ) -> list[Told]:
        rows = await self._run(
            tx.session,
            "list_told_of_stop",
            tenant=tx.tenant,
            policy_id=policy_id,
            after=after,
            shown_max=shown_max,
            limit=limit,
        )
        return [Told(**row) for row in rows]

    async def list_leaders(self, tx: Transaction, *, company_id: UUID, limit: int) -> list[UUID]:
        rows = await self._run(
            tx.session, "list_leaders", tenant=tx.tenant, company_id=company_id, limit=limit
        )
        return [row["recipient_id"] for row in rows]

    async def prune_stops(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_stops", days=days, limit=limit))
