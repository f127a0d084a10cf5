"""The statements of sequences: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.sequences.models import BookingSettings
from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction

Row = Mapping[str, Any]
Columns = dict[str, list[Any]]


class SequenceStore(Statements):
    """Sequences, the subjects that entered them, and their messages."""

    queries = load_queries("timebell.apps.sequences.sql")

    async def read_clock(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_clock"))[0]["now"]
        return now.astimezone(UTC)

    async def insert_sequence(
        self,
        tx: Transaction,
        *,
        id: UUID,
        name: str,
        trigger_event: str,
        subtype: str | None,
        is_active: bool,
    ) -> None:
        await self._run(
            tx.session,
            "insert_sequence",
            tenant=tx.tenant,
            id=id,
            name=name,
            trigger_event=trigger_event,
            subtype=subtype,
            is_active=is_active,
        )

    async def insert_version(
        self,
        tx: Transaction,
        *,
        sequence_id: UUID,
        version: int,
        conditions: str,
        steps: str,
        actor: str | None,
    ) -> None:
        await self._run(
            tx.session,
            "insert_version",
            tenant=tx.tenant,
            sequence_id=sequence_id,
            version=version,
            conditions=conditions,
            steps=steps,
            actor=actor,
        )

    async def update_sequence(
        self,
        tx: Transaction,
        *,
        id: UUID,
        name: str,
        trigger_event: str,
        subtype: str | None,
        is_active: bool,
        version: int,
    ) -> None:
        await self._run(
            tx.session,
            "update_sequence",
            tenant=tx.tenant,
            id=id,
            name=name,
            trigger_event=trigger_event,
            subtype=subtype,
            is_active=is_active,
            version=version,
        )

    async def delete_sequence(self, tx: Transaction, *, id: UUID) -> None:
        await self._run(tx.session, "delete_sequence", tenant=tx.tenant, id=id)

    async def lock_sequence(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "lock_sequence", tenant=tx.tenant, id=id))

    async def read_sequence(self, tx: Transaction, *, id: UUID) -> Row | None:
        rows = await self._run(tx.session, "read_sequence", tenant=tx.tenant, id=id)
        return rows[0] if rows else None

    async def list_sequences(
        self, tx: Transaction, *, trigger_event: str | None, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_sequences",
            tenant=tx.tenant,
            trigger_event=trigger_event,
            after=after,
            limit=limit,
        )

    async def count_sequences(self, tx: Transaction) -> int:
        return int((await self._run(tx.session, "count_sequences", tenant=tx.tenant))[0]["count"])

    async def read_listening(self, tx: Transaction, *, event: str) -> Sequence[Row]:
        return await self._run(tx.session, "read_listening", tenant=tx.tenant, event=event)

    async def insert_subjects(self, tx: Transaction, *, columns: Columns) -> set[str]:
        rows = await self._run(tx.session, "insert_subjects", tenant=tx.tenant, **columns)
        return {row["subject"] for row in rows}

    async def update_subject(self, tx: Transaction, **terms: Any) -> None:
        await self._run(tx.session, "update_subject", tenant=tx.tenant, **terms)

    async def lock_subjects(self, tx: Transaction, *, subjects: list[str]) -> set[str]:
        rows = await self._run(tx.session, "lock_subjects", tenant=tx.tenant, subjects=subjects)
        return {row["subject"] for row in rows}

    async def lock_free_subject(self, tx: Transaction, *, subject: str) -> bool:
        return bool(await self._run(tx.session, "lock_free_subject", tenant=tx.tenant, subject=subject))

    async def read_subjects(self, tx: Transaction, *, subjects: list[str]) -> Sequence[Row]:
        return await self._run(tx.session, "read_subjects", tenant=tx.tenant, subjects=subjects)

    async def list_bookings(self, tx: Transaction, *, after: UUID | None, limit: int) -> Sequence[Row]:
        return await self._run(tx.session, "list_bookings", tenant=tx.tenant, after=after, limit=limit)

    async def replace_people(self, tx: Transaction, *, columns: Columns) -> None:
        await self._run(tx.session, "replace_people", tenant=tx.tenant, **columns)

    async def insert_enrolments(self, tx: Transaction, *, columns: Columns) -> Sequence[Row]:
        return await self._run(tx.session, "insert_enrolments", tenant=tx.tenant, **columns)

    async def end_enrolments(
        self, tx: Transaction, *, subjects: list[str], reason: str, sequence_id: UUID | None = None
    ) -> None:
        await self._run(
            tx.session,
            "end_enrolments",
            tenant=tx.tenant,
            subjects=subjects,
            reason=reason,
            sequence_id=sequence_id,
        )

    async def move_enrolments(
        self, tx: Transaction, *, subjects: list[str], sequence_id: UUID, version: int
    ) -> None:
        await self._run(
            tx.session,
            "move_enrolments",
            tenant=tx.tenant,
            subjects=subjects,
            sequence_id=sequence_id,
            version=version,
        )

    async def read_enrolments(self, tx: Transaction, *, subjects: list[str]) -> Sequence[Row]:
        return await self._run(tx.session, "read_enrolments", tenant=tx.tenant, subjects=subjects)

    async def read_versions(
        self, tx: Transaction, *, sequence_ids: list[UUID], versions: list[int]
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "read_versions", tenant=tx.tenant, sequence_ids=sequence_ids, versions=versions
        )

    async def list_enrolled(
        self, tx: Transaction, *, sequence_id: UUID, version: int | None, after: str, limit: int
    ) -> list[str]:
        rows = await self._run(
            tx.session,
            "list_enrolled",
            tenant=tx.tenant,
            sequence_id=sequence_id,
            version=version,
            after=after,
            limit=limit,
        )
        return [row["subject"] for row in rows]

    async def count_enrolled(self, tx: Transaction, *, sequence_id: UUID, version: int | None) -> int:
        rows = await self._run(
            tx.session, "count_enrolled", tenant=tx.tenant, sequence_id=sequence_id, version=version
        )
        return int(rows[0]["count"])

    async def read_messages(self, tx: Transaction, *, subjects: list[str]) -> Sequence[Row]:
        return await self._run(tx.session, "read_messages", tenant=tx.tenant, subjects=subjects)

    async def read_perhaps_sent(self, tx: Transaction, *, job_ids: list[UUID]) -> set[UUID]:
        rows = await self._run(tx.session, "read_perhaps_sent", tenant=tx.tenant, job_ids=job_ids)
        return {UUID(int=row["id"].int) for row in rows}

    async def write_messages(self, tx: Transaction, *, columns: Columns) -> None:
        await self._run(tx.session, "write_messages", tenant=tx.tenant, **columns)

    async def read_wanted(self, tx: Transaction, *, id: UUID) -> Row | None:
        rows = await self._run(tx.session, "read_wanted", tenant=tx.tenant, id=id)
        return rows[0] if rows else None

    async def cancel_messages(self, tx: Transaction, *, ids: list[UUID], reasons: list[str]) -> None:
        await self._run(tx.session, "cancel_messages", tenant=tx.tenant, ids=ids, reasons=reasons)

    async def hold_settings(self, tx: Transaction) -> BookingSettings:
        rows = await self._run(tx.session, "hold_settings", tenant=tx.tenant)
        return BookingSettings(**rows[0]) if rows else BookingSettings()

    async def write_settings(self, tx: Transaction, settings: BookingSettings) -> None:
        await self._run(tx.session, "write_settings", tenant=tx.tenant, **asdict(settings))

    async def insert_application(
        self,
        tx: Transaction,
        *,
        id: UUID,
        sequence_id: UUID,
        version: int | None,
        enrolled_count: int,
        actor: str | None,
    ) -> None:
        await self._run(
            tx.session,
            "insert_application",
            tenant=tx.tenant,
            id=id,
            sequence_id=sequence_id,
            version=version,
            enrolled_count=enrolled_count,
            actor=actor,
        )

    async def note_application(
        self, tx: Transaction, *, id: UUID, done_count: int, counts: str, is_over: bool
    ) -> None:
        await self._run(
            tx.session,
            "note_application",
            tenant=tx.tenant,
            id=id,
            done_count=done_count,
            counts=counts,
            is_over=is_over,
        )

    async def read_application(self, tx: Transaction, *, id: UUID) -> Row | None:
        rows = await self._run(tx.session, "read_application", tenant=tx.tenant, id=id)
        return rows[0] if rows else None

    async def list_applications(
        self, tx: Transaction, *, sequence_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_applications",
            tenant=tx.tenant,
            sequence_id=sequence_id,
            after=after,
            limit=limit,
        )

    async def list_open_bookings(self, tx: Transaction, *, after: str, limit: int) -> list[str]:
        rows = await self._run(tx.session, "list_open_bookings", tenant=tx.tenant, after=after, limit=limit)
        return [row["subject"] for row in rows]

    async def list_subjects_of_person(
        self, tx: Transaction, *, person: UUID, after: str, limit: int
    ) -> list[str]:
        rows = await self._run(
            tx.session,
            "list_subjects_of_person",
            tenant=tx.tenant,
            person=person,
            after=after,
            limit=limit,
        )
        return [row["subject"] for row in rows]

    async def remove_person(self, tx: Transaction, *, person: UUID, subjects: list[str]) -> None:
        await self._run(tx.session, "remove_person", tenant=tx.tenant, person=person, subjects=subjects)

    async def export_person(
        self, tx: Transaction, *, person: UUID, after: UUID | None, limit: int
    ) -> list[Row]:
        rows = await self._run(
            tx.session, "export_person", tenant=tx.tenant, person=person, after=after, limit=limit
        )
        return [orjson.loads(row["line"]) for row in rows]

    async def list_messages_of_subject(
        self, tx: Transaction, *, subject: str, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_messages_of_subject",
            tenant=tx.tenant,
            subject=subject,
            after=after,
            limit=limit,
        )

    async def list_messages(self, tx: Transaction, **asked: Any) -> Sequence[Row]:
        return await self._run(tx.session, "list_messages", tenant=tx.tenant, **asked)

    async def read_message(self, tx: Transaction, *, id: UUID) -> Row | None:
        rows = await self._run(tx.session, "read_message", tenant=tx.tenant, id=id)
        return rows[0] if rows else None

    async def count_messages(self, tx: Transaction, *, sequence_id: UUID) -> Sequence[Row]:
        return await self._run(tx.session, "count_messages", tenant=tx.tenant, sequence_id=sequence_id)

    async def settle_messages(self, tx: Transaction, *, after_at: datetime, after: UUID, limit: int) -> Row:
        rows = await self._run(
            tx.session, "settle_messages", tenant=tx.tenant, after_at=after_at, after=after, limit=limit
        )
        return rows[0]

    async def prune_subjects(self, session: Session, *, days: int, limit: int) -> Sequence[Row]:
        return await self._run(session, "prune_subjects", days=days, limit=limit)

    async def delete_subjects(self, session: Session, *, tenants: list[str], subjects: list[str]) -> None:
        await self._run(session, "delete_subjects", tenants=tenants, subjects=subjects)

    async def read_next_tenant(self, session: Session, *, after: str) -> str | None:
        rows = await self._run(session, "read_next_tenant", after=after)
        return str(rows[0]["tenant"]) if rows else None

    async def list_calendar(
        self,
        tx: Transaction,
        *,
        subject: str,
        after_at: datetime | None,
        after: UUID | None,
        limit: int,
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_calendar",
            tenant=tx.tenant,
            subject=subject,
            after_at=after_at,
            after=after,
            limit=limit,
        )

    async def list_pending(self, tx: Transaction, *, before: datetime, limit: int) -> Sequence[Row]:
        return await self._run(tx.session, "list_pending", tenant=tx.tenant, before=before, limit=limit)

    async def read_standings(self, tx: Transaction, *, ids: list[UUID]) -> dict[UUID, str]:
        rows = await self._run(tx.session, "read_standings", tenant=tx.tenant, ids=ids)
        return {UUID(int=row["id"].int): row["status"] for row in rows}

    async def lock_installing(self, tx: Transaction) -> None:
        await self._run(tx.session, "lock_installing", tenant=tx.tenant)

    async def list_messages_of_person(self, tx: Transaction, *, person: UUID, **asked: Any) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_messages_of_person", tenant=tx.tenant, person=person, **asked
        )

    async def list_bookings_of_person(
        self, tx: Transaction, *, person: UUID, status: str | None, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_bookings_of_person",
            tenant=tx.tenant,
            person=person,
            status=status,
            after=after,
            limit=limit,
        )

    async def list_bookings_of_status(
        self, tx: Transaction, *, status: str, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_bookings_of_status",
            tenant=tx.tenant,
            status=status,
            after=after,
            limit=limit,
        )
