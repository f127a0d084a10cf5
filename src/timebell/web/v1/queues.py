"""`/v1/queues`: where jobs wait, how much lies there, and pauses."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from timebell.errors import InvalidInput, NotFound
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.insights import PauseLine, QueueDepth, QueueLine
from timebell.kernel.models import check_queue
from timebell.kernel.paging import Page
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Listed, Output, PageQuery, listed
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.v1.job_fields import Reason


class DepthOutput(Output):
    """How much of this tenant lies in the queue. `is_at_least` says that what is due was counted in part only, and
    `future_accuracy` how far to trust the count of what is not due yet."""

    due_count: int
    started_count: int
    parked_count: int
    is_at_least: bool
    future_count: int
    future_accuracy: Literal["exact", "at_least", "estimate"]
    oldest_due_at: Instant | None
    lateness_seconds: float


class PauseOutput(Output):
    """A pause in force, for this tenant or for everyone."""

    everyone: bool
    reason: str | None
    actor: str | None
    paused_at: Instant


class QueueOutput(Output):
    """A queue, its limits over all nodes together, the pauses in force, and how much lies in it."""

    name: str
    rate_per_second: float | None
    burst: int
    concurrency: int | None
    pauses: list[PauseOutput]
    depth: DepthOutput | None


class ForWhom(Input):
    everyone: Annotated[
        bool, Field(description="For every tenant; only an admin key of the tenant `default` may say so.")
    ] = False


class PauseInput(ForWhom):
    reason: Reason | None = None


class PausedOutput(Output):
    queue: str
    everyone: bool
    is_paused: bool


class ResumedOutput(PausedOutput):
    was_paused: bool


async def list_queues(call: Call, query: PageQuery) -> dict[str, Any]:
    """The queues that the loaded apps have, by their names, and what this tenant has in them."""
    queues = sorted(await call.insights.queues(call.tenant), key=lambda queue: queue.name)
    depths = {depth.queue: depth for depth in await call.insights.depth(call.tenant)}
    after = [queue for queue in queues if query.cursor is None or queue.name > query.cursor]
    lines = tuple(after[: query.limit])
    page = Page(lines=lines, next_cursor=lines[-1].name if len(after) > query.limit else None)
    return listed(page, lambda queue: _shown(call, queue, depths.get(queue.name)))


async def pause_queue(call: Call, body: PauseInput) -> dict[str, Any]:
    """Start no more jobs of a queue. What runs is left to run, and what comes meanwhile waits."""
    name = await _checked(call, body)
    await call.bell.pause(call.tx, name, everyone=body.everyone, reason=body.reason, actor=call.by)
    await _record(call, "queue.paused", name, body.everyone, body.reason)
    return {"queue": name, "everyone": body.everyone, "is_paused": True}


async def resume_queue(call: Call, body: ForWhom) -> dict[str, Any]:
    """Start jobs of a queue again. A pause for everyone is lifted by saying so, and one does not lift the other."""
    name = await _checked(call, body)
    was_paused = await call.bell.resume(call.tx, name, everyone=body.everyone)
    if was_paused:
        await _record(call, "queue.resumed", name, body.everyone, None)
    return {"queue": name, "everyone": body.everyone, "is_paused": False, "was_paused": was_paused}


async def _checked(call: Call, body: ForWhom) -> str:
    """The queue that the path names, which must be there; and that the caller may speak for everyone, if they do."""
    name: str = call.path["name"]
    if body.everyone and call.tenant != DEFAULT_TENANT:
        raise Problem(403, "default_tenant_only", "everyone: this needs an admin key of the tenant default")
    if body.everyone and call.caller.scope != "admin":
        raise Problem(
            403,
            "scope_missing",
            f"everyone: this needs a key of the scope admin; this one has {call.caller.scope}",
        )
    missing = NotFound(f"there is no queue {name[:100]}")
    try:
        check_queue(name)
    except InvalidInput:
        raise missing from None
    if await call.bell.store.read_queue(call.tx.session, name=name) is None:
        raise missing
    return name


async def _record(call: Call, event: str, name: str, everyone: bool, reason: str | None) -> None:
    await call.bell.record(
        call.tx,
        event,
        {"everyone": everyone, "reason": reason},
        subject=f"queue:{name}",
        actor=call.by,
        correlation_id=call.correlation_id,
    )


def _shown(call: Call, queue: QueueLine, depth: QueueDepth | None) -> QueueOutput:
    pauses = [_pause(call, pause) for pause in queue.pauses]
    return QueueOutput.model_validate({**_limits(queue), "pauses": pauses, "depth": depth})


def _limits(queue: QueueLine) -> dict[str, Any]:
    return {name: getattr(queue, name) for name in ("name", "rate_per_second", "burst", "concurrency")}


def _pause(call: Call, pause: PauseLine) -> dict[str, Any]:
    """Who paused a queue for everyone is the business of the tenant that did."""
    everyone = pause.tenant is None
    shown = replace(pause, actor=None) if everyone and call.tenant != DEFAULT_TENANT else pause
    return {"everyone": everyone, "reason": shown.reason, "actor": shown.actor, "paused_at": shown.paused_at}


_TAG: Final = "queues"
_REFUSED: Final = {
    403: "The key's scope is too small, or a pause for everyone is not this tenant's to decide."
}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/queues",
        run=list_queues,
        summary="List queues",
        tag=_TAG,
        query=PageQuery,
        answer=Listed[QueueOutput],
    ),
    Route(
        method="POST",
        path="/v1/queues/{name}/pause",
        run=pause_queue,
        summary="Pause a queue",
        tag=_TAG,
        scope="write",
        body=PauseInput,
        answer=PausedOutput,
        idempotency="required",
        example={"reason": "the provider is down"},
        problems=_REFUSED,
    ),
    Route(
        method="POST",
        path="/v1/queues/{name}/resume",
        run=resume_queue,
        summary="Resume a queue",
        tag=_TAG,
        scope="write",
        body=ForWhom,
        answer=ResumedOutput,
        idempotency="required",
        example={},
        problems=_REFUSED,
    ),
)
