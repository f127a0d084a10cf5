"""`/v1/jobs`: what is to be done, when, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Enqueue, Enqueued
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Listed, listed
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Answer, Route
from timebell.web.v1.bulk import each_by_itself, refusal, refused
from timebell.web.v1.job_fields import (
    CancelInput,
    CancelledJobs,
    CancelledOutput,
    CancelManyInput,
    EnqueuedOutput,
    JobInput,
    JobOutput,
    JobResults,
    JobsInput,
    JobsQuery,
    JourneyOutput,
)

Result = Enqueued | Problem


async def create_job(call: Call, body: JobInput) -> Answer:
    """Enqueue a job.

    Jobs that arrive at the same time are written together; with an idempotency key each has a transaction of its own.
    """
    call.check_kind(body.kind)
    return _enqueued(await call.bell.enqueue_many(call.tx, [body.asked(call.correlation_id)]))


async def _create_job_together(call: Call, body: JobInput) -> Answer:
    call.check_kind(body.kind)
    job = body.asked(call.correlation_id)
    if job.key is None:
        # It will be written, so that nobody else's has to be written again once it is refused.
        call.surface.quotas.check(call.tenant, {"enqueued": 1})
    return _enqueued([await call.surface.jobs.enqueue(call.tenant, job)])


async def create_jobs(call: Call, body: JobsInput) -> dict[str, Any]:
    """Enqueue up to a thousand jobs, answered in the same order.

    Each is taken or refused by itself: the answer is 200 though all of them were refused, and `refusal` says why. Those
    that were taken are committed together.
    """
    results: dict[int, Result] = {}
    asked: list[tuple[int, Enqueue]] = []
    given: Sequence[Any] = body.jobs
    for index, job in enumerate(given):
        if isinstance(job, Problem):
            results[index] = job
            continue
        try:
            call.check_kind(job.kind)
            asked.append((index, job.asked(call.correlation_id)))
        except (InvalidInput, Problem) as error:
            results[index] = refused(error)
    results |= await each_by_itself(call, asked, lambda jobs: call.bell.enqueue_many(call.tx, jobs))
    return {
        "data": [_result(index, results[index]) for index in range(len(given))],
        "refused_count": sum(isinstance(result, Problem) for result in results.values()),
    }


def _result(index: int, result: Result) -> dict[str, Any]:
    if isinstance(result, Enqueued):
        return {"index": index, "id": result.id, "created": result.created, "refusal": None}
    return {"index": index, "id": None, "created": False, "refusal": refusal(result, f"/jobs/{index}")}


async def list_jobs(call: Call, query: JobsQuery) -> dict[str, Any]:
    """The jobs in a state, in the order in which they were enqueued; the dead ones as they died.

    A page looks at a bounded number of jobs, so one with filters may be short and still have a next one.
    """
    page = await call.insights.jobs(
        call.tenant,
        state=query.state,
        kind=query.kind,
        queue=query.queue,
        subject=query.subject,
        key=query.key,
        oldest_first=query.sort == "created_at",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, JobOutput.model_validate)


async def get_job(call: Call) -> JobOutput:
    """One job, wherever it is: unfinished, dead, or finished and in the log."""
    job = await call.insights.job(call.tenant, call.path["id"])
    if job is None:
        raise _no_job(call)
    return JobOutput.model_validate(job)


async def get_job_journey(call: Call) -> JourneyOutput:
    """Everything that is known of one job, in order: each attempt, what came of it, and what is next."""
    journey = await call.insights.journey(call.tenant, call.path["id"])
    if journey is None:
        raise _no_job(call)
    return JourneyOutput.model_validate(journey)


async def cancel_job(call: Call, body: CancelInput) -> CancelledOutput:
    """Cancel one job, and hear truthfully what became of it."""
    [cancelled] = await call.bell.cancel(call.tx, id=call.path["id"], reason=body.reason, actor=call.by)
    if cancelled.answer == "not_found":
        raise _no_job(call)
    return CancelledOutput.model_validate(cancelled)


async def cancel_jobs(call: Call, body: CancelManyInput) -> dict[str, Any]:
    """Cancel the job of a kind and a key, or every unfinished job about a subject; empty where there is none."""
    cancelled = await call.bell.cancel(
        call.tx, kind=body.kind, key=body.key, subject=body.subject, reason=body.reason, actor=call.by
    )
    return {"data": [CancelledOutput.model_validate(one) for one in cancelled]}


def _no_job(call: Call) -> NotFound:
    return NotFound(f"this tenant has no job {call.path['id']}")


def _enqueued(written: Sequence[Enqueued]) -> Answer:
    [job] = written
    content = {"id": job.id, "created": job.created}
    return Answer(content=content, headers={"location": f"/v1/jobs/{job.id}"})


_TAG: Final = "jobs"
_EXAMPLE: Final = {"kind": "office.ring", "payload": {"guest_id": 7}, "delay": "PT15M", "subject": "guest:7"}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path="/v1/jobs",
        run=create_job,
        shared=_create_job_together,
        summary="Enqueue a job",
        tag=_TAG,
        status=201,
        scope="write",
        body=JobInput,
        answer=EnqueuedOutput,
        idempotency="optional",
        example=_EXAMPLE,
        problems={409: "The key stands for another job, or the idempotency key is in use."},
    ),
    Route(
        method="POST",
        path="/v1/jobs/bulk",
        run=create_jobs,
        summary="Enqueue many jobs",
        tag=_TAG,
        scope="write",
        body=JobsInput,
        answer=JobResults,
        idempotency="optional",
        example={"jobs": [_EXAMPLE, {"kind": "office.ring", "due_at": "2027-03-29T10:00:00Z"}]},
    ),
    Route(
        method="GET",
        path="/v1/jobs",
        run=list_jobs,
        summary="List jobs",
        tag=_TAG,
        query=JobsQuery,
        answer=Listed[JobOutput],
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}",
        run=get_job,
        summary="Read a job",
        tag=_TAG,
        answer=JobOutput,
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/journey",
        run=get_job_journey,
        summary="Read what happened to a job",
        tag=_TAG,
        answer=JourneyOutput,
    ),
    Route(
        method="POST",
        path="/v1/jobs/{id}/cancel",
        run=cancel_job,
        summary="Cancel a job",
        tag=_TAG,
        scope="write",
        body=CancelInput,
        answer=CancelledOutput,
        idempotency="required",
        example={"reason": "the guest left"},
    ),
    Route(
        method="POST",
        path="/v1/jobs/cancel",
        run=cancel_jobs,
        summary="Cancel jobs by key or subject",
        tag=_TAG,
        scope="write",
        body=CancelManyInput,
        answer=CancelledJobs,
        idempotency="required",
        example={"subject": "guest:7", "reason": "the guest left"},
    ),
)
