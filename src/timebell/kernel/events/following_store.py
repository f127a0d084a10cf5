"""The statements of following events: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.statements import Statements


class FollowingStore(Statements):
    """Events in the order in which they came into sight. The numbers of transactions travel as text."""

    queries = load_queries("timebell.kernel.events.sql")

    async def read_events_after(
        self, session: Session, *, tenant: str, number: str, id: UUID, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "read_events_after", tenant=tenant, number=number, id=id, limit=limit)

    async def read_event_end(self, session: Session, *, tenant: str) -> Row:
        return (await self._run(session, "read_event_end", tenant=tenant))[0]
