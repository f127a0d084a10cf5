"""`/v1/events`: what happened, as it was recorded. Nothing changes an event afterwards."""

from __future__ import annotations

from typing import Any, Final, Literal
from uuid import UUID

from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Instant, Listed, Name, Output, PageQuery, listed
from timebell.web.operation.routes import Route


class EventOutput(Output):
    """A fact: `name` says what happened, `subject` to what, `actor` by whom. It is said to have been at `occurred_at`,
    and was written down at `recorded_at`."""

    id: UUID
    name: str
    subject: str | None
    actor: str | None
    data: dict[str, Any]
    correlation_id: str | None
    occurred_at: Instant
    recorded_at: Instant


class EventsQuery(PageQuery):
    """Which events. A subject or a correlation id leads to them at once; by name alone, all are looked through."""

    subject: Name | None = None
    correlation_id: Name | None = None
    name: Name | None = None
    sort: Literal["id", "-id"] = "id"


async def list_events(call: Call, query: EventsQuery) -> dict[str, Any]:
    """The events of this tenant, in the order in which they were made.

    A page looks at a bounded number of events, so one with filters may be short and still have a next one.
    """
    page = await call.insights.events(
        call.tenant,
        subject=query.subject,
        correlation_id=query.correlation_id,
        name=query.name,
        oldest_first=query.sort == "id",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, EventOutput.model_validate)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/events",
        run=list_events,
        summary="List events",
        tag="events",
        query=EventsQuery,
        answer=Listed[EventOutput],
    ),
)
