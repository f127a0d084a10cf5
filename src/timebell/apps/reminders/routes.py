"""`/api/schedules` and `/api/tasks`: what a person wants to be reminded of, and what there is to do."""

from __future__ import annotations

from typing import Final

from timebell.apps.reminders.bodies import (
    NAMES,
    ChangedSchedule,
    NewSchedule,
    OccurrenceEdit,
    OccurrenceQuery,
    OccurrenceRow,
    OccurrencesQuery,
    ScheduleEdit,
    ScheduleRow,
    SchedulesQuery,
    TaskInput,
    TaskRow,
    TasksQuery,
    changed_schedule,
    occurrence_row,
    schedule_row,
    task_row,
)
from timebell.apps.reminders.feeds import PATH as FEED_PATH
from timebell.apps.reminders.feeds import Feed, get_schedule_feed, read_schedule_feed, renew_schedule_feed
from timebell.apps.reminders.models import NewTask, details_of, is_deleted
from timebell.apps.reminders.service import Reminders
from timebell.apps.reminders.tasks import Tasks
from timebell.kernel import Schedule, ScheduleChange
from timebell.web import Answer, Call, FieldError, Listed, Problem, Route, listed, read_local

_SCHEDULES: Final = "reminders: schedules"
_TASKS: Final = "reminders: tasks"


async def create_reminder_schedule(call: Call, *, body: NewSchedule) -> Answer:
    """Plans at once, and answers with the schedule and what that added. The acting recipient owns it."""
    change = await _reminders(call).create(
        call.tx,
        call.person,
        body.details(),
        when=body.when(),
        actor=call.by,
        correlation_id=call.correlation_id,
    )
    return _changed(change)


async def list_reminder_schedules(call: Call, *, query: SchedulesQuery) -> object:
    """The schedules of the acting recipient, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _reminders(call).list(
            tx, call.person, is_active=query.active, limit=query.limit, cursor=query.cursor
        )
    return listed(page, schedule_row)


async def get_reminder_schedule(call: Call) -> Answer:
    """One schedule; one that was deleted is there still, and not active."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        schedule = await _reminders(call).get(tx, call.person, call.path["id"])
    return Answer(content=schedule_row(schedule), revision=schedule.revision)


async def edit_reminder_schedule(call: Call, *, body: ScheduleEdit) -> Answer:
    """Changes all that is to come. What was sent for an occurrence that stays is not sent again; tasks follow."""
    schedule = await _held(call)
    details = body.details(details_of(schedule))
    change = await _reminders(call).edit(call.tx, schedule, details, when=body.when(), actor=call.by)
    return _changed(change)


async def delete_reminder_schedule(call: Call) -> Answer:
    """Reminds of nothing any more, and takes tasks away that are to come and not completed. What is past stays."""
    schedule = await _held(call, is_deleted_fine=True)
    await _reminders(call).end(call.tx, schedule, actor=call.by)
    return Answer(content=None, status=204)


async def list_reminder_occurrences(call: Call, *, query: OccurrencesQuery) -> object:
    """The occurrences that are planned, in the order of time: those to come, or those since an instant."""
    reminders = _reminders(call)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        schedule = await reminders.get(tx, call.person, call.path["id"])
        page = await reminders.occurrences(
            tx, schedule, since=query.since, before=query.before, limit=query.limit, cursor=query.cursor
        )
    return listed(page, occurrence_row)


async def edit_reminder_occurrence(call: Call, *, query: OccurrenceQuery, body: OccurrenceEdit) -> Answer:
    """Skips or moves one occurrence, or with `scope=following` this one and all after it.

    To move what follows, the schedule is split: the answer is the new one, which goes on from here.
    """
    schedule = await _held(call)
    reminders = _reminders(call)
    try:
        original_local = read_local(call.path["original_local"])
    except ValueError as error:
        raise Problem(404, "not_found", f"original_local: {error}") from None
    fold, actor = query.fold, call.by
    if query.scope == "following":
        if body.start_local is not None:
            change = await reminders.move_following(
                call.tx, schedule, original_local, body.start_local, fold=fold, actor=actor
            )
        elif body.skip:
            change = await reminders.skip_following(call.tx, schedule, original_local, fold=fold, actor=actor)
        else:
            raise _one_only()
    elif body.start_local is not None:
        change = await reminders.move(
            call.tx, schedule, original_local, body.start_local, fold=fold, actor=actor
        )
    elif body.skip:
        change = await reminders.skip(call.tx, schedule, original_local, fold=fold, actor=actor)
    else:
        change = await reminders.restore(call.tx, schedule, original_local, fold=fold, actor=actor)
    return _changed(change)


async def list_tasks(call: Call, *, query: TasksQuery) -> object:
    """The tasks of the acting recipient that may be seen by now; with `visible=all` those that are far ahead, too."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Tasks(call.bell).list(
            tx,
            call.person,
            is_all=query.visible == "all",
            is_completed=query.completed,
            newest_first=query.sort == "-created_at",
            limit=query.limit,
            cursor=query.cursor,
        )
    return listed(page, task_row)


async def create_task(call: Call, *, body: TaskInput) -> TaskRow:
    """A task that no schedule made."""
    task = NewTask(**{name: getattr(body, name) for name in NewTask.__dataclass_fields__})
    made = await Tasks(call.bell).add(
        call.tx, call.person, task, actor=call.by, correlation_id=call.correlation_id
    )
    return task_row(made)


async def get_task(call: Call) -> TaskRow:
    """One task."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return task_row(await Tasks(call.bell).get(tx, call.person, call.path["id"]))


async def complete_task(call: Call) -> TaskRow:
    """It is done, and nobody is reminded of it any more. Doing so again changes nothing."""
    task = await Tasks(call.bell).complete(
        call.tx, call.person, call.path["id"], actor=call.by, correlation_id=call.correlation_id
    )
    return task_row(task)


