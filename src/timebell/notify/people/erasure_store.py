"""The statements of erasing and exporting a recipient: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class ErasureStore(NotifyStore):
    """Everything that is kept about one recipient."""

    queries = load_queries("timebell.notify.people.sql")

    async def list_open_of_recipient(
        self, session: Session, *, tenant: str, recipient_id: UUID, limit: int
    ) -> list[UUID]:
        rows = await self._run(
            session, "list_open_of_recipient", tenant=tenant, recipient_id=recipient_id, limit=limit
        )
        return [row["id"] for row in rows]

    async def erase_recipient(self, session: Session, *, tenant: str, id: UUID) -> None:
        await self._run(session, "erase_recipient", tenant=tenant, id=id)

    async def erase_messages(self, session: Session, *, tenant: str, recipient_id: UUID) -> None:
        await self._run(session, "erase_messages", tenant=tenant, recipient_id=recipient_id)

    async def lock_for_erasure(self, session: Session, *, tenant: str, id: UUID) -> bool:
        return bool(await self._run(session, "lock_for_erasure", tenant=tenant, id=id))

    async def erase_outbox(self, session: Session, *, tenant: str, recipient_id: UUID) -> None:
        await self._run(session, "erase_outbox", tenant=tenant, recipient_id=recipient_id)

    async def export_profile(self, session: Session, *, tenant: str, id: UUID) -> str | None:
        """JSON, as text."""
        rows = await self._run(session, "export_profile", tenant=tenant, id=id)
        return rows[0]["profile"] if rows else None

    async def export_notifications(
        self, session: Session, *, tenant: str, recipient_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "export_notifications",
            tenant=tenant,
            recipient_id=recipient_id,
            after=after,
            limit=limit,
        )

    async def export_inbox(
        self, session: Session, *, tenant: str, recipient_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            session, "export_inbox", tenant=tenant, recipient_id=recipient_id, after=after, limit=limit
        )
