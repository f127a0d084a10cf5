"""`/v1/outbox`: what demo mode kept from leaving, as it would have left."""

from __future__ import annotations

from typing import Any, Final, Literal
from uuid import UUID

from timebell.notify import Channel
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Instant, Listed, Output, PageQuery, listed
from timebell.web.operation.routes import Route


class OutboxQuery(PageQuery):
    recipient_id: UUID | None = None
    channel: Channel | None = None
    sort: Literal["at", "-at"] = "at"


class OutboxEntry(Output):
    """What would have left, to whom, and why it did not. `content` is the whole of what was rendered."""

    id: UUID
    channel: Channel
    to: str
    subject: str | None
    body: str
    at: Instant
    template: str
    recipient_id: UUID
    notification_id: UUID
    delivery_id: UUID
    reason: str
    content: dict[str, Any]


async def list_outbox(call: Call, query: OutboxQuery) -> dict[str, Any]:
    """What was captured in demo mode or in a sandbox, the oldest first. The inbox is not part of it: it stays real."""
    page = await call.notify.outbox.list(
        tenant=call.tenant,
        recipient=query.recipient_id,
        channel=query.channel,
        newest_first=query.sort == "-at",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, OutboxEntry.model_validate)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/outbox",
        run=list_outbox,
        summary="List what would have left",
        tag="outbox",
        query=OutboxQuery,
        answer=Listed[OutboxEntry],
    ),
)
