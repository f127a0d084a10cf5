"""The statements of the alert rules of notify: one method for each file `sql/ask_*.sql`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class QuestionStore(NotifyStore):
    """Reads a bounded part, and only reads."""

    queries = load_queries("timebell.notify.alerts.sql")

    async def ask_deliveries(self, session: Session, *, seconds: float, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "ask_deliveries", seconds=seconds, rows_max=rows_max)

    async def ask_not_told(
        self, session: Session, *, seconds: float, rows_max: int, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Row]:
        tenant, subject = after or ("", "")
        return await self._run(
            session,
            "ask_not_told",
            seconds=seconds,
            rows_max=rows_max,
            after_tenant=tenant,
            after_subject=subject,
            limit=limit,
        )
