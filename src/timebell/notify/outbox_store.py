"""The statements of the outbox: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.notify.provider import Channel
from timebell.notify.store import NotifyStore


class OutboxStore(NotifyStore):
    """What demo mode kept from leaving."""

    async def capture_sends(self, session: Session, *, columns: dict[str, list[Any]]) -> None:
        await self._run(session, "capture_sends", **columns)

    async def list_outbox(
        self,
        session: Session,
        *,
        tenant: str,
        recipient_id: UUID | None,
        channel: Channel | None,
        after: UUID | None,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "list_outbox",
            tenant=tenant,
            recipient_id=recipient_id,
            channel=channel,
            after=after,
            limit=limit,
        )
