"""The statements of schedules: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.jobs.columns import shorten
from timebell.kernel.statements import Columns, Statements

LOOK_MAX = 10_000


class ScheduleStore(Statements):
    """Schedules, their occurrences, and what was changed about single ones."""

    queries = load_queries("timebell.kernel.schedules.sql")

    async def insert_schedule(self, session: Session, **values: object) -> Row:
        return (await self._run(session, "insert_schedule", **values))[0]

    async def update_schedule(self, session: Session, **values: object) -> Row:
        """Write new terms and raise the revision."""
        return (await self._run(session, "update_schedule", **values))[0]

    async def settle_schedules(
        self, session: Session, *, columns: Columns, edited_at: datetime | None
    ) -> None:
        shorten(columns, alike=["states", "settled_untils", "revisions"], absent=["state_reasons"])
        await self._run(session, "settle_schedules", edited_at=edited_at, **columns)

    async def lock_schedule(self, session: Session, *, tenant: str, id: UUID) -> Row | None:
        rows = await self._run(session, "lock_schedule", tenant=tenant, id=id)
        return rows[0] if rows else None

    async def forget_schedule(self, session: Session, *, tenant: str, id: UUID) -> bool:
        """Whether there was one that has ended."""
        return bool(await self._run(session, "forget_schedule", tenant=tenant, id=id))

    async def read_schedule(self, session: Session, *, tenant: str, id: UUID) -> Row | None:
        rows = await self._run(session, "read_schedule", tenant=tenant, id=id)
        return rows[0] if rows else None

    async def list_schedules(self, session: Session, **filters: object) -> Sequence[Row]:
        return await self._run(session, "list_schedules", look_max=LOOK_MAX, **filters)

    async def insert_occurrences(self, session: Session, *, columns: Columns) -> set[UUID]:
        """Answers with the ids of those that were there already."""
        locals_ = columns["locals"]
        if locals_ == columns["original_locals"]:
            locals_ = []
        short = {name: list(values) for name, values in columns.items()} | {"locals": locals_}
        shorten(short, alike=["tenants", "folds", "states", "revisions"], absent=["adjusteds"])
        return {row["id"] for row in await self._run(session, "insert_occurrences", **short)}

    async def update_occurrences(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "update_occurrences", **columns)

    async def delete_occurrences(self, session: Session, *, ids: list[UUID]) -> None:
        await self._run(session, "delete_occurrences", ids=ids)

    async def list_occurrences(
        self,
        session: Session,
        *,
        tenant: str,
        schedule_id: UUID,
        from_at: datetime | None,
        before: datetime | None,
        after_at: datetime | None,
        after: UUID | None,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "list_occurrences",
            tenant=tenant,
            schedule_id=schedule_id,
            from_at=from_at,
            before=before,
            after_at=after_at,
            after=after,
            limit=limit,
        )

    async def list_waiting_occurrences(
        self, session: Session, *, tenant: str, schedule_id: UUID, before: datetime, looked_at: int
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "list_waiting_occurrences",
            tenant=tenant,
            schedule_id=schedule_id,
            before=before,
            looked_at=looked_at,
        )

    async def read_overrides(self, session: Session, *, schedule_ids: list[UUID]) -> Sequence[Row]:
        return await self._run(session, "read_overrides", schedule_ids=schedule_ids)

    async def share_timezones(self, session: Session, *, timezones: list[str]) -> Sequence[Row]:
        """What is known of the data of each timezone, locked against newer ones until the transaction ends."""
        return await self._run(session, "share_timezones", timezones=timezones)

    async def add_timezones(self, session: Session, *, timezones: list[str], sha256s: list[str]) -> None:
        await self._run(session, "add_timezones", timezones=timezones, sha256s=sha256s)

    async def save_override(
        self,
        session: Session,
        *,
        schedule_id: UUID,
        original_local: datetime,
        fold: int,
        new_local: datetime | None,
        payload: str | None,
        actor: str | None,
    ) -> None:
        await self._run(
            session,
            "save_override",
            schedule_id=schedule_id,
            original_local=original_local,
            fold=fold,
            new_local=new_local,
            payload=payload,
            actor=actor,
        )

    async def delete_override(
        self, session: Session, *, schedule_id: UUID, original_local: datetime, fold: int
    ) -> bool:
        """Whether there was one."""
        return bool(
            await self._run(
                session, "delete_override", schedule_id=schedule_id, original_local=original_local, fold=fold
            )
        )

    async def move_overrides(
        self, session: Session, *, schedule_id: UUID, new_id: UUID, from_local: datetime, shift: timedelta
    ) -> None:
        await self._run(
            session,
            "move_overrides",
            schedule_id=schedule_id,
            new_id=new_id,
            from_local=from_local,
            shift=shift,
        )
