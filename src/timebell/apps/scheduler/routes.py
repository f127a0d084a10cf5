"""`/api/scheduler/jobs`: what services ask for through the broker can be asked for, read and cancelled here too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

from timebell.apps.scheduler.bodies import (
    NAMES,
    ScheduledJobInput,
    ScheduledJobRow,
    ScheduledJobsQuery,
    job_row,
)
from timebell.apps.scheduler.models import ID_BYTES_MAX, Poison, Reason, Taken, Withdrawn
from timebell.apps.scheduler.service import Scheduler
from timebell.errors import NotFound, RevisionConflict, TooManyAtOnce, UnknownKind
from timebell.web import Answer, Call, FieldError, Listed, Problem, Route, listed

_TAG: Final = "scheduler"
_PATH: Final = "/api/scheduler/jobs"
# How often an id is asked for that others ask for at the same moment.
_ROUNDS_MAX: Final = 5
_CODES_OF: Final[dict[Reason, tuple[str, str]]] = {
    "bad_rule": ("rrule", "recurrence_error"),
    "bad_timezone": ("tz", "unknown_timezone"),
}

Became = TypeVar("Became", bound=Taken | Withdrawn | Poison)


async def request_scheduled_job(call: Call, *, body: ScheduledJobInput) -> Answer:
    """Have a message published, once or again and again, as a `ScheduleRequest` does.

    201 where the id is new. 200 where the same was asked for before, or where this took the place of another timing or
    payload.
    """
    if body.tenant not in (None, call.tenant):
        message = "is not the tenant of this key; leave it out, or use a key of that tenant"
        error = FieldError(pointer="/tenant", code="invalid_input", message=message)
        raise Problem(422, "invalid_input", f"tenant: {message}", errors=[error])
    scheduler, request = Scheduler(call.bell), body.request(call.correlation_id, call.raw)
    taken = await _settled(call, lambda: scheduler.request_many(call.tx, [request]))
    if isinstance(taken, Poison):
        raise _refused(taken)
    if taken.answer == "ignored":
        scheduler.tell(call.tenant, [taken])
        raise await _ignored(call, scheduler, request.id)
    call.tx.after_commit.append(lambda: scheduler.tell(call.tenant, [taken]))
    if taken.answer != "same":
        await _record(call, "scheduler.requested", request.id, taken.answer)
    return Answer(
        content=job_row(await scheduler.get(call.tx, request.id)),
        status=201 if taken.answer == "queued" else 200,
        headers={"location": f"{_PATH}/{quote(request.id, safe='')}"},
    )


async def list_scheduled_jobs(call: Call, *, query: ScheduledJobsQuery) -> object:
    """The jobs of this tenant in the order in which they were asked for, all or those of one status."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Scheduler(call.bell).list(
            tx, status=query.status, limit=query.limit, cursor=query.cursor
        )
    return listed(page, job_row)


async def get_scheduled_job(call: Call) -> object:
    """One job by the id that its caller gave it, percent-encoded in the path."""
    id = _id_of(call)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return job_row(await Scheduler(call.bell).get(tx, id))


async def cancel_scheduled_job(call: Call) -> object:
    """Have nothing published any more, as a `ScheduleCancel` does, and hear truthfully whether that was in time.

    200 where it is cancelled, by this or before. 409 `job_done` where it had come to its end, and `too_late` where it
    is being published just then; if that fails it is not tried again. 404 where nobody has asked for it: whoever does
    so within 24 hours is too late then.
    """
    scheduler, id = Scheduler(call.bell), _id_of(call)
    withdrawn = await _settled(call, lambda: scheduler.cancel_many(call.tx, [id]))
    call.tx.after_commit.append(lambda: scheduler.tell(call.tenant, [withdrawn]))
    if withdrawn.answer == "unknown":
        detail = "nobody has asked for a job under this id; whoever does so within 24 hours is refused"
        return _kept(call, Problem(404, "not_found", detail))
    if withdrawn.answer != "over":
        await _record(call, "scheduler.cancel_requested", id, withdrawn.answer)
    job = await scheduler.get(call.tx, id)
    if withdrawn.answer == "too_late":
        detail = "it is being published just now; read it again to see what became of it"
        return _kept(call, Problem(409, "too_late", detail, more={"job": job_row(job)}))
    if job.status == "done":
        raise Problem(409, "job_done", "it has fired for the last time", more={"job": job_row(job)})
    return job_row(job)


