"""The statements about approved senders: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class SenderStore(NotifyStore):
    """In whose name each tenant may send."""

    queries = load_queries("timebell.notify.people.sql")

    async def approve_sender(
        self, session: Session, *, tenant: str, kind: str, value: str, actor: str | None, most: int
    ) -> Row | None:
        rows = await self._run(
            session, "approve_sender", tenant=tenant, kind=kind, value=value, actor=actor, most=most
        )
        return rows[0] if rows else None

    async def withdraw_sender(self, session: Session, *, tenant: str, kind: str, value: str) -> bool:
        return bool(await self._run(session, "withdraw_sender", tenant=tenant, kind=kind, value=value))

    async def list_senders(self, session: Session, *, tenant: str, most: int) -> Sequence[Row]:
        return await self._run(session, "list_senders", tenant=tenant, most=most)
