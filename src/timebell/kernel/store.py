"""The kernel's statements: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.kernel.statements import Columns, Statements


class Store(Statements):
    """Every write and check of the verbs. Each takes the session of the transaction it is part of."""

    async def insert_jobs(
        self, session: Session, *, tenant: str, revision: int | None, columns: Columns
    ) -> Sequence[Row]:
        return await self._run(session, "insert_jobs", tenant=tenant, revision=revision, **columns)

    async def claim_keys(self, session: Session, *, tenant: str, columns: Columns) -> set[UUID]:
        return {row["job_id"] for row in await self._run(session, "claim_keys", tenant=tenant, **columns)}

    async def read_keys(self, session: Session, *, tenant: str, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "read_keys", tenant=tenant, **columns)

    async def replace_job(
        self, session: Session, *, tenant: str, id: UUID, **values: object
    ) -> Sequence[Row]:
        return await self._run(session, "replace_job", tenant=tenant, id=id, **values)

    async def cancel_jobs(
        self,
        session: Session,
        *,
        tenant: str,
        id: UUID | None,
        kind: str | None,
        key: str | None,
        subject: str | None,
        reason: str | None,
        actor: str | None,
        running: UUID | None,
        wait_ms: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "cancel_jobs",
            tenant=tenant,
            id=id,
            kind=kind,
            key=key,
            subject=subject,
            reason=reason,
            actor=actor,
            running=running,
            wait_ms=wait_ms,
        )

    async def hasten_jobs(self, session: Session, *, tenant: str, ids: list[UUID]) -> Sequence[Row]:
        return await self._run(session, "hasten_jobs", tenant=tenant, ids=ids)

    async def hasten_free_jobs(self, session: Session, *, ids: list[UUID]) -> Sequence[Row]:
        return await self._run(session, "hasten_free_jobs", ids=ids)

    async def confirm_jobs(self, session: Session, *, ids: list[UUID], versions: list[int]) -> Sequence[Row]:
        return await self._run(session, "confirm_jobs", ids=ids, versions=versions)

    async def finish_waiting(
        self, session: Session, *, tenant: str, ids: list[UUID], cursor: str | None, reason: str
    ) -> Sequence[Row]:
        return await self._run(
            session, "finish_waiting", tenant=tenant, ids=ids, cursor=cursor, reason=reason
        )

    async def lock_agenda(
        self, session: Session, *, tenant: str, subject: str, anchor: datetime | None
    ) -> Row:
        rows = await self._run(session, "lock_agenda", tenant=tenant, subject=subject, anchor=anchor)
        return rows[0]

    async def read_agenda(self, session: Session, *, tenant: str, subject: str) -> Sequence[Row]:
        return await self._run(session, "read_agenda", tenant=tenant, subject=subject)

    async def read_agenda_done(self, session: Session, *, tenant: str, subject: str) -> Sequence[Row]:
        return await self._run(session, "read_agenda_done", tenant=tenant, subject=subject)

    async def keep_steps(self, session: Session, *, ids: list[UUID], revision: int) -> None:
        await self._run(session, "keep_steps", ids=ids, revision=revision)

    async def move_steps(self, session: Session, *, revision: int, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "move_steps", revision=revision, **columns)

    async def withdraw_steps(
        self, session: Session, *, ids: list[UUID], reason: str, actor: str | None
    ) -> Sequence[Row]:
        return await self._run(session, "withdraw_steps", ids=ids, reason=reason, actor=actor)

    async def supersede_steps(self, session: Session, *, ids: list[UUID]) -> Sequence[Row]:
        return await self._run(session, "supersede_steps", ids=ids)

    async def forget_cut_off(self, session: Session, *, tenant: str, columns: Columns) -> None:
        await self._run(session, "forget_cut_off", tenant=tenant, **columns)

    async def skip_steps(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "skip_steps", **columns)

    async def lock_agendas(
        self, session: Session, *, tenant: str, subjects: list[str], anchors: list[datetime | None]
    ) -> Sequence[Row]:
        return await self._run(session, "lock_agendas", tenant=tenant, subjects=subjects, anchors=anchors)

    async def read_agendas(self, session: Session, *, tenant: str, subjects: list[str]) -> Sequence[Row]:
        return await self._run(session, "read_agendas", tenant=tenant, subjects=subjects)

    async def read_agendas_done(self, session: Session, *, tenant: str, subjects: list[str]) -> Sequence[Row]:
        return await self._run(session, "read_agendas_done", tenant=tenant, subjects=subjects)

    async def begin_agendas(self, session: Session, *, columns: Columns) -> Row:
        return (await self._run(session, "begin_agendas", **columns))[0]

    async def begin_steps(self, session: Session, *, columns: Columns) -> Sequence[Row]:
        return await self._run(session, "begin_steps", **columns)

    async def insert_event(
        self,
        session: Session,
        *,
        id: UUID,
        tenant: str,
        name: str,
        subject: str | None,
        actor: str | None,
        data: str,
        correlation_id: str | None,
        occurred_at: datetime | None,
    ) -> None:
        await self._run(
            session,
            "insert_event",
            id=id,
            tenant=tenant,
            name=name,
            subject=subject,
            actor=actor,
            data=data,
            correlation_id=correlation_id,
            occurred_at=occurred_at,
        )

    async def pause_queue(
        self, session: Session, *, queue: str, tenant: str, reason: str | None, actor: str | None
    ) -> None:
        await self._run(session, "pause_queue", queue=queue, tenant=tenant, reason=reason, actor=actor)

    async def resume_queue(self, session: Session, *, queue: str, tenant: str) -> bool:
        return bool(await self._run(session, "resume_queue", queue=queue, tenant=tenant))

    async def read_dead_kind(self, session: Session, *, tenant: str, id: UUID) -> str | None:
        rows = await self._run(session, "read_dead_kind", tenant=tenant, id=id)
        return rows[0]["kind"] if rows else None

    async def revive_jobs(self, session: Session, *, tenant: str, **filters: object) -> Sequence[Row]:
        return await self._run(session, "revive_jobs", tenant=tenant, **filters)

    async def discard_jobs(self, session: Session, *, tenant: str, **filters: object) -> Sequence[Row]:
        return await self._run(session, "discard_jobs", tenant=tenant, **filters)

    async def declare_queues(self, session: Session, *, columns: Columns) -> None:
        await self._run(session, "declare_queues", **columns)

    async def read_kinds_left(self, session: Session, *, kinds: list[str]) -> list[str]:
        return [row["kind"] for row in await self._run(session, "read_kinds_left", kinds=kinds)]

    async def declare_kinds(self, session: Session, *, payload_bytes_max: int, columns: Columns) -> None:
        await self._run(session, "declare_kinds", payload_bytes_max=payload_bytes_max, **columns)

    async def read_kind(self, session: Session, *, kind: str) -> Row | None:
        rows = await self._run(session, "read_kind", kind=kind)
        return rows[0] if rows else None

    async def read_queue(self, session: Session, *, name: str) -> Row | None:
        rows = await self._run(session, "read_queue", name=name)
        return rows[0] if rows else None

    async def read_clock(self, session: Session) -> datetime:
        now: datetime = (await self._run(session, "read_clock"))[0]["now"]
        return now
