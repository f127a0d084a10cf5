"""The statement that the assertions ask."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries

_QUERIES = load_queries("timebell.testing.sql")


class AssertionStore:
    """Reads what is owed."""

    async def list_enqueued(self, session: Session, *, tenant: str, limit: int) -> Sequence[Row]:
        return await session.run(_QUERIES["list_enqueued"], tenant=tenant, limit=limit)
