"""The statements that remove what is old: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.notify.store import NotifyStore

Place = tuple[datetime, UUID]


class PruningStore(NotifyStore):
    """Each removes at most so many, or looks at so many."""

    async def prune_notifications(self, session: Session, *, days: int, limit: int) -> int:
        rows = await self._run(session, "prune_notifications", days=days, limit=limit)
        return int(rows[0]["pruned_count"])

    async def prune_reports(self, session: Session, *, days: int, limit: int) -> int:
        rows = await self._run(session, "prune_reports", days=days, limit=limit)
        return int(rows[0]["pruned_count"])

    async def prune_withdrawn(self, session: Session, *, days: int, after: Place, limit: int) -> Row | None:
        """Answers with the last that was looked at."""
        at, id = after
        rows = await self._run(session, "prune_withdrawn", days=days, after=at, after_id=id, limit=limit)
        return rows[0] if rows else None

    async def prune_digests(self, session: Session, *, days: int, after: Place, limit: int) -> Row | None:
        """Answers as `prune_withdrawn` does."""
        at, id = after
        rows = await self._run(session, "prune_digests", days=days, after=at, after_id=id, limit=limit)
        return rows[0] if rows else None
