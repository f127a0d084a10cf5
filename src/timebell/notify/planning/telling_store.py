"""The statements of planning a notification: one method for each file, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class TellingStore(NotifyStore):
    """What is read before a notification is planned, and what is changed about it before it is told."""

    queries = load_queries("timebell.notify.planning.sql")

    async def read_told(self, session: Session, *, tenant: str, ids: Sequence[UUID]) -> Sequence[Row]:
        return await self._run(session, "read_told", tenant=tenant, ids=list(ids))

    async def withdraw_notifications(self, session: Session, *, tenant: str, ids: Sequence[UUID]) -> None:
        await self._run(session, "withdraw_notifications", tenant=tenant, ids=list(ids))

    async def mend_context(self, session: Session, *, tenant: str, id: UUID, context: str) -> bool:
        return bool(await self._run(session, "mend_context", tenant=tenant, id=id, context=context))

    async def move_template(self, session: Session, *, tenant: str, key: str, version: int) -> None:
        await self._run(session, "move_template", tenant=tenant, key=key, version=version)

    async def repin_notifications(
        self, session: Session, *, tenant: str, key: str, version: int
    ) -> Sequence[Row]:
        return await self._run(session, "repin_notifications", tenant=tenant, key=key, version=version)
