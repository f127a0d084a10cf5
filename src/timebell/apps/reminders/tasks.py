"""Tasks: those that people write down, and those that the occurrences of a schedule are for.

The tasks of a schedule are never counted up as it goes on. Whoever changes the schedule, and a job each time that more
of it was planned, compares the tasks with the occurrences and writes the difference. So it does not matter how often
that is done, nor what was left undone before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from timebell.apps.reminders.models import NewTask, Task, details_of, person_of
from timebell.apps.reminders.rules import TaskChanges, Wanted, settle
from timebell.apps.reminders.store import ReminderStore, task_of
from timebell.errors import NotFound
from timebell.kernel import Ids, Page, Schedule, Timebell, Transaction, decode_cursor, page_of

KEEP_TASKS: Final = "reminders.keep_tasks"
# As many tasks of one schedule as are made ahead.
AHEAD_MAX: Final = 1_000
_PAGE: Final = 500
# The planner looks each minute; what it plans has its tasks a minute later at most.
_AFTER_PLAN: Final = timedelta(minutes=1)
# New data of a timezone move occurrences, and nobody tells; within this time their tasks have followed.
_LOOK_AT_LEAST: Final = timedelta(days=7)


class Tasks:
    """The verbs. Each takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = ReminderStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(
        self,
        tx: Transaction,
        person: UUID,
        task: NewTask,
        *,
        actor: str | None,
        correlation_id: str | None = None,
    ) -> Task:
        made = await self._store.insert_task(tx, id=self._ids.new(), user_id=person, task=task)
        await self._bell.record(
            tx, "task.created", subject=f"task:{made.id}", actor=actor, correlation_id=correlation_id
        )
        return made

    async def get(self, tx: Transaction, person: UUID, id: UUID) -> Task:
        found = await self._store.read_task(tx, user_id=person, id=id)
        if found is None:
            raise NotFound(f"there is no task {id}")
        return found

    async def list(
        self,
        tx: Transaction,
        person: UUID,
        *,
        is_all: bool,
        is_completed: bool | None = None,
        newest_first: bool = False,
        limit: int,
        cursor: str | None,
    ) -> Page[Task]:
        """Those that may be seen by now, or all of them."""
        name = "tasks back" if newest_first else "tasks"
        read = self._store.list_tasks_back if newest_first else self._store.list_tasks
        rows = await read(
            tx,
            user_id=person,
            is_all=is_all,
            is_completed=is_completed,
            after=decode_cursor(name, cursor).id,
            limit=limit,
        )
        return page_of(name, rows, limit, task_of)

    async def complete(
        self,
        tx: Transaction,
        person: UUID,
        id: UUID,
        *,
        actor: str | None,
        correlation_id: str | None = None,
    ) -> Task:
        """Done. It stays done at the first instant, however often it is said."""
        if await self._store.complete_task(tx, user_id=person, id=id):
            await self._bell.record(
                tx, "task.completed", subject=f"task:{id}", actor=actor, correlation_id=correlation_id
            )
        return await self.get(tx, person, id)

    async def now(self, tx: Transaction) -> datetime:
        """The instant that the transaction takes place at."""
        return await self._store.read_clock(tx)

    async def keep(self, tx: Transaction, schedule: Schedule) -> datetime | None:
        """Bring the tasks in line with a schedule that is held. Answers with when to do so again, or None for never."""
        now = await self.now(tx)
        details = details_of(schedule)
        is_kept = details.kind == "task" and schedule.state != "ended"
        wanted = await self._wanted(tx, schedule, now) if is_kept else []
        tasks = await self._store.read_tasks_ahead(
            tx,
            schedule_id=schedule.id,
            from_at=now,
            occurrence_ids=[one.occurrence_id for one in wanted],
        )
        await self._write(tx, schedule, settle(tasks, wanted, details))
        if not is_kept:
            return None
        due = now + _LOOK_AT_LEAST
        if len(wanted) == AHEAD_MAX:
            due = wanted[AHEAD_MAX // 2].occurs_at
        elif schedule.plan_at is not None:
            # A planner that is late is looked for again after as long as it is late, and not each minute.
            late = now - max(schedule.plan_at, schedule.updated_at)
            due = max(schedule.plan_at + _AFTER_PLAN, now + late)
        return min(max(due, now + _AFTER_PLAN), now + _LOOK_AT_LEAST)

    async def follow(self, tx: Transaction, schedule: Schedule, look_at: datetime | None) -> None:
        """Have a job do so again; it goes on for as long as the schedule does."""
        if look_at is None:
            await self._bell.cancel(tx, kind=KEEP_TASKS, key=str(schedule.id), reason="no tasks to keep")
            return
        await self._bell.enqueue(
            tx,
            KEEP_TASKS,
            {"schedule_id": str(schedule.id)},
            key=str(schedule.id),
            on_conflict="replace",
            due_at=look_at,
            subject=f"schedule:{schedule.id}",
            correlation_id=schedule.correlation_id,
        )

    async def is_completed(self, tx: Transaction, occurrence_id: UUID) -> bool:
        return await self._store.read_completion(tx, occurrence_id=occurrence_id) is not None

    async def erase(self, tx: Transaction, person: UUID) -> None:
        await self._store.erase_tasks(tx, user_id=person)
        await self._store.erase_feed(tx, recipient_id=person)

    async def hand_over(self, tx: Transaction, old: Schedule, new: Schedule, from_local: datetime) -> None:
        """Have the tasks from a wall time on be those of the schedule that goes on from there."""
        await self._store.hand_over_tasks(tx, schedule_id=old.id, new_id=new.id, from_local=from_local)

    async def _wanted(self, tx: Transaction, schedule: Schedule, now: datetime) -> Sequence[Wanted]:
        wanted: list[Wanted] = []
        cursor: str | None = None
        for _ in range(AHEAD_MAX // _PAGE):
            page = await self._bell.schedules.occurrences(
                tx, schedule.id, from_at=now, limit=_PAGE, cursor=cursor
            )
            wanted += [
                Wanted(occurrence_id=one.id, original_local=one.original_local, occurs_at=one.occurs_at)
                for one in page.lines
                if one.state == "planned"
            ]
            cursor = page.next_cursor
            if cursor is None:
                break
        return wanted

    async def _write(self, tx: Transaction, schedule: Schedule, changes: TaskChanges) -> None:
        details = details_of(schedule)
        title, show_before = details.title, details.show_before_minutes
        if changes.removed:
            await self._store.remove_tasks(tx, [task.id for task in changes.removed])
        if changes.moved:
            await self._store.move_tasks(
                tx, moved=changes.moved, title=title, show_before_due_time=show_before
            )
        if changes.added:
            await self._store.add_tasks(
                tx,
                schedule_id=schedule.id,
                user_id=person_of(schedule),
                ids=list(self._ids.many(len(changes.added))),
                wanted=changes.added,
                title=title,
                show_before_due_time=show_before,
            )
        counts = {name: len(getattr(changes, name)) for name in ("added", "moved", "removed")}
        if any(counts.values()):
            await self._bell.record(
                tx,
                "tasks.kept",
                counts,
                subject=f"schedule:{schedule.id}",
                correlation_id=schedule.correlation_id,
            )
