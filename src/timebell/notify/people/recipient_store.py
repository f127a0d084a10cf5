"""The statements about recipients: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import orjson

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.models import Address
from timebell.notify.store import NotifyStore


class RecipientStore(NotifyStore):
    """Recipients with their addresses and opt-outs."""

    queries = load_queries("timebell.notify.people.sql")

    async def insert_recipient(self, session: Session, **values: object) -> bool:
        """False where the external id is another's."""
        return bool(await self._run(session, "insert_recipient", **values))

    async def lock_external_id(self, session: Session, *, tenant: str, external_id: str) -> None:
        await self._run(session, "lock_external_id", tenant=tenant, external_id=external_id)

    async def update_recipient(self, session: Session, **values: object) -> bool:
        """False where the external id is another's."""
        return bool(await self._run(session, "update_recipient", **values))

    async def lock_recipient(self, session: Session, *, tenant: str, id: UUID) -> Row | None:
        rows = await self._run(session, "lock_recipient", tenant=tenant, id=id)
        return rows[0] if rows else None

    async def read_recipient(
        self, session: Session, *, tenant: str, id: UUID | None = None, external_id: str | None = None
    ) -> Row | None:
        rows = await self._run(session, "read_recipient", tenant=tenant, id=id, external_id=external_id)
        return rows[0] if rows else None

    async def hold_living(self, session: Session, *, tenant: str, ids: list[UUID]) -> set[UUID]:
        return {row["id"] for row in await self._run(session, "hold_living", tenant=tenant, ids=ids)}

    async def read_recipients(self, session: Session, *, tenant: str, ids: list[UUID]) -> Sequence[Row]:
        return await self._run(session, "read_recipients", tenant=tenant, ids=ids)

    async def list_recipients(
        self, session: Session, *, tenant: str, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "list_recipients", tenant=tenant, after=after, limit=limit)

    async def list_recipients_back(
        self, session: Session, *, tenant: str, before: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "list_recipients_back", tenant=tenant, before=before, limit=limit)

    async def insert_addresses(
        self,
        session: Session,
        *,
        tenant: str,
        recipient_id: UUID,
        ids: list[UUID],
        addresses: Sequence[Address],
    ) -> list[UUID]:
        """Answers with the ids that the addresses have, some of them from before."""
        rows = await self._run(
            session,
            "insert_addresses",
            tenant=tenant,
            recipient_id=recipient_id,
            ids=ids,
            kinds=[one.kind for one in addresses],
            values=[one.value for one in addresses],
            details=[orjson.dumps(one.detail).decode() for one in addresses],
            verified_ats=[one.verified_at for one in addresses],
        )
        return [row["id"] for row in rows]

    async def delete_addresses(
        self, session: Session, *, tenant: str, recipient_id: UUID, ids: list[UUID]
    ) -> None:
        await self._run(session, "delete_addresses", tenant=tenant, recipient_id=recipient_id, ids=ids)

    async def insert_opt_out(
        self, session: Session, *, tenant: str, recipient_id: UUID, topic: str, channel: str, source: str
    ) -> bool:
        """Whether it is new."""
        rows = await self._run(
            session,
            "insert_opt_out",
            tenant=tenant,
            recipient_id=recipient_id,
            topic=topic,
            channel=channel,
            source=source,
        )
        return bool(rows)

    async def delete_opt_out(
        self, session: Session, *, tenant: str, recipient_id: UUID, topic: str, channel: str
    ) -> bool:
        """Whether there was one."""
        rows = await self._run(
            session, "delete_opt_out", tenant=tenant, recipient_id=recipient_id, topic=topic, channel=channel
        )
        return bool(rows)

    async def touch_recipient(self, session: Session, *, tenant: str, id: UUID) -> None:
        await self._run(session, "touch_recipient", tenant=tenant, id=id)

    async def list_held_of_recipient(
        self, session: Session, *, tenant: str, recipient_id: UUID, reasons: list[str], limit: int
    ) -> list[UUID]:
        rows = await self._run(
            session,
            "list_held_of_recipient",
            tenant=tenant,
            recipient_id=recipient_id,
            reasons=reasons,
            limit=limit,
        )
        return [row["id"] for row in rows]
