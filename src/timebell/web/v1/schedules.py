"""`/v1/schedules`: what happens once or again by the wall clock of a place. Changes are answered with what they did."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Final

from timebell.kernel import Schedule, ScheduleChange
from timebell.kernel.schedules import OVER
from timebell.rules.previewing import preview
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Listed, listed, read_local
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Answer, Route
from timebell.web.v1.job_fields import Reason
from timebell.web.v1.schedule_fields import (
    ChangedScheduleOutput,
    FoldQuery,
    OccurrenceChanges,
    OccurrenceOutput,
    OccurrencesQuery,
    PreviewInput,
    PreviewOutput,
    ScheduleChanges,
    ScheduleInput,
    ScheduleOutput,
    SchedulesQuery,
    SplitInput,
    changed,
)


class PauseScheduleInput(Input):
    reason: Reason = "paused"


class EndScheduleInput(Input):
    reason: Reason = "ended"


async def create_schedule(call: Call, body: ScheduleInput) -> Answer:
    """A new schedule, planned at once. With `dry_run` the answer is what it would be, and nothing is kept."""
    _check_kinds(call, body)
    terms = {**body.terms(), "correlation_id": body.correlation_id or call.correlation_id}
    return _changed(await call.bell.schedules.create(call.tx, actor=call.by, **terms))


async def list_schedules(call: Call, query: SchedulesQuery) -> dict[str, Any]:
    """The schedules of this tenant, of one owner or about one subject, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await call.bell.schedules.list(tx, **query.model_dump())
    return listed(page, ScheduleOutput.model_validate)


