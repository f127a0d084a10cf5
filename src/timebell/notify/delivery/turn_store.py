"""The statements about turns at providers with a rate: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.delivery.delivery_store import Columns
from timebell.notify.store import NotifyStore


class TurnStore(NotifyStore):
    """Who waits for which provider, and who was called."""

    queries = load_queries("timebell.notify.delivery.sql")

    async def lock_provider_rate(self, session: Session, *, provider: str) -> Row:
        return (await self._run(session, "lock_provider_rate", provider=provider))[0]

    async def write_provider_rate(self, session: Session, *, provider: str, next_free_at: datetime) -> None:
        await self._run(session, "write_provider_rate", provider=provider, next_free_at=next_free_at)

    async def read_waits(self, session: Session, *, provider: str, ids: list[UUID]) -> Sequence[Row]:
        return await self._run(session, "read_waits", provider=provider, ids=ids)

    async def insert_waits(self, session: Session, *, provider: str, columns: Columns) -> None:
        await self._run(session, "insert_waits", provider=provider, **columns)

    async def delete_waits(self, session: Session, *, provider: str, ids: list[UUID]) -> None:
        await self._run(session, "delete_waits", provider=provider, ids=ids)

    async def count_lines(
        self, session: Session, *, provider: str, tenants: list[str], most: int
    ) -> Sequence[Row]:
        return await self._run(session, "count_lines", provider=provider, tenants=tenants, most=most)

    async def read_lines(
        self,
        session: Session,
        *,
        provider: str,
        tried: list[UUID],
        each: int,
        tenants_max: int,
        called_max: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "read_lines",
            provider=provider,
            tried=tried,
            each=each,
            tenants_max=tenants_max,
            called_max=called_max,
        )

    async def call_waits(self, session: Session, *, provider: str, columns: Columns) -> None:
        await self._run(session, "call_waits", provider=provider, **columns)

    async def keep_places(self, session: Session, *, provider: str, columns: Columns) -> None:
        await self._run(session, "keep_places", provider=provider, **columns)

    async def drop_waits(
        self, session: Session, *, provider: str, patience: timedelta, expected: timedelta
    ) -> int:
        rows = await self._run(session, "drop_waits", provider=provider, patience=patience, expected=expected)
        return int(rows[0]["count"])

    async def sweep_waits(self, session: Session, *, provider: str, after: UUID | None, most: int) -> Row:
        return (await self._run(session, "sweep_waits", provider=provider, after=after, most=most))[0]

    async def delete_turns(self, session: Session, *, provider: str) -> None:
        await self._run(session, "delete_turns", provider=provider)
