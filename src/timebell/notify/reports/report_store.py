"""The statements about providers' reports: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore

Columns = dict[str, list[Any]]


class ReportStore(NotifyStore):
    """What providers told afterwards, and what it changes."""

    queries = load_queries("timebell.notify.reports.sql")

    async def find_reported_deliveries(
        self,
        session: Session,
        *,
        provider: str,
        delivery_ids: list[UUID | None],
        provider_ids: list[str | None],
    ) -> Sequence[Row]:
        """For each report whose delivery is known, that delivery, with the place of the report among those asked."""
        return await self._run(
            session,
            "find_reported_deliveries",
            provider=provider,
            delivery_ids=delivery_ids,
            provider_ids=provider_ids,
        )

    async def insert_reports(
        self, session: Session, *, provider: str, tenant: str | None, columns: Columns
    ) -> set[str]:
        """The ids of those that are new."""
        rows = await self._run(session, "insert_reports", provider=provider, tenant=tenant, **columns)
        return {row["report_id"] for row in rows}

    async def lock_reported_deliveries(
        self, session: Session, *, tenant: str, ids: list[UUID]
    ) -> Sequence[Row]:
        return await self._run(session, "lock_reported_deliveries", tenant=tenant, ids=ids)

    async def apply_reports(self, session: Session, *, provider: str, tenant: str, columns: Columns) -> None:
        await self._run(session, "apply_reports", provider=provider, tenant=tenant, **columns)

    async def read_reported_notifications(
        self, session: Session, *, tenant: str, ids: list[UUID]
    ) -> Sequence[Row]:
        return await self._run(session, "read_reported_notifications", tenant=tenant, ids=ids)

    async def note_reports(self, session: Session, *, tenant: str, columns: Columns) -> None:
        await self._run(session, "note_reports", tenant=tenant, **columns)

    async def follow_digests(self, session: Session, *, tenant: str, columns: Columns) -> None:
        await self._run(session, "follow_digests", tenant=tenant, **columns)
