"""The statements of the scheduler: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction

Row = Mapping[str, Any]
Columns = dict[str, list[Any]]


class SchedulerStore(Statements):
    """What was asked for, and how it stands."""

    queries = load_queries("timebell.apps.scheduler.sql")

    async def read_clock(self, session: Session) -> datetime:
        now: datetime = (await self._run(session, "read_clock"))[0]["now"]
        return now.astimezone(UTC)

    async def lock_requests(self, tx: Transaction, ids: list[str]) -> Sequence[Row]:
        return await self._run(tx.session, "lock_requests", tenant=tx.tenant, ids=ids)

    async def read_standings(
        self, tx: Transaction, *, ids: list[str], payloads: list[str | None]
    ) -> Sequence[Row]:
        return await self._run(tx.session, "read_standings", tenant=tx.tenant, ids=ids, payloads=payloads)

    async def insert_requests(self, tx: Transaction, *, columns: Columns) -> int:
        """How many were; fewer where another transaction was faster with a name."""
        rows = await self._run(tx.session, "insert_requests", tenant=tx.tenant, **columns)
        return int(rows[0]["inserted_count"])

    async def replace_requests(self, tx: Transaction, *, columns: Columns) -> None:
        await self._run(tx.session, "replace_requests", tenant=tx.tenant, **columns)

    async def cancel_requests(self, tx: Transaction, ids: list[str]) -> None:
        await self._run(tx.session, "cancel_requests", tenant=tx.tenant, ids=ids)

    async def insert_tombstones(self, tx: Transaction, *, ids: list[str], numbers: list[UUID]) -> int:
        """As `insert_requests`."""
        rows = await self._run(tx.session, "insert_tombstones", tenant=tx.tenant, ids=ids, numbers=numbers)
        return int(rows[0]["inserted_count"])

    async def read_fired(self, session: Session, *, columns: Columns, bytes_max: int) -> Sequence[Row]:
        """One row for each that is asked for, in that order. The first is never left for another time."""
        return await self._run(session, "read_fired", bytes_max=bytes_max, **columns)

    async def count_fired(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        """Answers with the requests that somebody else holds, for which nothing was counted."""
        return await self._run(session, "count_fired", **columns)

    async def read_request(self, tx: Transaction, id: str) -> Row | None:
        rows = await self._run(tx.session, "read_request", tenant=tx.tenant, id=id)
        return rows[0] if rows else None

    async def list_requests(
        self,
        tx: Transaction,
        *,
        status: str | None,
        after: UUID | None,
        limit: int,
        look_max: int,
        bytes_max: int,
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_requests",
            tenant=tx.tenant,
            status=status,
            after=after,
            limit=limit,
            look_max=look_max,
            bytes_max=bytes_max,
        )

    async def read_next_tenant(self, session: Session, *, after: str) -> str | None:
        rows = await self._run(session, "read_next_tenant", after=after)
        return str(rows[0]["tenant"]) if rows else None

    async def prune_requests(self, tx: Transaction, *, days: int, after: UUID, limit: int) -> Sequence[Row]:
        """Answers with all that were looked at."""
        return await self._run(
            tx.session, "prune_requests", tenant=tx.tenant, days=days, after=after, limit=limit
        )

    async def prune_tombstones(self, session: Session, *, limit: int) -> int:
        rows = await self._run(session, "prune_tombstones", limit=limit)
        return int(rows[0]["pruned_count"])
