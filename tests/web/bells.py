"""A few routes of a made-up app, for what all routes have in common."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from timebell.errors import NotFound
from timebell.logs import Logger
from timebell.web import Answer, Call, Input, Instant, Output, PageQuery, Problem, Route

log = Logger("tests.bells")


class BellInput(Input):
    name: Annotated[str, Field(min_length=1, max_length=50)]
    due_at: Instant | None = None
    about: UUID | None = None
    notes: dict[str, Any] = Field(default_factory=dict)


class BellOutput(Output):
    id: UUID
    name: str


async def create_bell(call: Call, body: BellInput) -> Any:
    """Make a bell: a job, so that a test sees how often it was made."""
    log.info("a bell is made", name=body.name)
    if body.name == "refuse":
        raise Problem(409, "bell_refused", "this bell is refused", more={"next_free": 7})
    if body.name == "unknown":
        raise NotFound("there is no such bell")
    made = await call.bell.enqueue(
        call.tx, "office.ring", {"name": body.name, **body.notes}, correlation_id=call.correlation_id
    )
    if body.name == "fail":
        raise RuntimeError("an inner secret")
    return Answer(content={"id": made.id, "name": body.name}, revision=1)


async def ring_bell(call: Call) -> Any:
    """Ring: for a person, and only with an idempotency key."""
    await call.bell.enqueue(call.tx, "office.ring", {"for": str(call.person)})
    return {"id": call.path["id"], "name": call.by}


async def get_bell(call: Call) -> Any:
    return Answer(content={"id": call.path["id"], "name": "a bell"}, revision=7)


async def change_bell(call: Call, body: BellInput) -> Any:
    call.check_revision(7)
    return Answer(content={"id": call.path["id"], "name": body.name}, revision=8)


async def remove_bell(call: Call) -> Any:
    return None


async def list_bells(call: Call, query: PageQuery) -> Any:
    return {"data": [], "limit": query.limit}


def route(method: Any, path: str, run: Any, **options: Any) -> Route:
    return Route(
        method=method, path=path, run=run, summary=run.__name__, tag="bells", **{"scope": "write", **options}
    )


ROUTES = (
    route(
        "POST",
        "/api/bells",
        create_bell,
        status=201,
        body=BellInput,
        answer=BellOutput,
        idempotency="optional",
        plans=True,
        example={"name": "church"},
        codes={"bell_refused": "A bell of that name is refused."},
    ),
    route("POST", "/api/bells/{id}/ring", ring_bell, idempotency="required", acts_for="recipient"),
    route("GET", "/api/bells/{id}", get_bell, scope="read", answer=BellOutput),
    route(
        "PATCH", "/api/bells/{id}", change_bell, body=BellInput, answer=BellOutput, example={"name": "door"}
    ),
    route("DELETE", "/api/bells/{id}", remove_bell, status=204),
    route("GET", "/api/bells", list_bells, scope="read", query=PageQuery),
)
