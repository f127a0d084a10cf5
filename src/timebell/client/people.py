"""The client for one person: their inbox and its stream, and with the app `reminders` their schedules and tasks.

The names of the fields are those that are served, which are the source's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict, Unpack
from uuid import UUID

import httpx2
import orjson
from pydantic import AwareDatetime, NaiveDatetime

from timebell.client.calling import Caller, NoAnswer, ReadAnew, Refused, is_for_later
from timebell.client.records import Record
from timebell.client.resources import every

InboxStatus = Literal["unseen", "seen", "archived"]


class InboxEntry(Record):
    """What a person is shown. `seq` rises with each entry; `due_at` is the instant at which it was owed."""

    id: UUID
    seq: int
    type: str
    title: str
    description: str
    status: str
    priority: str
    payload: dict[str, Any]
    subject: str | None
    due_at: AwareDatetime
    created_at: AwareDatetime
    updated_at: AwareDatetime


class _Reminding(TypedDict, total=False):
    rrule: str | None
    until_local: datetime | None
    show_before_minutes: int
    notify_offsets_min: Sequence[int] | None
    muted_offsets_min: Sequence[int]


class ReminderTerms(_Reminding, total=False):
    """Offsets are minutes before each occurrence."""

    kind: Literal["reminder", "task"]
    title: str
    tz: str
    start_local: datetime


class NewReminder(_Reminding):
    kind: Required[Literal["reminder", "task"]]
    title: Required[str]
    tz: Required[str]
    start_local: Required[datetime]


class ReminderSchedule(Record):
    """What somebody is reminded of. `rev` counts its changes; one that was deleted is not `active`."""

    id: UUID
    user_id: UUID
    kind: str
    title: str
    tz: str
    start_local: NaiveDatetime
    rrule: str | None
    until_local: NaiveDatetime | None
    show_before_minutes: int
    notify_offsets_min: list[int]
    muted_offsets_min: list[int]
    active: bool
    rev: int
    last_materialized_until: AwareDatetime | None
    created_at: AwareDatetime
    updated_at: AwareDatetime


class ReminderChange(Record):
    occurrence_id: UUID
    original_local: NaiveDatetime
    occurs_at: AwareDatetime
    was_at: AwareDatetime | None
    offsets_min: list[int]


class ReminderDiff(Record):
    kept: list[ReminderChange]
    moved: list[ReminderChange]
    added: list[ReminderChange]
    withdrawn: list[ReminderChange]
    too_late: list[ReminderChange]


class ChangedReminderSchedule(ReminderSchedule):
    """A schedule after a change. `split_from` is the one that ended where this one goes on."""

    diff: ReminderDiff
    warnings: list[str]
    split_from: UUID | None


class ReminderOccurrence(Record):
    id: UUID
    schedule_id: UUID
    occurs_at: AwareDatetime
    original_local: NaiveDatetime
    local: NaiveDatetime
    fold: int
    state: str
    adjusted: str | None
    rev: int


class NewTask(TypedDict, total=False):
    title: Required[str]
    description: str
    category: str | None
    duration: int | None
    priority: str | None
    due_at: datetime | None
    show_before_due_time: int | None


class Task(Record):
    """Something to do. One that a schedule made names the occurrence that it is for."""

    id: UUID
    user_id: UUID
    title: str
    description: str
    category: str | None
    duration: int | None
    priority: str | None
    due_at: AwareDatetime | None
    show_before_due_time: int | None
    visible_from: AwareDatetime | None
    completed_at: AwareDatetime | None
    schedule_id: UUID | None
    occurrence_id: UUID | None
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Inbox:
    """`/v1/inbox`."""

    def __init__(self, caller: Caller, actor: UUID | None) -> None:
        self._caller = caller
        self._actor = actor

    def list(
        self, *, status: InboxStatus | None = None, newest_first: bool = False
    ) -> AsyncIterator[InboxEntry]:
        query = {"status": status, "sort": "-seq" if newest_first else None}
        return every(self._caller, InboxEntry, "/v1/inbox", query, self._actor)

    async def count_unseen(self) -> int:
        answer = await self._caller.call("GET", "/v1/inbox/count", actor=self._actor)
        return int(answer["unseen"])

    async def mark(self, id: UUID, status: InboxStatus) -> InboxEntry:
        body = {"status": status}
        return InboxEntry.model_validate(
            await self._caller.call("PATCH", f"/v1/inbox/{id}", body=body, actor=self._actor)
        )

    async def mark_all_seen(self, *, up_to: int | None = None) -> int:
        """Everything unseen, up to the last `seq` that was shown; how many those were."""
        body = {"up_to": up_to}
        answer = await self._caller.call("POST", "/v1/inbox/seen-all", body=body, actor=self._actor)
        return int(answer["seen"])

    async def stream(self, *, after: int | None = None) -> AsyncIterator[InboxEntry]:
        """Entries as they come, for as long as you take them: each once and in order, over every lost connection and
        restart. `after` is the last `seq` that you have, 0 for all; without it, what comes from now on.

        `ReadAnew` is raised where what you have is not what is there, as after a restore; `NoAnswer` where the server
        stays away, and `Refused` where it will not have you any more.
        """
        last_id = None if after is None else str(after)
        failures = 0
        while True:
            failures += 1
            retry_after = ""
            try:
                async with self._caller.stream(
                    "/v1/inbox/stream", actor=self._actor, last_id=last_id
                ) as events:
                    async for event in events:
                        failures = 0
                        last_id = event.id or last_id
                        if event.event == "resync":
                            raise ReadAnew(event.id)
                        if event.event == "end":
                            break
                        if event.data:
                            yield InboxEntry.model_validate(orjson.loads(event.data))
                if failures >= self._caller.attempts:
                    raise NoAnswer(f"the stream ended {failures} times in a row without a word")
            except httpx2.TransportError as error:
                failures = max(failures, 1)
                if failures >= self._caller.attempts:
                    raise NoAnswer(f"the stream was lost {failures} times in a row: {error}") from error
            except Refused as error:
                retry_after = error.retry_after
                if not is_for_later(error) or failures >= self._caller.attempts:
                    raise
            await self._caller.wait(failures + 1, retry_after)


class PersonSchedules:
    """`/api/schedules`: what the person wants to be reminded of."""

    def __init__(self, caller: Caller, actor: UUID | None) -> None:
        self._caller = caller
        self._actor = actor

    async def create(
        self, *, dry_run: bool = False, idempotency_key: str | None = None, **terms: Unpack[NewReminder]
    ) -> ChangedReminderSchedule:
        made = await self._caller.call(
            "POST",
            "/api/schedules",
            body=terms,
            query={"dry_run": dry_run or None},
            actor=self._actor,
            idempotency_key=idempotency_key,
        )
        return ChangedReminderSchedule.model_validate(made)

    async def get(self, id: UUID) -> ReminderSchedule:
        found = await self._caller.call("GET", f"/api/schedules/{id}", actor=self._actor)
        return ReminderSchedule.model_validate(found)

    def list(self, *, active: bool | None = None) -> AsyncIterator[ReminderSchedule]:
        return every(self._caller, ReminderSchedule, "/api/schedules", {"active": active}, self._actor)

    def occurrences(
        self, id: UUID, *, since: datetime | None = None, before: datetime | None = None
    ) -> AsyncIterator[ReminderOccurrence]:
        path = f"/api/schedules/{id}/occurrences"
        return every(self._caller, ReminderOccurrence, path, {"since": since, "before": before}, self._actor)

    async def change(
        self,
        id: UUID,
        *,
        if_revision: int | None = None,
        dry_run: bool = False,
        **terms: Unpack[ReminderTerms],
    ) -> ChangedReminderSchedule:
        """Change all that is to come; what is left out stays."""
        changed = await self._caller.call(
            "PATCH",
            f"/api/schedules/{id}",
            body=terms,
            query={"dry_run": dry_run or None},
            actor=self._actor,
            if_revision=if_revision,
        )
        return ChangedReminderSchedule.model_validate(changed)

    async def change_occurrence(
        self,
        id: UUID,
        original_local: datetime,
        *,
        skip: bool | None = None,
        start_local: datetime | None = None,
        scope: Literal["this", "following"] = "this",
    ) -> ChangedReminderSchedule:
        """Skip or move one occurrence, or with `following` this one and all after it."""
        changed = await self._caller.call(
            "PATCH",
            f"/api/schedules/{id}/occurrences/{original_local.isoformat()}",
            body={"skip": skip, "start_local": start_local},
            query={"scope": scope},
            actor=self._actor,
        )
        return ChangedReminderSchedule.model_validate(changed)

    async def delete(self, id: UUID, *, if_revision: int | None = None) -> None:
        await self._caller.call("DELETE", f"/api/schedules/{id}", actor=self._actor, if_revision=if_revision)


class Tasks:
    """`/api/tasks`."""

    def __init__(self, caller: Caller, actor: UUID | None) -> None:
        self._caller = caller
        self._actor = actor

    async def create(self, *, idempotency_key: str | None = None, **terms: Unpack[NewTask]) -> Task:
        made = await self._caller.call(
            "POST", "/api/tasks", body=terms, actor=self._actor, idempotency_key=idempotency_key
        )
        return Task.model_validate(made)

    async def get(self, id: UUID) -> Task:
        return Task.model_validate(await self._caller.call("GET", f"/api/tasks/{id}", actor=self._actor))

    def list(
        self,
        *,
        visible: Literal["now", "all"] = "now",
        completed: bool | None = None,
        newest_first: bool = False,
    ) -> AsyncIterator[Task]:
        sort = "-created_at" if newest_first else None
        query = {"visible": visible, "completed": completed, "sort": sort}
        return every(self._caller, Task, "/api/tasks", query, self._actor)

    async def complete(self, id: UUID) -> Task:
        done = await self._caller.call("POST", f"/api/tasks/{id}/complete", actor=self._actor)
        return Task.model_validate(done)


class Person:
    """Everything that is done for one recipient."""

    def __init__(self, caller: Caller, actor: UUID | None) -> None:
        self.inbox = Inbox(caller, actor)
        self.schedules = PersonSchedules(caller, actor)
        self.tasks = Tasks(caller, actor)
