"""The statements of what providers report: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.payments.provider import Report
from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction


class ReportStore(Statements):
    """Reports by the provider's own name for each."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def insert_report(self, tx: Transaction, *, provider: str, report: Report) -> bool:
        """False where it is there."""
        said = {"ref": report.ref, "state": report.state, "failure": report.failure}
        rows = await self._run(
            tx.session,
            "insert_report",
            tenant=tx.tenant,
            provider=provider,
            provider_event_id=report.event_id,
            payment_id=report.payment_id,
            report=orjson.dumps(said).decode(),
        )
        return bool(rows)

    async def read_report(self, tx: Transaction, *, provider: str, provider_event_id: str) -> Report | None:
        """None where it is not there, or was applied."""
        rows = await self._run(
            tx.session,
            "read_report",
            tenant=tx.tenant,
            provider=provider,
            provider_event_id=provider_event_id,
        )
        if not rows:
            return None
        said: Mapping[str, Any] = orjson.loads(rows[0]["report"])
        return Report(
            event_id=provider_event_id,
            tenant=tx.tenant,
            payment_id=rows[0]["payment_id"],
            ref=said["ref"],
            state=said["state"],
            failure=said["failure"],
        )

    async def close_report(
        self, tx: Transaction, *, provider: str, provider_event_id: str, answer: str
    ) -> None:
        await self._run(
            tx.session,
            "close_report",
            tenant=tx.tenant,
            provider=provider,
            provider_event_id=provider_event_id,
            answer=answer,
        )

    async def read_paid_booking(self, tx: Transaction, *, payment_id: UUID) -> UUID | None:
        rows = await self._run(tx.session, "read_paid_booking", tenant=tx.tenant, payment_id=payment_id)
        return rows[0]["booking_id"] if rows else None

    async def prune_payment_events(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_payment_events", days=days, limit=limit))