async def get_schedule(call: Call) -> Answer:
    """One schedule; one that has ended is there still."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        schedule = await call.bell.schedules.get(tx, call.path["id"])
    return Answer(content=ScheduleOutput.model_validate(schedule), revision=schedule.revision)


async def edit_schedule(call: Call, body: ScheduleChanges) -> Answer:
    """Change all that is to come. What was done for an occurrence that stays is not done again."""
    _check_kinds(call, body)
    schedule = await _held(call, is_over_fine=True)
    return _changed(await call.bell.schedules.edit(call.tx, schedule.id, actor=call.by, **body.changes()))


async def split_schedule(call: Call, body: SplitInput) -> Answer:
    """Change one occurrence and all that follow: the schedule ends before it, and a new one goes on.

    The answer is the new one. Where the occurrence is the first, the schedule is changed as a whole.
    """
    _check_kinds(call, body)
    schedule = await _held(call)
    change = await call.bell.schedules.split(
        call.tx, schedule.id, body.original_local, fold=body.fold, actor=call.by, **body.changes()
    )
    return _changed(change)


async def pause_schedule(call: Call, body: PauseScheduleInput) -> Answer:
    """Owe nothing until it is resumed. What would have been due meanwhile is neither caught up nor missed."""
    schedule = await _held(call)
    return _changed(await call.bell.schedules.pause(call.tx, schedule.id, body.reason, actor=call.by))


async def resume_schedule(call: Call) -> Answer:
    """Go on from now with a schedule that is paused, or parked because it could not be planned."""
    schedule = await _held(call)
    if schedule.state == "active":
        raise Problem(409, "schedule_active", "the schedule is active; only a paused or parked one resumes")
    return _changed(await call.bell.schedules.resume(call.tx, schedule.id, actor=call.by))


async def end_schedule(call: Call, body: EndScheduleInput) -> Answer:
    """Owe nothing ever again. The schedule and its past stay readable."""
    schedule = await _held(call)
    return _changed(await call.bell.schedules.end(call.tx, schedule.id, body.reason, actor=call.by))


async def list_occurrences(call: Call, query: OccurrencesQuery) -> dict[str, Any]:
    """The occurrences that were planned, past and future, in the order of time."""
    schedules = call.bell.schedules
    async with call.bell.transaction(tenant=call.tenant) as tx:
        schedule = await schedules.get(tx, call.path["id"])
        page = await schedules.occurrences(tx, schedule.id, **query.model_dump())
    return listed(page, OccurrenceOutput.model_validate)


async def change_occurrence(call: Call, query: FoldQuery, body: OccurrenceChanges) -> Answer:
    """Skip or move one occurrence, or give it a payload of its own."""
    schedule = await _held(call)
    change = await call.bell.schedules.override(
        call.tx,
        schedule.id,
        _original_local(call),
        fold=query.fold,
        skip=body.skip,
        start_local=body.start_local,
        payload=body.payload,
        actor=call.by,
    )
    return _changed(change)


async def restore_occurrence(call: Call, query: FoldQuery) -> Answer:
    """Take back what was changed about one occurrence."""
    schedule = await _held(call)
    change = await call.bell.schedules.restore(
        call.tx, schedule.id, _original_local(call), fold=query.fold, actor=call.by
    )
    return _changed(change)


async def preview_schedule(call: Call, body: PreviewInput) -> PreviewOutput:
    """When a recurrence is due and what clocks do to it, without writing anything.

    One that no schedule may have is shown all the same, with a warning.
    """
    async with call.bell.database.connection() as session:
        now = await call.bell.store.read_clock(session)
    work = partial(preview, **dict(body), now=now)
    shown = await call.bell.aside.short.run(call.tenant, "previews", work, most=_PREVIEWS_AT_ONCE_MAX)
    return PreviewOutput.model_validate(shown)


async def _held(call: Call, *, is_over_fine: bool = False) -> Schedule:
    """The schedule of the path, which nobody else changes meanwhile, and at the revision that the caller means."""
    schedule = await call.bell.schedules.hold(call.tx, call.path["id"])
    call.check_revision(schedule.revision)
    if schedule.state == "ended" and not (is_over_fine and schedule.state_reason == OVER):
        raise Problem(409, "schedule_ended", "the schedule has ended; create another")
    return schedule


def _check_kinds(call: Call, body: ScheduleInput | ScheduleChanges) -> None:
    for index, step in enumerate(body.steps or ()):
        call.check_kind(step.kind, f"/steps/{index}/kind")


def _original_local(call: Call) -> datetime:
    try:
        return read_local(call.path["original_local"])
    except ValueError as error:
        raise Problem(404, "not_found", f"original_local: {error}") from None


def _changed(change: ScheduleChange) -> Answer:
    return Answer(content=changed(change), revision=change.schedule.revision)


_TAG: Final = "schedules"
# Of one tenant, each of which may take a fifth of a second.
_PREVIEWS_AT_ONCE_MAX: Final = 8
# What the kernel finds wrong with a step when it looks at all of them.
_NAMES: Final = dict.fromkeys(("kind", "queue", "offset", "expires_after", "expires_at", "anchor"), "steps")
_EXAMPLE: Final = {
    "timezone": "Europe/Berlin",
    "start_local": "2027-03-05T17:00:00",
    "recurrence": "FREQ=WEEKLY",
    "steps": [{"key": "remind", "kind": "office.ring", "offset": "-PT1H"}],
    "subject": "report:7",
}
_ENDED: Final = {409: "The schedule has ended, or the idempotency key is in use."}
_COMPARED: Final = {**_ENDED, 412: "It was changed since it was read."}


def _change(path: str, **options: Any) -> Route:
    """A route that changes a schedule: all of them plan, and answer alike."""
    common = {
        "path": f"/v1/schedules/{{id}}{path}",
        "tag": _TAG,
        "scope": "write",
        "answer": ChangedScheduleOutput,
        "idempotency": "optional",
        "plans": True,
        "names": _NAMES,
        "problems": _COMPARED,
    }
    return Route(**{**common, **options})


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path="/v1/schedules",
        run=create_schedule,
        summary="Create a schedule",
        tag=_TAG,
        status=201,
        scope="write",
        body=ScheduleInput,
        answer=ChangedScheduleOutput,
        idempotency="optional",
        plans=True,
        names=_NAMES,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path="/v1/schedules",
        run=list_schedules,
        summary="List schedules",
        tag=_TAG,
        query=SchedulesQuery,
        answer=Listed[ScheduleOutput],
    ),
    Route(
        method="POST",
        path="/v1/schedules/preview",
        run=preview_schedule,
        # It writes nothing, so it needs no transaction.
        shared=preview_schedule,
        summary="Try a recurrence",
        tag=_TAG,
        body=PreviewInput,
        answer=PreviewOutput,
        example={
            "recurrence": "FREQ=MONTHLY;BYDAY=-1FR",
            "timezone": "Europe/Berlin",
            "start_local": "2027-01-29T17:00:00",
            "count": 3,
        },
    ),
    Route(
        method="GET",
        path="/v1/schedules/{id}",
        run=get_schedule,
        summary="Read a schedule",
        tag=_TAG,
        answer=ScheduleOutput,
    ),
    _change(
        "",
        method="PATCH",
        run=edit_schedule,
        summary="Change a schedule",
        body=ScheduleChanges,
        example={"start_local": "2027-03-05T18:00:00"},
    ),
    _change(
        "/split",
        method="POST",
        run=split_schedule,
        summary="Change an occurrence and all that follow",
        body=SplitInput,
        example={"original_local": "2027-03-12T17:00:00", "start_local": "2027-03-12T18:00:00"},
    ),
    _change(
        "/pause",
        method="POST",
        run=pause_schedule,
        summary="Pause a schedule",
        body=PauseScheduleInput,
        idempotency="required",
        example={"reason": "on holiday"},
    ),
    _change(
        "/resume",
        method="POST",
        run=resume_schedule,
        summary="Resume a schedule",
        idempotency="required",
    ),
    _change(
        "/end",
        method="POST",
        run=end_schedule,
        summary="End a schedule",
        body=EndScheduleInput,
        idempotency="required",
        example={"reason": "the project is over"},
    ),
    Route(
        method="GET",
        path="/v1/schedules/{id}/occurrences",
        run=list_occurrences,
        summary="List occurrences",
        tag=_TAG,
        query=OccurrencesQuery,
        answer=Listed[OccurrenceOutput],
    ),
    _change(
        "/occurrences/{original_local}",
        method="PATCH",
        run=change_occurrence,
        summary="Skip, move or change an occurrence",
        query=FoldQuery,
        body=OccurrenceChanges,
        example={"skip": True},
    ),
    _change(
        "/occurrences/{original_local}",
        method="DELETE",
        run=restore_occurrence,
        summary="Take back what was changed about an occurrence",
        query=FoldQuery,
    ),
)
