"""The statements of delivery: one method for each file, of the same name. Each serves many deliveries at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore

Columns = dict[str, list[Any]]


class DeliveryStore(NotifyStore):
    """What is read before a notification is told, and written while it is."""

    queries = load_queries("timebell.notify.delivery.sql")

    async def insert_notifications(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "insert_notifications", **columns)

    async def read_facts(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "read_facts", **columns)

    async def start_attempts(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "start_attempts", **columns)

    async def record_answers(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "record_answers", **columns)

    async def settle_withdrawn(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "settle_withdrawn", **columns)

    async def mark_addresses_gone(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "mark_addresses_gone", **columns)

    async def settle_digest_members(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "settle_digest_members", **columns)

    async def abandon_deliveries(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "abandon_deliveries", **columns)

    async def skip_deliveries(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "skip_deliveries", **columns)

    async def note_progress(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "note_progress", **columns)

    async def sum_up_reported(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        """Those that stand otherwise than their run left them."""
        return await self._run(session, "sum_up_reported", **columns)

    async def lock_recent_sends(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "lock_recent_sends", **columns)

    async def write_recent_sends(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "write_recent_sends", **columns)

    async def count_deliveries(self, session: Session) -> Row:
        return (await self._run(session, "count_deliveries"))[0]
