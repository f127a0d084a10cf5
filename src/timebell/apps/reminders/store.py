"""The statements of reminders: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.reminders.models import NewTask, Task
from timebell.apps.reminders.rules import Linked, Wanted
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class ReminderStore(Statements):
    """Tasks, which occurrence each is for, and which address of a calendar is good."""

    queries = load_queries("timebell.apps.reminders.sql")

    async def read_clock(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_clock"))[0]["now"]
        return now.astimezone(UTC)

    async def read_tasks_ahead(
        self, tx: Transaction, *, schedule_id: UUID, from_at: datetime, occurrence_ids: list[UUID]
    ) -> list[Linked]:
        rows = await self._run(
            tx.session,
            "read_tasks_ahead",
            tenant=tx.tenant,
            schedule_id=schedule_id,
            from_at=from_at,
            occurrence_ids=occurrence_ids,
        )
        return [_linked_of(row) for row in rows]

    async def add_tasks(
        self,
        tx: Transaction,
        *,
        schedule_id: UUID,
        user_id: UUID,
        title: str,
        show_before_due_time: int,
        ids: list[UUID],
        wanted: Sequence[Wanted],
    ) -> int:
        """How many were made; for an occurrence that has one by now, none is."""
        rows = await self._run(
            tx.session,
            "add_tasks",
            tenant=tx.tenant,
            schedule_id=schedule_id,
            user_id=user_id,
            title=title,
            show_before_due_time=show_before_due_time,
            ids=ids,
            **_columns(wanted),
        )
        return len(rows)

    async def move_tasks(
        self,
        tx: Transaction,
        *,
        title: str,
        show_before_due_time: int,
        moved: Sequence[tuple[Linked, Wanted]],
    ) -> None:
        await self._run(
            tx.session,
            "move_tasks",
            tenant=tx.tenant,
            title=title,
            show_before_due_time=show_before_due_time,
            ids=[task.id for task, _ in moved],
            **_columns([one for _, one in moved]),
        )

    async def remove_tasks(self, tx: Transaction, ids: list[UUID]) -> None:
        await self._run(tx.session, "remove_tasks", tenant=tx.tenant, ids=ids)

    async def hand_over_tasks(
        self, tx: Transaction, *, schedule_id: UUID, new_id: UUID, from_local: datetime
    ) -> None:
        await self._run(
            tx.session,
            "hand_over_tasks",
            tenant=tx.tenant,
            schedule_id=schedule_id,
            new_id=new_id,
            from_local=from_local,
        )

    async def insert_task(self, tx: Transaction, *, id: UUID, user_id: UUID, task: NewTask) -> Task:
        rows = await self._run(
            tx.session,
            "insert_task",
            tenant=tx.tenant,
            id=id,
            user_id=user_id,
            title=task.title,
            description=task.description,
            category=task.category,
            duration=task.duration,
            priority=task.priority,
            due_at=task.due_at,
            show_before_due_time=task.show_before_due_time,
        )
        return task_of(rows[0])

    async def read_task(self, tx: Transaction, *, user_id: UUID, id: UUID) -> Task | None:
        rows = await self._run(tx.session, "read_task", tenant=tx.tenant, user_id=user_id, id=id)
        return task_of(rows[0]) if rows else None

    async def list_tasks(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_tasks", tenant=tx.tenant, **filters)

    async def list_tasks_back(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_tasks_back", tenant=tx.tenant, **filters)

    async def complete_task(self, tx: Transaction, *, user_id: UUID, id: UUID) -> bool:
        """False where it was completed before, or is nobody's of that name."""
        return bool(await self._run(tx.session, "complete_task", tenant=tx.tenant, user_id=user_id, id=id))

    async def read_completion(self, tx: Transaction, *, occurrence_id: UUID) -> datetime | None:
        rows = await self._run(tx.session, "read_completion", tenant=tx.tenant, occurrence_id=occurrence_id)
        return rows[0]["completed_at"] if rows else None

    async def erase_tasks(self, tx: Transaction, *, user_id: UUID) -> None:
        await self._run(tx.session, "erase_tasks", tenant=tx.tenant, user_id=user_id)

    async def export_tasks(
        self, tx: Transaction, *, user_id: UUID, after: UUID | None, limit: int
    ) -> list[Row]:
        rows = await self._run(
            tx.session, "export_tasks", tenant=tx.tenant, user_id=user_id, after=after, limit=limit
        )
        return [orjson.loads(row["line"]) for row in rows]

    async def read_feed(self, tx: Transaction, *, recipient_id: UUID) -> int:
        rows = await self._run(tx.session, "read_feed", tenant=tx.tenant, recipient_id=recipient_id)
        return rows[0]["generation"] if rows else 1

    async def renew_feed(self, tx: Transaction, *, recipient_id: UUID) -> int:
        rows = await self._run(tx.session, "renew_feed", tenant=tx.tenant, recipient_id=recipient_id)
        generation: int = rows[0]["generation"]
        return generation

    async def erase_feed(self, tx: Transaction, *, recipient_id: UUID) -> None:
        await self._run(tx.session, "erase_feed", tenant=tx.tenant, recipient_id=recipient_id)


def task_of(row: Row) -> Task:
    return Task(**{name: _utc(row[name]) for name in Task.__dataclass_fields__})


def _linked_of(row: Row) -> Linked:
    return Linked(
        id=row["id"],
        occurrence_id=row["occurrence_id"],
        original_local=row["original_local"],
        due_at=_utc(row["due_at"]),
        title=row["title"],
        show_before_due_time=row["show_before_due_time"],
        is_completed=row["completed_at"] is not None,
    )


def _columns(wanted: Sequence[Wanted]) -> dict[str, list[Any]]:
    return {
        "occurrence_ids": [one.occurrence_id for one in wanted],
        "original_locals": [one.original_local for one in wanted],
        "due_ats": [one.occurs_at for one in wanted],
    }


def _utc(value: Any) -> Any:
    """A driver may answer in its connection's zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
