"""The statements about the seals of the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.statements import Columns, Statements


class AuditStore(Statements):
    """Seals are added and read, and never changed."""

    queries = load_queries("timebell.kernel.events.sql")

    async def lock_seals(self, session: Session) -> bool:
        rows = await self._run(session, "lock_seals")
        return bool(rows[0]["is_locked"])

    async def read_last_sealed(self, session: Session) -> tuple[str, UUID] | None:
        rows = await self._run(session, "read_last_sealed")
        return (rows[0]["number"], rows[0]["id"]) if rows else None

    async def list_unsealed(self, session: Session, *, after: tuple[str, UUID], limit: int) -> Sequence[Row]:
        number, id = after
        return await self._run(session, "list_unsealed", number=number, id=id, limit=limit)

    async def read_seal_heads(self, session: Session, *, tenants: Sequence[str]) -> Sequence[Row]:
        return await self._run(session, "read_seal_heads", tenants=list(tenants))

    async def insert_seals(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "insert_seals", **columns)

    async def list_seals(
        self, session: Session, *, tenant: str | None, after: tuple[str, int], limit: int
    ) -> Sequence[Row]:
        after_tenant, after_number = after
        return await self._run(
            session,
            "list_seals",
            tenant=tenant,
            after_tenant=after_tenant,
            after_number=after_number,
            limit=limit,
        )

    async def count_unsealed(self, session: Session, *, tenant: str | None, overdue_seconds: float) -> Row:
        return (await self._run(session, "count_unsealed", tenant=tenant, overdue_seconds=overdue_seconds))[0]
