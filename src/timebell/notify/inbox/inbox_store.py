"""The statements of the inbox: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.models import InboxStatus
from timebell.notify.store import NotifyStore


class InboxStore(NotifyStore):
    """What recipients see in the application, and what they did with it."""

    queries = load_queries("timebell.notify.inbox.sql")

    async def show_entries(self, session: Session, *, columns: dict[str, list[Any]]) -> frozenset[int]:
        """At which positions, counted from 1, there is nobody to show it to any more."""
        rows = await self._run(session, "show_entries", **columns)
        return frozenset(row["position"] for row in rows)

    async def list_inbox(
        self,
        session: Session,
        *,
        tenant: str,
        recipient_id: UUID,
        status: InboxStatus | None,
        after: int,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "list_inbox",
            tenant=tenant,
            recipient_id=recipient_id,
            status=status,
            after=after,
            limit=limit,
        )

    async def list_inbox_back(
        self,
        session: Session,
        *,
        tenant: str,
        recipient_id: UUID,
        status: InboxStatus | None,
        before: int,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "list_inbox_back",
            tenant=tenant,
            recipient_id=recipient_id,
            status=status,
            before=before,
            limit=limit,
        )

    async def read_inbox_ends(
        self, session: Session, *, tenant: str, recipient_ids: list[UUID]
    ) -> Sequence[Row]:
        return await self._run(session, "read_inbox_ends", tenant=tenant, recipient_ids=recipient_ids)

    async def count_unseen(self, session: Session, *, tenant: str, recipient_id: UUID) -> int:
        rows = await self._run(session, "count_unseen", tenant=tenant, recipient_id=recipient_id)
        count: int = rows[0]["count"]
        return count

    async def mark_inbox(
        self, session: Session, *, tenant: str, recipient_id: UUID, ids: list[UUID], status: InboxStatus
    ) -> Sequence[Row]:
        return await self._run(
            session, "mark_inbox", tenant=tenant, recipient_id=recipient_id, ids=ids, status=status
        )

    async def mark_inbox_seen(self, session: Session, *, tenant: str, recipient_id: UUID, up_to: int) -> int:
        rows = await self._run(
            session, "mark_inbox_seen", tenant=tenant, recipient_id=recipient_id, up_to=up_to
        )
        count: int = rows[0]["count"]
        return count
