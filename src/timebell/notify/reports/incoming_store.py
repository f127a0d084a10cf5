"""The statements about reports that came in over HTTP: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class IncomingStore(NotifyStore):
    """What providers told, before anybody knows whose it is."""

    queries = load_queries("timebell.notify.reports.sql")

    async def store_incoming(self, session: Session, *, provider: str, columns: dict[str, list[Any]]) -> None:
        await self._run(session, "store_incoming", provider=provider, **columns)

    async def list_incoming(self, session: Session, *, fresh: timedelta, limit: int) -> Sequence[Row]:
        return await self._run(session, "list_incoming", fresh=fresh, limit=limit)

    async def close_incoming(self, session: Session, *, provider: str, report_ids: list[str]) -> None:
        await self._run(session, "close_incoming", provider=provider, report_ids=report_ids)
