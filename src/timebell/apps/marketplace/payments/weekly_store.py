"""The statements of the weekly cycle: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from timebell.apps.marketplace.payments.weeks import Run
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class WeeklyStore(Statements):
    """The schedules of zones, and the bookings that each run of them goes through."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def read_time(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_time"))[0]["now"]
        return now.astimezone(UTC)

    async def lock_cycle(self, tx: Transaction, *, timezone: str) -> None:
        await self._run(tx.session, "lock_cycle", tenant=tx.tenant, timezone=timezone)

    async def read_cycle(self, tx: Transaction, *, timezone: str) -> Row | None:
        rows = await self._run(tx.session, "read_cycle", tenant=tx.tenant, timezone=timezone)
        return rows[0] if rows else None

    async def insert_cycle(self, tx: Transaction, *, timezone: str, schedules: Mapping[Run, UUID]) -> None:
        await self._run(
            tx.session,
            "insert_cycle",
            tenant=tx.tenant,
            timezone=timezone,
            payment_schedule_id=schedules["payments"],
            warning_schedule_id=schedules["warnings"],
            cutoff_schedule_id=schedules["cutoffs"],
        )

    async def list_weekly_bookings(
        self,
        tx: Transaction,
        *,
        timezone: str,
        period_start: datetime,
        funded_before: datetime | None,
        after: UUID | None,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_weekly_bookings",
            tenant=tx.tenant,
            timezone=timezone,
            period_start=period_start,
            funded_before=funded_before,
            after=after,
            limit=limit,
        )
