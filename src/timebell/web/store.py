"""The statements of the HTTP surface: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.statements import Statements


class WebStore(Statements):
    """Tenants, keys and kept replies."""

    queries = load_queries("timebell.web.sql")

    async def insert_tenant(self, session: Session, *, tenant: str, name: str) -> Row | None:
        """None where there is one of that name already."""
        rows = await self._run(session, "insert_tenant", tenant=tenant, name=name)
        return rows[0] if rows else None

    async def list_tenants(
        self, session: Session, *, asking: str, after: str | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "list_tenants", asking=asking, after=after, limit=limit)

    async def read_tenant(self, session: Session, *, tenant: str, asking: str) -> Row | None:
        rows = await self._run(session, "read_tenant", tenant=tenant, asking=asking)
        return rows[0] if rows else None

    async def read_quotas(self, session: Session, *, tenant: str) -> dict[str, int]:
        """The quotas that a tenant has of its own; a tenant that nobody made has none."""
        rows = await self._run(session, "read_quotas", tenant=tenant)
        return orjson.loads(rows[0]["quotas"]) if rows else {}

    async def save_quotas(self, session: Session, *, tenant: str, quotas: str) -> bool:
        return bool(await self._run(session, "save_quotas", tenant=tenant, quotas=quotas))

    async def read_usage(
        self, session: Session, *, tenant: str, jobs_max: int, schedules_max: int, recipients_max: int
    ) -> Row:
        rows = await self._run(
            session,
            "read_usage",
            tenant=tenant,
            jobs_max=jobs_max,
            schedules_max=schedules_max,
            recipients_max=recipients_max,
        )
        return rows[0]

    async def insert_api_key(self, session: Session, **columns: Any) -> Row | None:
        """None where there is a key with that digest already."""
        rows = await self._run(session, "insert_api_key", **columns)
        return rows[0] if rows else None

    async def find_api_key(self, session: Session, *, digest: bytes) -> Row | None:
        rows = await self._run(session, "find_api_key", digest=digest)
        return rows[0] if rows else None

    async def list_api_keys(
        self, session: Session, *, tenant: str, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "list_api_keys", tenant=tenant, after=after, limit=limit)

    async def revoke_api_key(self, session: Session, *, tenant: str, id: UUID) -> Row | None:
        rows = await self._run(session, "revoke_api_key", tenant=tenant, id=id)
        return rows[0] if rows else None

    async def revoke_restored_keys(self, session: Session, *, kept: bytes | None) -> int:
        rows = await self._run(session, "revoke_restored_keys", kept=kept)
        count: int = rows[0]["count"]
        return count

    async def read_key_is_usable(self, session: Session, *, tenant: str, id: UUID) -> bool:
        return bool((await self._run(session, "read_key_is_usable", tenant=tenant, id=id))[0]["is_usable"])

    async def note_api_key_use(self, session: Session, *, tenant: str, id: UUID) -> None:
        await self._run(session, "note_api_key_use", tenant=tenant, id=id)

    async def lock_reply(self, session: Session, *, name: str) -> bool:
        rows = await self._run(session, "lock_reply", name=name)
        return bool(rows[0]["is_locked"])

    async def read_reply(
        self, session: Session, *, tenant: str, caller: str, operation: str, key: str
    ) -> Row | None:
        rows = await self._run(
            session, "read_reply", tenant=tenant, caller=caller, operation=operation, key=key
        )
        return rows[0] if rows else None

    async def keep_reply(self, session: Session, **columns: Any) -> datetime:
        rows = await self._run(session, "keep_reply", **columns)
        expires_at: datetime = rows[0]["expires_at"]
        return expires_at

    async def prune_replies(self, session: Session, *, limit: int) -> int:
        rows = await self._run(session, "prune_replies", limit=limit)
        count: int = rows[0]["count"]
        return count

    async def prune_api_keys(self, session: Session, *, chosen: str, days: int, limit: int) -> int:
        rows = await self._run(session, "prune_api_keys", chosen=chosen, days=days, limit=limit)
        count: int = rows[0]["pruned_count"]
        return count

    async def erase_replies(self, session: Session, *, tenant: str, caller: str) -> None:
        await self._run(session, "erase_replies", tenant=tenant, caller=caller)

    async def read_sandbox(self, session: Session) -> datetime | None:
        rows = await self._run(session, "read_sandbox")
        return rows[0]["now_at"] if rows else None

    async def read_is_used(self, session: Session) -> bool:
        return bool((await self._run(session, "read_is_used"))[0]["is_used"])

    async def save_sandbox(self, session: Session, *, now_at: datetime) -> None:
        await self._run(session, "save_sandbox", now_at=now_at)
