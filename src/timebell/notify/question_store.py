"""What the rules for alerts ask of notify."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.db.pool import Row, Session
from timebell.notify.store import NotifyStore


class QuestionStore(NotifyStore):
    """Reads a bounded part, and only reads."""

    async def ask_deliveries(self, session: Session, *, seconds: float, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "ask_deliveries", seconds=seconds, rows_max=rows_max)
