"""`/v1/deliveries`: what was tried on one channel, and what came of it."""

from __future__ import annotations

from typing import Any, Final

from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Listed, listed
from timebell.web.operation.routes import Route
from timebell.web.v1.notification_bodies import (
    DeliveriesQuery,
    DeliveryLine,
    DeliveryOutput,
    shown_delivery,
    shown_line,
)


async def list_deliveries(call: Call, query: DeliveriesQuery) -> dict[str, Any]:
    """Deliveries, the oldest first. A page may be short, or empty, and still have a next one."""
    page = await call.notify.deliveries.list(
        tenant=call.tenant,
        recipient=query.recipient_id,
        notification=query.notification_id,
        state=query.state,
        channel=query.channel,
        newest_first=query.sort == "-created_at",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, shown_line)


async def get_delivery(call: Call) -> DeliveryOutput:
    """One delivery with what it said and every attempt."""
    return shown_delivery(await call.notify.deliveries.get(call.path["id"], tenant=call.tenant))


_TAG: Final = "deliveries"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/deliveries",
        run=list_deliveries,
        summary="List deliveries",
        tag=_TAG,
        query=DeliveriesQuery,
        answer=Listed[DeliveryLine],
    ),
    Route(
        method="GET",
        path="/v1/deliveries/{id}",
        run=get_delivery,
        summary="Get a delivery",
        tag=_TAG,
        answer=DeliveryOutput,
    ),
)
