"""The statements about the suppression list: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class SuppressionStore(NotifyStore):
    """Addresses that nothing may be sent to."""

    queries = load_queries("timebell.notify.people.sql")

    async def insert_suppression(self, session: Session, **values: object) -> bool:
        """Whether it is new."""
        return bool(await self._run(session, "insert_suppression", **values))

    async def delete_suppression(self, session: Session, **values: object) -> bool:
        """Whether there was one."""
        return bool(await self._run(session, "delete_suppression", **values))

    async def list_suppressions(self, session: Session, **filters: object) -> Sequence[Row]:
        return await self._run(session, "list_suppressions", **filters)

    async def find_suppressions(
        self, session: Session, *, tenant: str, channel: str, address: str
    ) -> Sequence[Row]:
        return await self._run(session, "find_suppressions", tenant=tenant, channel=channel, address=address)

    async def lock_addresses(
        self, session: Session, *, tenant: str, recipient_id: UUID, is_erasure: bool
    ) -> None:
        await self._run(
            session, "lock_addresses", tenant=tenant, recipient_id=recipient_id, is_erasure=is_erasure
        )

    async def hide_suppressions(self, session: Session, *, tenant: str, recipient_id: UUID) -> None:
        await self._run(session, "hide_suppressions", tenant=tenant, recipient_id=recipient_id)

    async def show_suppressions(
        self, session: Session, *, tenant: str, channels: list[str], addresses: list[str]
    ) -> None:
        await self._run(session, "show_suppressions", tenant=tenant, channels=channels, addresses=addresses)