async def _settled(call: Call, ask: Callable[[], Awaitable[Sequence[Became]]]) -> Became:
    """What became of it. Where another transaction was faster with the id, what that one wrote is there by now."""
    for _ in range(_ROUNDS_MAX):
        try:
            async with call.tx.all_or_nothing():
                (became,) = await ask()
                return became
        except RevisionConflict:
            continue
        except UnknownKind:
            raise Problem(
                503,
                "broker_missing",
                "nothing here publishes messages; set broker_url on the processes that run jobs",
            ) from None
    raise TooManyAtOnce("too many ask for this id at the same time; try again")


async def _ignored(call: Call, scheduler: Scheduler, id: str) -> Problem:
    """Why a request came too late, and what there is instead."""
    try:
        job = await scheduler.get(call.tx, id)
    except NotFound:
        detail = "it was cancelled before it was asked for; use another id, or ask again a day later"
        return Problem(409, "job_cancelled", detail, more={"job": None})
    more = {"job": job_row(job)}
    if job.status == "pending":
        detail = "it is being published just now and cannot be changed; use another id"
        return Problem(409, "too_late", detail, more=more)
    detail = f"it is {job.status}, and an id is used once; use another"
    return Problem(409, f"job_{job.status}", detail, more=more)


def _refused(poison: Poison) -> Problem:
    name, code = _CODES_OF.get(poison.reason, ("", "invalid_input"))
    message = poison.detail.removeprefix(f"{name}: ")
    return Problem(
        422, code, poison.detail, errors=[FieldError(pointer=f"/{name}", code=code, message=message)]
    )


def _kept(call: Call, problem: Problem) -> object:
    """An answer and not an exception, with which what was written would be undone."""
    return problem.response(call.correlation_id)


def _id_of(call: Call) -> str:
    id: str = call.path["id"]
    if len(id.encode()) > ID_BYTES_MAX:
        raise NotFound(f"there is no job of that id; it has more than {ID_BYTES_MAX} bytes")
    return id


async def _record(call: Call, name: str, id: str, answer: str) -> None:
    await call.bell.record(
        call.tx,
        name,
        {"id": id, "answer": answer},
        subject=id,
        actor=call.by,
        correlation_id=call.correlation_id,
    )


_CODES: Final = {
    "broker_missing": (
        "No process that runs jobs has a broker, so nobody could publish the message. Whoever runs the server sets "
        "broker_url (TIMEBELL_BROKER_URL)."
    ),
    "job_cancelled": (
        "The job was cancelled, maybe before it was asked for. An id is used once: ask under another. `job` is how it "
        "stands, null where nobody had asked for it."
    ),
    "job_done": (
        "The job has fired for the last time, and neither fires again nor can be cancelled. An id is used once: ask "
        "under another. `job` is how it stands."
    ),
    "too_late": (
        "The job is being published just now, and is `done` once the broker has confirmed that. `job` is how it stood; "
        "read it again."
    ),
}

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=request_scheduled_job,
        summary="Have a message published at its time",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="noted",
        body=ScheduledJobInput,
        answer=ScheduledJobRow,
        also={200: "It was asked for before, or took the place of another timing or payload."},
        idempotency="optional",
        names=NAMES,
        example={"id": "invoice-7", "at": "2027-03-29T09:00:00Z", "payload": {"invoice": 7}},
        problems={
            409: "The id is used up, it is being published, or the idempotency key is in use.",
            503: "There is no broker, the database does not answer, or the server is starting or stopping.",
        },
        codes=_CODES,
    ),
    Route(
        method="GET",
        path=_PATH,
        run=list_scheduled_jobs,
        summary="List what is to be published, and was",
        tag=_TAG,
        acts_for="noted",
        query=ScheduledJobsQuery,
        answer=Listed[ScheduledJobRow],
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}",
        run=get_scheduled_job,
        summary="Read what is to be published",
        tag=_TAG,
        acts_for="noted",
        own_ids=True,
        answer=ScheduledJobRow,
    ),
    Route(
        method="DELETE",
        path=f"{_PATH}/{{id}}",
        run=cancel_scheduled_job,
        summary="Cancel what is to be published",
        tag=_TAG,
        scope="write",
        acts_for="noted",
        own_ids=True,
        answer=ScheduledJobRow,
        idempotency="optional",
        problems={
            404: "Nobody has asked for it, and for 24 hours nobody can.",
            409: "It has fired for the last time or is being published, or the idempotency key is in use.",
        },
        codes=_CODES,
    ),
)
