"""`/v1/dead-jobs`: jobs that were given up and wait for somebody to decide."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from timebell.errors import InvalidInput, KeyConflict, NotFound
from timebell.kernel.insights import InsightsStore
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Listed, Name, Output, PageQuery, listed
from timebell.web.operation.routes import Route
from timebell.web.v1.job_fields import is_reserved

_IDS_MAX: Final = 1_000


class DeadJobOutput(Output):
    """A dead job, whole. Those that died of the same cause have the same `fingerprint`."""

    id: UUID
    kind: str
    queue: str
    subject: str | None
    key: str | None
    due_at: Instant
    expires_at: Instant | None
    created_at: Instant
    died_at: Instant
    attempt: int
    max_attempts: int | None
    crash_count: int
    reason: str | None
    error_class: str | None
    error: str | None
    fingerprint: str | None
    correlation_id: str | None
    payload: dict[str, Any]


class FailureGroupOutput(Output):
    """The dead jobs of one cause, in the words of the last that died. `is_at_least` says that not all were counted."""

    fingerprint: str | None
    kind: str
    error_class: str | None
    error: str | None
    reason: str | None
    job_count: int
    is_at_least: bool
    first_died_at: Instant
    last_died_at: Instant
    example_id: UUID


class DeadJobsQuery(PageQuery):
    kind: Name | None = None
    queue: Name | None = None
    fingerprint: Name | None = None
    sort: Literal["died_at", "-died_at"] = "died_at"


class GroupsQuery(PageQuery):
    sort: Literal["-last_died_at"] = "-last_died_at"


class DeadFilter(Input):
    """Which: by their ids, or by what they have in common. At most `limit`, those that died first."""

    ids: Annotated[list[UUID], Field(min_length=1, max_length=_IDS_MAX)] | None = None
    kind: Name | None = None
    queue: Name | None = None
    fingerprint: Name | None = None
    limit: Annotated[int, Field(ge=1, le=_IDS_MAX)] = _IDS_MAX


class ReviveManyInput(DeadFilter):
    per_second: (
        Annotated[
            float, Field(ge=0.001, le=100_000, description="How many of them are begun a second at most.")
        ]
        | None
    ) = None


class ReviveInput(Input):
    payload: Annotated[dict[str, Any], Field(description="Instead of the one it died with.")] | None = None


class JobIds(Output):
    """The ids of those that it was done to."""

    ids: list[UUID]


async def list_dead_jobs(call: Call, query: DeadJobsQuery) -> dict[str, Any]:
    """The dead jobs that wait for somebody, in the order in which they died."""
    page = await call.insights.dead(
        call.tenant,
        kind=query.kind,
        queue=query.queue,
        fingerprint=query.fingerprint,
        oldest_first=query.sort == "died_at",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, DeadJobOutput.model_validate)


async def list_dead_job_groups(call: Call, query: GroupsQuery) -> dict[str, Any]:
    """The dead jobs by what they died of, the cause of the latest death first."""
    page = await call.insights.failures(call.tenant, limit=query.limit, cursor=query.cursor)
    return listed(page, FailureGroupOutput.model_validate)


async def revive_dead_job(call: Call, body: ReviveInput) -> dict[str, Any]:
    """Bring one back under its own id, with its attempts counted anew; with another payload if one is given."""
    id = call.path["id"]
    job = await InsightsStore(call.bell.clock).read_job(call.tx.session, tenant=call.tenant, id=id)
    if job is None or job["state"] != "dead":
        raise _not_dead(id)
    if body.payload is not None and is_reserved(job["kind"]):
        raise InvalidInput("a job of Timebell's own is revived with the payload that it has", field="payload")
    revived = await call.bell.revive(call.tx, ids=[id], payload=body.payload, actor=call.by)
    if not revived and job["key"] is not None:
        raise KeyConflict("its key stands for another job by now; cancel that one, or discard this one")
    if not revived:
        raise _not_dead(id)
    return {"ids": revived}


async def discard_dead_job(call: Call) -> dict[str, Any]:
    """Give one up for good. The log keeps what happened to it."""
    id = call.path["id"]
    discarded = await call.bell.discard(call.tx, ids=[id], actor=call.by)
    if not discarded:
        raise _not_dead(id)
    return {"ids": discarded}


async def revive_dead_jobs(call: Call, body: ReviveManyInput) -> dict[str, Any]:
    """Bring many back, spread over time if `per_second` says so. One whose key stands for another by now stays dead."""
    return {"ids": await call.bell.revive(call.tx, actor=call.by, **body.model_dump())}


async def discard_dead_jobs(call: Call, body: DeadFilter) -> dict[str, Any]:
    """Give many up for good."""
    return {"ids": await call.bell.discard(call.tx, actor=call.by, **body.model_dump())}


def _not_dead(id: UUID) -> NotFound:
    return NotFound(f"this tenant has no dead job {id}")


_TAG: Final = "dead jobs"
_FILTER: Final = {"kind": "office.ring", "limit": 100}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/dead-jobs",
        run=list_dead_jobs,
        summary="List dead jobs",
        tag=_TAG,
        query=DeadJobsQuery,
        answer=Listed[DeadJobOutput],
    ),
    Route(
        method="GET",
        path="/v1/dead-jobs/groups",
        run=list_dead_job_groups,
        summary="List what jobs died of",
        tag=_TAG,
        query=GroupsQuery,
        answer=Listed[FailureGroupOutput],
    ),
    Route(
        method="POST",
        path="/v1/dead-jobs/{id}/revive",
        run=revive_dead_job,
        summary="Revive a dead job",
        tag=_TAG,
        scope="write",
        body=ReviveInput,
        answer=JobIds,
        idempotency="required",
        example={"payload": {"guest_id": 7}},
        problems={409: "Its key stands for another job, or the idempotency key is in use."},
    ),
    Route(
        method="POST",
        path="/v1/dead-jobs/{id}/discard",
        run=discard_dead_job,
        summary="Discard a dead job",
        tag=_TAG,
        scope="write",
        answer=JobIds,
        idempotency="required",
    ),
    Route(
        method="POST",
        path="/v1/dead-jobs/revive",
        run=revive_dead_jobs,
        summary="Revive dead jobs",
        tag=_TAG,
        scope="write",
        body=ReviveManyInput,
        answer=JobIds,
        idempotency="required",
        example={**_FILTER, "per_second": 10},
    ),
    Route(
        method="POST",
        path="/v1/dead-jobs/discard",
        run=discard_dead_jobs,
        summary="Discard dead jobs",
        tag=_TAG,
        scope="write",
        body=DeadFilter,
        answer=JobIds,
        idempotency="required",
        example=_FILTER,
    ),
)
