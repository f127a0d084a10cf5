"""The statements of the alert rules about payments: one method for each file `sql/ask_*.sql`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements

Row = Mapping[str, Any]


class PaymentQuestionStore(Statements):
    """Reads a bounded part of all tenants, and only reads."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def ask_failed_payments(
        self, session: Session, *, seconds: float, rows_max: int, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Row]:
        tenant, subject = after or ("", "")
        return await self._run(
            session,
            "ask_failed_payments",
            seconds=seconds,
            rows_max=rows_max,
            after_tenant=tenant,
            after_subject=subject,
            limit=limit,
        )

    async def ask_overdue_payments(
        self, session: Session, *, seconds: float, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Row]:
        tenant, subject = after or ("", "")
        return await self._run(
            session,
            "ask_overdue_payments",
            seconds=seconds,
            after_tenant=tenant,
            after_subject=subject,
            limit=limit,
        )
