"""The statements of magic links: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from timebell.apps.marketplace.tokens.models import Found, MagicLink
from timebell.apps.marketplace.tokens.rules import standing_of
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction


class TokenStore(Statements):
    """Links by the hash of what they say, and the schedule that cleans them."""

    queries = load_queries("timebell.apps.marketplace.tokens.sql")

    async def insert_token(
        self, tx: Transaction, *, id: UUID, user_id: UUID, token_hash: bytes, minutes: int
    ) -> MagicLink:
        rows = await self._run(
            tx.session,
            "insert_token",
            tenant=tx.tenant,
            id=id,
            user_id=user_id,
            token_hash=token_hash,
            minutes=minutes,
        )
        return _link_of(rows[0])

    async def lock_token(self, tx: Transaction, *, token_hash: bytes) -> Found | None:
        rows = await self._run(tx.session, "lock_token", tenant=tx.tenant, token_hash=token_hash)
        if not rows:
            return None
        link, row = _link_of(rows[0]), rows[0]
        standing = standing_of(used=row["used"], expires_at=row["expires_at"], now=row["now"])
        return Found(link=link, standing=standing)

    async def use_token(self, tx: Transaction, *, id: UUID) -> datetime | None:
        """None where somebody was faster."""
        rows = await self._run(tx.session, "use_token", tenant=tx.tenant, id=id)
        return rows[0]["used_at"].astimezone(UTC) if rows else None

    async def delete_tokens(self, tx: Transaction, *, limit: int) -> tuple[int, int]:
        """How many, and how many of these had expired."""
        row = (await self._run(tx.session, "delete_tokens", tenant=tx.tenant, limit=limit))[0]
        return row["deleted"], row["expired"]

    async def delete_tokens_of_person(self, tx: Transaction, *, person: UUID) -> None:
        await self._run(tx.session, "delete_tokens_of_person", tenant=tx.tenant, person=person)

    async def lock_cleaning(self, tx: Transaction) -> None:
        await self._run(tx.session, "lock_cleaning", tenant=tx.tenant)

    async def has_cleaning(self, tx: Transaction) -> bool:
        return bool((await self._run(tx.session, "has_cleaning", tenant=tx.tenant))[0]["is_there"])

    async def insert_cleaning(self, tx: Transaction, *, schedule_id: UUID) -> None:
        await self._run(tx.session, "insert_cleaning", tenant=tx.tenant, schedule_id=schedule_id)

    async def read_instant(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_instant"))[0]["now"]
        return now.astimezone(UTC)


def _link_of(row: Mapping[str, Any]) -> MagicLink:
    return MagicLink(**{name: _utc(row[name]) for name in MagicLink.__dataclass_fields__})


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
