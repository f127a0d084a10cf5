"""The statements of alert rules and a gauge about the insurances of all tenants: one method for each file
`sql/ask_*.sql` and `sql/count_*.sql`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements

Row = Mapping[str, Any]


class InsuranceQuestionStore(Statements):
    """Only reads. What the daily run has left undone is answered with one row for each tenant: how many insurances, and
    the first of their dates. `seconds` after midnight are left to the run."""

    queries = load_queries("timebell.apps.marketplace.insurance.sql")

    async def ask_expired_active(
        self, session: Session, *, seconds: float, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Row]:
        """Those that have ended and are active all the same."""
        tenant, _ = after or ("", "")
        return await self._run(
            session, "ask_expired_active", seconds=seconds, after_tenant=tenant, limit=limit
        )

    async def ask_unwarned(
        self, session: Session, *, seconds: float, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Row]:
        """Those that end soon and of which nobody was warned."""
        tenant, _ = after or ("", "")
        return await self._run(session, "ask_unwarned", seconds=seconds, after_tenant=tenant, limit=limit)

    async def count_expiring(self, session: Session) -> Mapping[str, float]:
        """By the days that are left."""
        (row,) = await self._run(session, "count_expiring")
        return {
            "expired": row["expired"],
            "0-7": row["week"],
            "8-14": row["fortnight"],
            "15-30": row["month"],
        }
