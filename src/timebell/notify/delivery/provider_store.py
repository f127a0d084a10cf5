"""The statements about providers: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from timebell.db.pool import Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class ProviderStore(NotifyStore):
    """What is known of providers beyond one tenant's messages."""

    queries = load_queries("timebell.notify.delivery.sql")

    async def read_last_provider(self, session: Session) -> str | None:
        rows = await self._run(session, "read_last_provider")
        return rows[0]["provider"] if rows else None
