"""The statements of the engine's own alert rules: one method for each file `sql/ask_*.sql`, of the same name. Each
reads a bounded part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.statements import Statements


class QuestionStore(Statements):
    """Reads, and only reads."""

    queries = load_queries("timebell.engine.watch.sql")

    async def ask_late(self, session: Session, *, limit: int) -> Sequence[Row]:
        return await self._run(session, "ask_late", limit=limit)

    async def ask_attempts(
        self, session: Session, *, seconds: float, tail: dict[str, list[Any]], limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "ask_attempts", seconds=seconds, limit=limit, **tail)

    async def ask_loops(
        self,
        session: Session,
        *,
        sweep_seconds: float,
        plan_seconds: float,
        least_seconds: float,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "ask_loops",
            sweep_seconds=sweep_seconds,
            plan_seconds=plan_seconds,
            least_seconds=least_seconds,
            limit=limit,
        )

    async def ask_held(self, session: Session, *, limit: int) -> Sequence[Row]:
        return await self._run(session, "ask_held", limit=limit)

    async def ask_clocks(self, session: Session, *, limit: int) -> Sequence[Row]:
        return await self._run(session, "ask_clocks", limit=limit)

    async def ask_breakers(self, session: Session, *, after: str, limit: int) -> Sequence[Row]:
        return await self._run(session, "ask_breakers", after=after, limit=limit)

    async def ask_parked(self, session: Session, *, after: UUID, limit: int) -> Sequence[Row]:
        return await self._run(session, "ask_parked", after=after, limit=limit)

    async def ask_missed(
        self, session: Session, *, seconds: float, rows_max: int, after: UUID, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            session, "ask_missed", seconds=seconds, rows_max=rows_max, after=after, limit=limit
        )

    async def ask_unplanned(self, session: Session) -> Row | None:
        rows = await self._run(session, "ask_unplanned")
        return rows[0] if rows else None
