"""The statements that find out who is told about whom: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from timebell.apps.marketplace.searches.models import Cause, Listed, Match, Sort
from timebell.apps.marketplace.searches.rules import LAG, LOOKS_BACK, LOOKS_BACK_MAX, Keys
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class MatchingStore(Statements):
    """Workers and the searches that find them, both ways."""

    queries = load_queries("timebell.apps.marketplace.searches.sql")

    async def read_listed(
        self, tx: Transaction, *, id: UUID, event: UUID, listed_at: datetime
    ) -> Listed | None:
        """None where somebody is not listed any more, or was listed anew."""
        rows = await self._run(tx.session, "read_listed", tenant=tx.tenant, id=id, listed_at=listed_at)
        if not rows:
            return None
        row = rows[0]
        return Listed(
            id=row["id"],
            event=event,
            trade=row["trade"],
            zip=row["zip"],
            skills=tuple(row["skills"]),
            hourly_rate=row["hourly_rate"],
            listed_at=row["listed_at"].astimezone(UTC),
        )

    async def match_searches(
        self,
        tx: Transaction,
        *,
        worker_id: UUID,
        probes: Sequence[Keys],
        after_number: int,
        after: UUID | None,
        limit: int,
    ) -> list[Match]:
        """One more than the limit, if there are more."""
        trades, zips, skills = zip(*probes, strict=True)
        rows = await self._run(
            tx.session,
            "match_searches",
            tenant=tx.tenant,
            worker_id=worker_id,
            trade_keys=list(trades),
            zip_keys=list(zips),
            skill_keys=list(skills),
            after_number=after_number,
            after=after,
            limit=limit,
        )
        return [match_of(row, number=row["number"]) for row in rows]

    async def find_match(self, tx: Transaction, *, id: UUID, worker_id: UUID) -> Match | None:
        rows = await self._run(tx.session, "find_match", tenant=tx.tenant, id=id, worker_id=worker_id)
        return match_of(rows[0]) if rows else None

    async def read_alerts(
        self, tx: Transaction, *, search_ids: Sequence[UUID], worker_id: UUID
    ) -> frozenset[UUID]:
        rows = await self._run(
            tx.session, "read_alerts", tenant=tx.tenant, search_ids=list(search_ids), worker_id=worker_id
        )
        return frozenset(row["search_id"] for row in rows)

    async def count_alerts(self, tx: Transaction, *, user_ids: Sequence[UUID], limit: int) -> dict[UUID, int]:
        rows = await self._run(
            tx.session, "count_alerts", tenant=tx.tenant, user_ids=list(user_ids), limit=limit
        )
        return {row["user_id"]: row["count"] for row in rows}

    async def write_alerts(
        self, tx: Transaction, worker: Listed, *, matches: Sequence[Match], states: Sequence[str]
    ) -> None:
        await self._run(
            tx.session,
            "write_alerts",
            tenant=tx.tenant,
            worker_id=worker.id,
            event=worker.event,
            listed_at=worker.listed_at,
            search_ids=[match.id for match in matches],
            user_ids=[match.user_id for match in matches],
            states=list(states),
        )

    async def note_overflow(self, tx: Transaction, *, ids: Sequence[UUID]) -> None:
        await self._run(tx.session, "note_overflow", tenant=tx.tenant, ids=list(ids))

    async def forget_alert(self, tx: Transaction, *, search_id: UUID, worker_id: UUID, event: UUID) -> None:
        await self._run(
            tx.session,
            "forget_alert",
            tenant=tx.tenant,
            search_id=search_id,
            worker_id=worker_id,
            event=event,
        )

    async def insert_skips(
        self,
        tx: Transaction,
        *,
        ids: Sequence[UUID],
        search_ids: Sequence[UUID | None],
        worker_id: UUID | None,
        sort: Sort,
        cause: Cause,
        duration: timedelta,
    ) -> None:
        await self._run(
            tx.session,
            "insert_skips",
            tenant=tx.tenant,
            ids=list(ids),
            search_ids=list(search_ids),
            worker_id=worker_id,
            sort=sort,
            cause=cause,
            duration=duration,
        )

    async def list_digest_searches(
        self, tx: Transaction, *, timezone: str, after: UUID | None, limit: int
    ) -> list[tuple[UUID, UUID]]:
        """Each with the person that it belongs to."""
        rows = await self._run(
            tx.session, "list_digest_searches", tenant=tx.tenant, timezone=timezone, after=after, limit=limit
        )
        return [(row["user_id"], row["id"]) for row in rows]

    async def read_digest_searches(
        self, tx: Transaction, *, user_ids: Sequence[UUID], at: datetime, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "read_digest_searches",
            tenant=tx.tenant,
            user_ids=list(user_ids),
            at=at,
            limit=limit,
        )

    async def match_digests(
        self, tx: Transaction, *, ids: Sequence[UUID], at: datetime, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "match_digests",
            tenant=tx.tenant,
            ids=list(ids),
            at=at,
            first=at - LOOKS_BACK,
            least=at - LOOKS_BACK_MAX,
            lag=LAG,
            limit=limit,
        )

    async def settle_digests(
        self,
        tx: Transaction,
        *,
        ids: Sequence[UUID],
        founds: Sequence[bool],
        at: datetime,
        zero_max: int | None,
    ) -> frozenset[UUID]:
        """Those that have ended with it."""
        rows = await self._run(
            tx.session,
            "settle_digests",
            tenant=tx.tenant,
            ids=list(ids),
            founds=list(founds),
            at=at,
            lag=LAG,
            zero_max=zero_max,
        )
        return frozenset(row["id"] for row in rows if not row["is_active"])


def match_of(row: Row, *, number: int = 0) -> Match:
    return Match(
        id=row["id"],
        user_id=row["user_id"],
        channels=tuple(row["channels"]),
        timezone=row["timezone"],
        number=number,
    )
