"""The statements of the outbox: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class OutboxStore(NotifyStore):
    """What demo mode kept from leaving."""

    queries = load_queries("timebell.notify.inbox.sql")

    async def capture_sends(self, session: Session, *, columns: dict[str, list[Any]]) -> None:
        await self._run(session, "capture_sends", **columns)

    async def list_outbox(self, session: Session, **values: object) -> Sequence[Row]:
        return await self._run(session, "list_outbox", **values)

    async def list_outbox_back(self, session: Session, **values: object) -> Sequence[Row]:
        return await self._run(session, "list_outbox_back", **values)
