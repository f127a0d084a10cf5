"""The statements of the alert rules about shifts: one method for each file `sql/ask_*.sql`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements


class ShiftQuestionStore(Statements):
    """Reads a bounded part of all tenants, and only reads."""

    queries = load_queries("timebell.apps.marketplace.shifts.sql")

    async def ask_overdue_approvals(
        self, session: Session, *, seconds: float, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        tenant, subject = after or ("", "")
        return await self._run(
            session,
            "ask_overdue_approvals",
            seconds=seconds,
            after_tenant=tenant,
            after_subject=subject,
            limit=limit,
        )