def _reminders(call: Call) -> Reminders:
    return Reminders(call.bell, call.notify)


async def _held(call: Call, *, is_deleted_fine: bool = False) -> Schedule:
    schedule = await _reminders(call).hold(call.tx, call.person, call.path["id"])
    call.check_revision(schedule.revision)
    if is_deleted(schedule) and not is_deleted_fine:
        raise Problem(409, "schedule_deleted", "the schedule was deleted; create another")
    return schedule


def _changed(change: ScheduleChange) -> Answer:
    return Answer(content=changed_schedule(change), revision=change.schedule.revision)


def _one_only() -> Problem:
    message = "only one occurrence is brought back at a time; leave scope out"
    error = FieldError(pointer="/skip", code="invalid_input", message=message)
    return Problem(422, "invalid_input", f"skip: {message}", errors=[error])


_EXAMPLE: Final = {
    "kind": "task",
    "title": "Submit report",
    "tz": "Europe/Berlin",
    "start_local": "2027-03-05T17:00:00",
    "rrule": "FREQ=WEEKLY",
    "show_before_minutes": 1440,
    "muted_offsets_min": [720],
}

_CODES: Final = {"schedule_deleted": "The schedule was deleted, and nothing brings it back. Create another."}

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/schedules",
        run=create_reminder_schedule,
        summary="Create a schedule",
        tag=_SCHEDULES,
        status=201,
        scope="write",
        acts_for="recipient",
        body=NewSchedule,
        answer=ChangedSchedule,
        idempotency="optional",
        plans=True,
        names=NAMES,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path="/api/schedules",
        run=list_reminder_schedules,
        summary="List schedules",
        tag=_SCHEDULES,
        acts_for="recipient",
        query=SchedulesQuery,
        answer=Listed[ScheduleRow],
    ),
    Route(
        method="GET",
        path="/api/schedules/{id}",
        run=get_reminder_schedule,
        summary="Read a schedule",
        tag=_SCHEDULES,
        acts_for="recipient",
        answer=ScheduleRow,
    ),
    Route(
        method="PATCH",
        path="/api/schedules/{id}",
        run=edit_reminder_schedule,
        summary="Change a schedule",
        tag=_SCHEDULES,
        scope="write",
        acts_for="recipient",
        body=ScheduleEdit,
        answer=ChangedSchedule,
        idempotency="optional",
        plans=True,
        names=NAMES,
        example={"start_local": "2027-03-05T18:00:00"},
        problems={409: "it was deleted"},
        codes=_CODES,
    ),
    Route(
        method="DELETE",
        path="/api/schedules/{id}",
        run=delete_reminder_schedule,
        summary="Delete a schedule",
        tag=_SCHEDULES,
        status=204,
        scope="write",
        acts_for="recipient",
        idempotency="optional",
        plans=True,
    ),
    Route(
        method="GET",
        path="/api/schedules/{id}/occurrences",
        run=list_reminder_occurrences,
        summary="List occurrences",
        tag=_SCHEDULES,
        acts_for="recipient",
        query=OccurrencesQuery,
        answer=Listed[OccurrenceRow],
    ),
    Route(
        method="PATCH",
        path="/api/schedules/{id}/occurrences/{original_local}",
        run=edit_reminder_occurrence,
        summary="Skip or move an occurrence",
        tag=_SCHEDULES,
        scope="write",
        acts_for="recipient",
        query=OccurrenceQuery,
        body=OccurrenceEdit,
        answer=ChangedSchedule,
        idempotency="optional",
        plans=True,
        names=NAMES,
        example={"skip": True},
        problems={409: "the schedule was deleted"},
        codes=_CODES,
    ),
    Route(
        method="GET",
        path="/api/schedule-feed",
        run=get_schedule_feed,
        summary="Where the calendar is",
        tag=_SCHEDULES,
        acts_for="recipient",
        answer=Feed,
        problems={503: "secret_key is not set"},
    ),
    Route(
        method="POST",
        path="/api/schedule-feed",
        run=renew_schedule_feed,
        again=get_schedule_feed,
        summary="Have the calendar at a new address",
        tag=_SCHEDULES,
        scope="write",
        acts_for="recipient",
        answer=Feed,
        idempotency="optional",
        problems={503: "secret_key is not set"},
    ),
    Route(
        method="GET",
        path=FEED_PATH,
        run=read_schedule_feed,
        summary="The calendar (iCalendar)",
        tag=_SCHEDULES,
        scope=None,
        media_type="text/calendar",
    ),
    Route(
        method="GET",
        path="/api/tasks",
        run=list_tasks,
        summary="List tasks",
        tag=_TASKS,
        acts_for="recipient",
        query=TasksQuery,
        answer=Listed[TaskRow],
    ),
    Route(
        method="POST",
        path="/api/tasks",
        run=create_task,
        summary="Create a task",
        tag=_TASKS,
        status=201,
        scope="write",
        acts_for="recipient",
        body=TaskInput,
        answer=TaskRow,
        idempotency="optional",
        example={"title": "Buy milk", "due_at": "2027-03-05T16:00:00Z", "show_before_due_time": 60},
    ),
    Route(
        method="GET",
        path="/api/tasks/{id}",
        run=get_task,
        summary="Read a task",
        tag=_TASKS,
        acts_for="recipient",
        answer=TaskRow,
    ),
    Route(
        method="POST",
        path="/api/tasks/{id}/complete",
        run=complete_task,
        summary="Complete a task",
        tag=_TASKS,
        scope="write",
        acts_for="recipient",
        answer=TaskRow,
        idempotency="optional",
    ),
)
