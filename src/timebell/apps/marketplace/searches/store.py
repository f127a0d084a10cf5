"""The statements about searches themselves: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.searches.models import SavedSearch, SearchSettings
from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction

Row = Mapping[str, Any]


class SearchStore(Statements):
    """Searches of people, what a tenant has decided, and the schedules of zones."""

    queries = load_queries("timebell.apps.marketplace.searches.sql")

    async def insert_search(self, tx: Transaction, *, id: UUID, **columns: object) -> None:
        await self._run(tx.session, "insert_search", tenant=tx.tenant, id=id, **columns)

    async def update_search(self, tx: Transaction, *, id: UUID, **columns: object) -> None:
        await self._run(tx.session, "update_search", tenant=tx.tenant, id=id, **columns)

    async def read_search(self, tx: Transaction, *, id: UUID) -> SavedSearch | None:
        rows = await self._run(tx.session, "read_search", tenant=tx.tenant, id=id)
        return search_of(rows[0]) if rows else None

    async def list_searches(
        self, tx: Transaction, *, user_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_searches", tenant=tx.tenant, user_id=user_id, after=after, limit=limit
        )

    async def lock_user(self, tx: Transaction, *, user_ids: Sequence[UUID]) -> None:
        """In one order, so that nobody waits in a circle."""
        await self._run(tx.session, "lock_user", tenant=tx.tenant, user_ids=sorted(set(user_ids)))

    async def count_searches(self, tx: Transaction, *, user_id: UUID) -> int:
        rows = await self._run(tx.session, "count_searches", tenant=tx.tenant, user_id=user_id)
        count: int = rows[0]["count"]
        return count

    async def delete_search(self, tx: Transaction, *, id: UUID) -> None:
        await self._run(tx.session, "delete_search", tenant=tx.tenant, id=id)

    async def delete_searches_of_person(self, tx: Transaction, *, person: UUID) -> None:
        await self._run(tx.session, "delete_searches_of_person", tenant=tx.tenant, person=person)

    async def read_search_settings(self, tx: Transaction) -> SearchSettings:
        rows = await self._run(tx.session, "read_search_settings", tenant=tx.tenant)
        return SearchSettings(**rows[0]) if rows else SearchSettings()

    async def write_search_settings(self, tx: Transaction, settings: SearchSettings) -> None:
        await self._run(
            tx.session,
            "write_search_settings",
            tenant=tx.tenant,
            alerts_per_hour=settings.alerts_per_hour,
            in_quiet_hours=settings.in_quiet_hours,
            database_minutes=settings.database_minutes,
            extension_minutes=settings.extension_minutes,
            zero_digests_max=settings.zero_digests_max,
        )

    async def read_hour(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_hour"))[0]["now"]
        return now.astimezone(UTC)

    async def lock_digest_cycle(self, tx: Transaction, *, timezone: str) -> None:
        await self._run(tx.session, "lock_digest_cycle", tenant=tx.tenant, timezone=timezone)

    async def has_digest_cycle(self, tx: Transaction, *, timezone: str) -> bool:
        rows = await self._run(tx.session, "has_digest_cycle", tenant=tx.tenant, timezone=timezone)
        return bool(rows[0]["is_there"])

    async def insert_digest_cycle(self, tx: Transaction, *, timezone: str, schedule_id: UUID) -> None:
        await self._run(
            tx.session, "insert_digest_cycle", tenant=tx.tenant, timezone=timezone, schedule_id=schedule_id
        )

    async def move_timezone(self, tx: Transaction, *, user_id: UUID, timezone: str) -> None:
        await self._run(tx.session, "move_timezone", tenant=tx.tenant, user_id=user_id, timezone=timezone)

    async def prune_alerts(self, session: Session, *, limit: int) -> int:
        return len(await self._run(session, "prune_alerts", limit=limit))

    async def prune_skips(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_skips", days=days, limit=limit))


def search_of(row: Row) -> SavedSearch:
    plain = {name: _utc(row[name]) for name in SavedSearch.__dataclass_fields__}
    criteria = orjson.loads(row["criteria"])
    return SavedSearch(**{**plain, "criteria": criteria, "channels": tuple(row["channels"])})


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
