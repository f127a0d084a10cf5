"""The statements about calendars: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.meetings.calendars import CalendarImport, FeedMeeting, ImportSource
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction
from timebell.rules.calendar_busy import BusyTime

Row = Mapping[str, Any]


class CalendarStore(Statements):
    """Imported calendars, the addresses of feeds, and what those show."""

    queries = load_queries("timebell.apps.meetings.sql")

    async def insert_import(
        self, tx: Transaction, *, id: UUID, user_id: UUID, name: str, url: str | None, most: int
    ) -> bool:
        """False where the person has `most` of them."""
        rows = await self._run(
            tx.session,
            "insert_import",
            tenant=tx.tenant,
            id=id,
            user_id=user_id,
            name=name,
            url=url,
            most=most,
        )
        return bool(rows)

    async def read_import(self, tx: Transaction, *, user_id: UUID, id: UUID) -> CalendarImport | None:
        rows = await self._run(tx.session, "read_import", tenant=tx.tenant, user_id=user_id, id=id)
        return import_of(rows[0]) if rows else None

    async def list_imports(
        self, tx: Transaction, *, user_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_imports", tenant=tx.tenant, user_id=user_id, after=after, limit=limit
        )

    async def read_import_source(self, tx: Transaction, *, id: UUID) -> ImportSource | None:
        rows = await self._run(tx.session, "read_import_source", tenant=tx.tenant, id=id)
        return _source_of(rows[0]) if rows else None

    async def write_import(
        self,
        tx: Transaction,
        *,
        id: UUID,
        entries: str,
        skipped: Mapping[str, int],
        busy_count: int,
        busy_until: datetime,
        is_new: bool,
    ) -> UUID | None:
        """Whose it is; None where it is gone."""
        rows = await self._run(
            tx.session,
            "write_import",
            tenant=tx.tenant,
            id=id,
            entries=entries,
            skipped=orjson.dumps(dict(skipped)).decode(),
            busy_count=busy_count,
            busy_until=busy_until,
            is_new=is_new,
        )
        return rows[0]["user_id"] if rows else None

    async def replace_imported_busy(
        self, tx: Transaction, *, import_id: UUID, recipient_id: UUID, busy: BusyTime
    ) -> None:
        await self._run(
            tx.session,
            "replace_imported_busy",
            tenant=tx.tenant,
            import_id=import_id,
            recipient_id=recipient_id,
            start_ats=[start for start, _ in busy.spans],
            end_ats=[end for _, end in busy.spans],
        )

    async def fail_import(self, tx: Transaction, *, id: UUID, reason: str) -> None:
        await self._run(tx.session, "fail_import", tenant=tx.tenant, id=id, reason=reason)

    async def delete_import(self, tx: Transaction, *, user_id: UUID, id: UUID) -> bool:
        return bool(await self._run(tx.session, "delete_import", tenant=tx.tenant, user_id=user_id, id=id))

    async def erase_calendars(self, tx: Transaction, *, user_id: UUID) -> list[UUID]:
        rows = await self._run(tx.session, "erase_calendars", tenant=tx.tenant, user_id=user_id)
        return [row["id"] for row in rows]

    async def read_feed(self, tx: Transaction, *, recipient_id: UUID) -> int:
        rows = await self._run(tx.session, "read_feed", tenant=tx.tenant, recipient_id=recipient_id)
        return rows[0]["generation"] if rows else 1

    async def renew_feed(self, tx: Transaction, *, recipient_id: UUID) -> int:
        rows = await self._run(tx.session, "renew_feed", tenant=tx.tenant, recipient_id=recipient_id)
        generation: int = rows[0]["generation"]
        return generation

    async def list_feed_meetings(
        self, tx: Transaction, *, recipient_id: UUID, since: datetime, limit: int
    ) -> list[FeedMeeting]:
        rows = await self._run(
            tx.session,
            "list_feed_meetings",
            tenant=tx.tenant,
            recipient_id=recipient_id,
            since=since,
            limit=limit,
        )
        return [_feed_meeting_of(row) for row in rows]

    async def read_organizer(self, tx: Transaction, *, root_id: UUID) -> UUID | None:
        rows = await self._run(tx.session, "read_organizer", tenant=tx.tenant, root_id=root_id)
        return rows[0]["requester_id"] if rows else None


def import_of(row: Row) -> CalendarImport:
    values = {name: _utc(row[name]) for name in CalendarImport.__dataclass_fields__}
    return CalendarImport(**{**values, "skipped": orjson.loads(row["skipped"])})


def _source_of(row: Row) -> ImportSource:
    return ImportSource(
        user_id=row["user_id"],
        url=row["url"],
        entries=row["entries"],
        skipped=row["skipped"],
        read_at=_utc(row["read_at"]),
        now=_utc(row["now"]),
    )


def _feed_meeting_of(row: Row) -> FeedMeeting:
    return FeedMeeting(
        root_id=row["root_id"],
        sequence=row["sequence"],
        title=row["title"],
        description=row["description"],
        location=row["location"],
        start=_utc(row["accepted_start"]),
        end=_utc(row["accepted_end"]),
        updated_at=_utc(row["updated_at"]),
    )


def _utc(value: Any) -> Any:
    """A driver may answer in its connection's zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
