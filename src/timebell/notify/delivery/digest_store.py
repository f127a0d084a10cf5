"""The statements of digests: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.delivery.delivery_store import Columns
from timebell.notify.models import Digest
from timebell.notify.rules.intents import Intent
from timebell.notify.store import NotifyStore


class DigestStore(NotifyStore):
    """The windows of digests and what is in them."""

    queries = load_queries("timebell.notify.delivery.sql")

    async def read_member(self, session: Session, *, tenant: str, id: UUID) -> Row:
        return (await self._run(session, "read_member", tenant=tenant, id=id))[0]

    async def open_digest(
        self,
        session: Session,
        *,
        tenant: str,
        id: UUID,
        recipient_id: UUID,
        digest: Digest,
        closes_at: datetime,
    ) -> UUID | None:
        """The id of the window, which is the one given if it is new; None where it has closed."""
        rows = await self._run(
            session,
            "open_digest",
            tenant=tenant,
            id=id,
            recipient_id=recipient_id,
            key=digest.key,
            closes=digest.closes,
            template=digest.template,
            is_sent_empty=digest.is_sent_empty,
            closes_at=closes_at,
        )
        return rows[0]["id"] if rows else None

    async def assign_digest(self, session: Session, *, tenant: str, id: UUID, notification_id: UUID) -> None:
        await self._run(session, "assign_digest", tenant=tenant, id=id, notification_id=notification_id)

    async def join_digest(
        self,
        session: Session,
        *,
        tenant: str,
        id: UUID,
        intent: Intent,
        due_at: datetime,
        before: UUID | None,
        digest_id: UUID,
        closes_at: datetime,
    ) -> Row | None:
        """None where the notification is not in the digest `before` any more, or is settled."""
        rows = await self._run(
            session,
            "join_digest",
            tenant=tenant,
            id=id,
            template=intent.template,
            template_version=intent.template_version,
            topic=intent.topic,
            message_class=intent.message_class,
            urgency=intent.urgency,
            guard=intent.guard,
            expires_at=intent.expires_at,
            context=orjson.dumps(intent.context).decode(),
            context_from=intent.context_from,
            due_at=due_at,
            before=before,
            digest_id=digest_id,
            closes_at=closes_at,
        )
        return rows[0] if rows else None

    async def lock_digest(
        self, session: Session, *, tenant: str, id: UUID, notification_id: UUID
    ) -> Row | None:
        rows = await self._run(session, "lock_digest", tenant=tenant, id=id, notification_id=notification_id)
        return rows[0] if rows else None

    async def close_digest(self, session: Session, *, tenant: str, id: UUID) -> None:
        await self._run(session, "close_digest", tenant=tenant, id=id)

    async def list_members(
        self, session: Session, *, tenant: str, digest_ids: list[UUID], limit: int
    ) -> list[UUID]:
        rows = await self._run(session, "list_members", tenant=tenant, digest_ids=digest_ids, limit=limit)
        return [row["id"] for row in rows]

    async def find_busy_members(
        self,
        session: Session,
        *,
        tenant: str,
        digest_id: UUID,
        waiting: list[UUID],
        taken: list[UUID],
        cursor: Mapping[str, Any],
    ) -> bool:
        rows = await self._run(
            session,
            "find_busy_members",
            tenant=tenant,
            digest_id=digest_id,
            waiting=waiting,
            taken=taken,
            cursor=orjson.dumps(cursor).decode(),
        )
        return bool(rows[0]["is_busy"])

    async def release_members(
        self, session: Session, *, tenant: str, digest_id: UUID, taken: list[UUID]
    ) -> None:
        await self._run(session, "release_members", tenant=tenant, digest_id=digest_id, taken=taken)

    async def read_digest_members(
        self, session: Session, *, tenant: str, digest_id: UUID, limit: int, bytes_max: int
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "read_digest_members",
            tenant=tenant,
            digest_id=digest_id,
            limit=limit,
            bytes_max=bytes_max,
        )

    async def skip_members(self, session: Session, *, tenant: str, columns: Columns) -> None:
        await self._run(session, "skip_members", tenant=tenant, **columns)

    async def list_late_members(
        self, session: Session, *, tenant: str, subject: str | None, id: UUID | None
    ) -> list[UUID]:
        rows = await self._run(session, "list_late_members", tenant=tenant, subject=subject, id=id)
        return [row["id"] for row in rows]

    async def dissolve_digests(
        self, session: Session, *, tenant: str, notification_ids: list[UUID]
    ) -> Sequence[Row]:
        return await self._run(session, "dissolve_digests", tenant=tenant, notification_ids=notification_ids)
