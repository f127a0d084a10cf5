"""The statements about alerts: one method for each file in `sql/` that reads or writes them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.paging import Listing
from timebell.kernel.statements import Statements


class AlertStore(Statements):
    """Alerts, and whose turn it is to ask about them."""

    queries = load_queries("timebell.kernel.alerts.sql")

    async def insert_alerts(
        self,
        session: Session,
        *,
        tenant: str,
        app: str,
        rule: str,
        severity: str,
        is_of_engine: bool,
        is_by_hand: bool,
        is_open: bool,
        ids: Sequence[UUID],
        subjects: Sequence[str],
        details: Sequence[str],
    ) -> Sequence[Row]:
        """Answers with those that did not stand already."""
        return await self._run(
            session,
            "insert_alerts",
            tenant=tenant,
            app=app,
            rule=rule,
            severity=severity,
            is_of_engine=is_of_engine,
            is_by_hand=is_by_hand,
            is_open=is_open,
            ids=list(ids),
            subjects=list(subjects),
            details=list(details),
        )

    async def list_standing(
        self, session: Session, *, rule: str, after: tuple[str, str] | None, limit: int
    ) -> Sequence[Row]:
        tenant, subject = after or ("", "")
        return await self._run(
            session, "list_standing", rule=rule, after_tenant=tenant, after_subject=subject, limit=limit
        )

    async def list_standing_rules(self, session: Session) -> frozenset[str]:
        return frozenset(row["rule"] for row in await self._run(session, "list_standing_rules"))

    async def open_alerts(
        self, session: Session, *, tenant: str, ids: Sequence[UUID], details: Sequence[str]
    ) -> Sequence[Row]:
        return await self._run(session, "open_alerts", tenant=tenant, ids=list(ids), details=list(details))

    async def word_alerts(
        self, session: Session, *, tenant: str, ids: Sequence[UUID], details: Sequence[str]
    ) -> None:
        await self._run(session, "word_alerts", tenant=tenant, ids=list(ids), details=list(details))

    async def close_alerts(self, session: Session, *, tenant: str, ids: Sequence[UUID]) -> Sequence[Row]:
        return await self._run(session, "close_alerts", tenant=tenant, ids=list(ids))

    async def forget_sightings(self, session: Session, *, tenant: str, ids: Sequence[UUID]) -> None:
        await self._run(session, "forget_sightings", tenant=tenant, ids=list(ids))

    async def find_alert(self, session: Session, *, tenant: str, rule: str, subject: str) -> UUID | None:
        rows = await self._run(session, "find_alert", tenant=tenant, rule=rule, subject=subject)
        return rows[0]["id"] if rows else None

    async def acknowledge_alert(
        self, session: Session, *, tenant: str, id: UUID, actor: str, sees_engine: bool
    ) -> Row | None:
        rows = await self._run(
            session, "acknowledge_alert", tenant=tenant, id=id, actor=actor, sees_engine=sees_engine
        )
        return rows[0] if rows else None

    async def list_alerts(self, session: Session, listing: Listing, *, sees_engine: bool) -> Sequence[Row]:
        return await self._run(
            session,
            "list_alerts",
            tenant=listing.tenant,
            state=listing.state,
            sees_engine=sees_engine,
            before_at=listing.before_at,
            before=listing.before,
            look_max=listing.look_max,
            limit=listing.limit,
        )

    async def list_alerts_oldest(
        self, session: Session, listing: Listing, *, sees_engine: bool
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "list_alerts_oldest",
            tenant=listing.tenant,
            state=listing.state,
            sees_engine=sees_engine,
            after_at=listing.after_at,
            after=listing.after,
            look_max=listing.look_max,
            limit=listing.limit,
        )

    async def count_alerts(self, session: Session, *, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "count_alerts", rows_max=rows_max)

    async def take_rounds(self, session: Session, *, apps: Sequence[str], seconds: float) -> set[str]:
        rows = await self._run(session, "take_rounds", apps=sorted(apps), seconds=seconds)
        return {row["app"] for row in rows}

    async def prune_alerts(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_alerts", days=days, limit=limit))

    async def take_untold(self, session: Session, *, limit: int) -> Sequence[Row]:
        """Held by the caller's transaction, so that two nodes do not tell the same."""
        return await self._run(session, "take_untold", limit=limit)

    async def note_told(self, session: Session, *, ids: Sequence[UUID]) -> None:
        await self._run(session, "note_told", ids=list(ids))
