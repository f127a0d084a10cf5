"""`Reminders`: the verbs about what a person wants to be reminded of.

A schedule of this app is one of the kernel's, owned by the person. Each occurrence owes a notification at every offset
that is not muted; where it is a task, it has one. Each verb takes part in the transaction that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.reminders.guards import IS_OPEN
from timebell.apps.reminders.models import Details, details_of, is_deleted, owner_of, person_of
from timebell.apps.reminders.rules import context_of
from timebell.apps.reminders.tasks import Tasks
from timebell.apps.reminders.templates import TEMPLATE
from timebell.errors import NotFound
from timebell.kernel import Occurrence, Page, Schedule, ScheduleChange, Step, Timebell, Transaction
from timebell.notify import Notify, Route, Tell

# Told in the inbox whatever happens, and besides as the person prefers.
_ROUTE: Final = Route(first="preferred", also=("inbox",))
_DELETED: Final = "deleted"
_ERASED_PAGE: Final = 500
_ERASED_PAGES_MAX: Final = 200


class Reminders:
    """What people want to be reminded of."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._tasks = Tasks(bell)

    async def create(
        self,
        tx: Transaction,
        person: UUID,
        details: Details,
        *,
        when: Mapping[str, Any],
        actor: str | None,
        correlation_id: str | None,
    ) -> ScheduleChange:
        """`when` is the terms of the kernel's schedule: its timezone, start, recurrence and end."""
        change = await self._bell.schedules.create(
            tx,
            owner=owner_of(person),
            payload=details.payload(),
            steps=await self._steps(tx, person, details),
            correlation_id=correlation_id,
            actor=actor,
            **when,
        )
        await self._keep_tasks(tx, change.schedule)
        return change

    async def get(self, tx: Transaction, person: UUID, id: UUID) -> Schedule:
        try:
            found = await self._bell.schedules.get(tx, id)
        except NotFound:
            raise _no_schedule(id) from None
        if found.owner != owner_of(person):
            raise _no_schedule(id)
        return found

    async def hold(self, tx: Transaction, person: UUID, id: UUID) -> Schedule:
        """The schedule as it is; until the transaction ends nobody else changes it, or keeps its tasks."""
        await self.get(tx, person, id)
        return await self._bell.schedules.hold(tx, id)

    async def list(
        self, tx: Transaction, person: UUID, *, is_active: bool | None, limit: int, cursor: str | None
    ) -> Page[Schedule]:
        """Of those that are not active there are several sorts, so they are looked for among all."""
        page = await self._bell.schedules.list(
            tx,
            owner=owner_of(person),
            state="active" if is_active else None,
            limit=limit,
            cursor=cursor,
        )
        if is_active is False:
            return replace(page, lines=tuple(one for one in page.lines if one.state != "active"))
        return page

    async def occurrences(
        self,
        tx: Transaction,
        schedule: Schedule,
        *,
        since: datetime | None,
        before: datetime | None,
        limit: int,
        cursor: str | None,
    ) -> Page[Occurrence]:
        """Those to come, or those since an instant."""
        from_at = await self._tasks.now(tx) if since is None else since
        return await self._bell.schedules.occurrences(
            tx, schedule.id, from_at=from_at, before=before, limit=limit, cursor=cursor
        )

    async def edit(
        self,
        tx: Transaction,
        schedule: Schedule,
        details: Details,
        *,
        when: Mapping[str, Any],
        actor: str | None,
    ) -> ScheduleChange:
        """Change all that is to come. What was told of an occurrence that stays is not told again."""
        terms = {**await self._stated(tx, schedule, details), **when}
        change = await self._bell.schedules.edit(tx, schedule.id, actor=actor, **terms)
        await self._keep_tasks(tx, change.schedule)
        return change

    async def end(self, tx: Transaction, schedule: Schedule, *, actor: str | None) -> ScheduleChange | None:
        """Remind of nothing any more; None where that was said before. What is past stays readable."""
        if is_deleted(schedule):
            return None
        change = await self._bell.schedules.end(tx, schedule.id, _DELETED, actor=actor)
        await self._keep_tasks(tx, change.schedule)
        return change

    async def skip(
        self, tx: Transaction, schedule: Schedule, original_local: datetime, *, fold: int, actor: str | None
    ) -> ScheduleChange:
        """Leave one occurrence out."""
        change = await self._bell.schedules.override(
            tx, schedule.id, original_local, fold=fold, skip=True, actor=actor
        )
        await self._keep_tasks(tx, change.schedule)
        return change

    async def move(
        self,
        tx: Transaction,
        schedule: Schedule,
        original_local: datetime,
        start_local: datetime,
        *,
        fold: int,
        actor: str | None,
    ) -> ScheduleChange:
        """Have one occurrence at another time."""
        change = await self._bell.schedules.override(
            tx, schedule.id, original_local, fold=fold, start_local=start_local, actor=actor
        )
        await self._keep_tasks(tx, change.schedule)
        return change

    async def restore(
        self, tx: Transaction, schedule: Schedule, original_local: datetime, *, fold: int, actor: str | None
    ) -> ScheduleChange:
        """Have one occurrence as the recurrence gives it, after it was skipped or moved."""
        change = await self._bell.schedules.restore(tx, schedule.id, original_local, fold=fold, actor=actor)
        await self._keep_tasks(tx, change.schedule)
        return change

    async def move_following(
        self,
        tx: Transaction,
        schedule: Schedule,
        original_local: datetime,
        start_local: datetime,
        *,
        fold: int,
        actor: str | None,
    ) -> ScheduleChange:
        """Have this occurrence and all that follow at another time; a new schedule goes on with them."""
        change = await self._bell.schedules.split(
            tx, schedule.id, original_local, fold=fold, actor=actor, start_local=start_local
        )
        if change.split_from is not None:
            await self._tasks.hand_over(tx, change.split_from, change.schedule, original_local)
            await self._keep_tasks(tx, change.split_from)
        await self._keep_tasks(tx, change.schedule)
        return change

    async def skip_following(
        self, tx: Transaction, schedule: Schedule, original_local: datetime, *, fold: int, actor: str | None
    ) -> ScheduleChange:
        """Leave this occurrence and all that follow out."""
        change = await self._bell.schedules.end_before(
            tx, schedule.id, original_local, _DELETED, fold=fold, actor=actor
        )
        await self._keep_tasks(tx, change.schedule)
        return change

    async def erase(self, tx: Transaction, person: UUID) -> None:
        """Forget everything that a person had here, as it is erased."""
        cursor: str | None = None
        for _ in range(_ERASED_PAGES_MAX):
            page = await self._bell.schedules.list(
                tx, owner=owner_of(person), limit=_ERASED_PAGE, cursor=cursor
            )
            for listed in page.lines:
                # It may have changed since it was listed, and changes no more once it is held.
                schedule = await self._bell.schedules.hold(tx, listed.id)
                await self.end(tx, schedule, actor=None)
                await self._bell.schedules.forget(tx, schedule.id)
            cursor = page.next_cursor
            if cursor is None:
                break
        await self._tasks.erase(tx, person)

    async def _stated(self, tx: Transaction, schedule: Schedule, details: Details) -> dict[str, Any]:
        """What an edit states anew: only what it is about, so that jobs which say the same stay as they are."""
        if details == details_of(schedule):
            return {}
        return {
            "payload": details.payload(),
            "steps": await self._steps(tx, person_of(schedule), details),
        }

    async def _steps(self, tx: Transaction, person: UUID, details: Details) -> Sequence[Step]:
        """A reminder at each offset; one that is muted altogether has occurrences, and they owe nothing."""
        return [await self._step(tx, person, details, minutes) for minutes in details.told]

    async def _step(self, tx: Transaction, person: UUID, details: Details, minutes: int) -> Step:
        tell = Tell(
            recipient=person,
            template=TEMPLATE,
            context=context_of(details, minutes),
            channels=_ROUTE,
            guard=IS_OPEN if details.kind == "task" else None,
        )
        step = await self._notify.step(
            tx, tell, key=f"before-{minutes}", offset=timedelta(minutes=-minutes), late="skip"
        )
        return replace(step, payload={**step.payload, "offset_minutes": minutes})

    async def _keep_tasks(self, tx: Transaction, schedule: Schedule) -> None:
        await self._tasks.follow(tx, schedule, await self._tasks.keep(tx, schedule))


def _no_schedule(id: UUID) -> NotFound:
    return NotFound(f"there is no schedule {id}")
