"""The planner's statements: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.jobs import shorten
from timebell.kernel.statements import Statements


class PlannerStore(Statements):
    """What the planner asks about many schedules at once; the rest it shares with whoever edits one."""

    queries = load_queries("timebell.engine.planner.sql")

    async def claim_schedules(self, session: Session, *, limit: int) -> Sequence[Row]:
        return await self._run(session, "claim_schedules", limit=limit)

    async def read_next_plan(self, session: Session) -> datetime | None:
        rows = await self._run(session, "read_next_plan")
        return rows[0]["plan_at"] if rows else None

    async def miss_occurrences(
        self, session: Session, *, schedule_ids: list[UUID], over_ats: list[datetime]
    ) -> dict[UUID, int]:
        columns = shorten({"over_ats": over_ats}, alike=["over_ats"])
        rows = await self._run(session, "miss_occurrences", schedule_ids=schedule_ids, **columns)
        return {row["schedule_id"]: row["missed_count"] for row in rows}

    async def park_schedules(self, session: Session, *, ids: list[UUID], reasons: list[str]) -> None:
        await self._run(session, "park_schedules", ids=ids, reasons=reasons)

    async def read_timezones(self, session: Session) -> Sequence[Row]:
        return await self._run(session, "read_timezones")

    async def raise_timezones(self, session: Session) -> None:
        await self._run(session, "raise_timezones")

    async def mark_schedules(self, session: Session, *, timezone: str, after: UUID, limit: int) -> Row:
        return (await self._run(session, "mark_schedules", timezone=timezone, after=after, limit=limit))[0]

    async def settle_timezone(self, session: Session, *, timezone: str, sha256: str) -> None:
        await self._run(session, "settle_timezone", timezone=timezone, sha256=sha256)
