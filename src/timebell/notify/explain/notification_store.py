"""The statements that look at notifications: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class NotificationStore(NotifyStore):
    """What was told, and what became of it. Nothing here writes."""

    queries = load_queries("timebell.notify.explain.sql")

    async def read_notification(self, session: Session, *, tenant: str, id: UUID) -> Row | None:
        rows = await self._run(session, "read_notification", tenant=tenant, id=id)
        return rows[0] if rows else None

    async def list_notifications(self, session: Session, **filters: object) -> Sequence[Row]:
        return await self._run(session, "list_notifications", **filters)

    async def list_notifications_on(self, session: Session, **filters: object) -> Sequence[Row]:
        return await self._run(session, "list_notifications_on", **filters)

    async def list_attention(
        self, session: Session, *, tenant: str, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "list_attention", tenant=tenant, after=after, limit=limit)

    async def read_delivery(self, session: Session, *, tenant: str, id: UUID) -> str | None:
        """The delivery as JSON, with its attempts."""
        rows = await self._run(session, "read_delivery", tenant=tenant, id=id)
        return rows[0]["line"] if rows else None

    async def list_deliveries(self, session: Session, **filters: object) -> Sequence[Row]:
        return await self._run(session, "list_deliveries", **filters)

    async def list_deliveries_back(self, session: Session, **filters: object) -> Sequence[Row]:
        return await self._run(session, "list_deliveries_back", **filters)

    async def list_alike(
        self,
        session: Session,
        *,
        tenant: str,
        recipient_id: UUID,
        template: str,
        from_at: datetime,
        until_at: datetime,
        look_max: int,
        limit: int,
    ) -> list[UUID]:
        rows = await self._run(
            session,
            "list_alike",
            tenant=tenant,
            recipient_id=recipient_id,
            template=template,
            from_at=from_at,
            until_at=until_at,
            look_max=look_max,
            limit=limit,
        )
        return [row["id"] for row in rows]

    async def read_recent_sends(
        self, session: Session, *, tenant: str, recipient_id: UUID
    ) -> dict[str, list[datetime]]:
        """By channel; '' stands for all of them together."""
        rows = await self._run(session, "read_recent_sends", tenant=tenant, recipient_id=recipient_id)
        return {row["channel"]: list(row["sent_ats"]) for row in rows}
