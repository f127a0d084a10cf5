"""`/v1/alerts`: what needs a person, and that somebody sees to it."""

from __future__ import annotations

from typing import Any, Final, Literal
from uuid import UUID

from timebell.kernel import Alerts
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Instant, Listed, Output, PageQuery, listed
from timebell.web.operation.routes import Route


class AlertOutput(Output):
    """An alert. `rule` is the name of what opened it, and `app` brings that rule; those of `engine` and `notify` are
    about the installation. `closed_at` is there once it is as it should be again."""

    id: UUID
    rule: str
    severity: Literal["critical", "warning"]
    app: str
    subject: str | None
    detail: str
    opened_at: Instant
    closed_at: Instant | None
    acknowledged_by: str | None


class AlertsQuery(PageQuery):
    state: Literal["open", "closed"] | None = None
    sort: Literal["opened_at", "-opened_at"] = "opened_at"


async def list_alerts(call: Call, query: AlertsQuery) -> dict[str, Any]:
    """The alerts of this tenant. Those about the installation are shown to admin keys of the tenant `default`."""
    page = await Alerts(call.bell).list(
        call.tenant,
        state=query.state,
        sees_engine=_sees_engine(call),
        oldest_first=query.sort == "opened_at",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, AlertOutput.model_validate)


async def acknowledge_alert(call: Call) -> AlertOutput:
    """Say that somebody sees to it; whoever was first stays. What no question closes is closed by this."""
    acknowledged = await Alerts(call.bell).acknowledge(
        call.tx,
        call.path["id"],
        actor=call.by,
        sees_engine=_sees_engine(call),
        correlation_id=call.correlation_id,
    )
    return AlertOutput.model_validate(acknowledged.alert)


def _sees_engine(call: Call) -> bool:
    return call.tenant == DEFAULT_TENANT and call.caller.scope == "admin"


_TAG: Final = "alerts"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/alerts",
        run=list_alerts,
        summary="List alerts",
        tag=_TAG,
        query=AlertsQuery,
        answer=Listed[AlertOutput],
    ),
    Route(
        method="POST",
        path="/v1/alerts/{id}/acknowledge",
        run=acknowledge_alert,
        summary="Acknowledge an alert",
        tag=_TAG,
        scope="write",
        answer=AlertOutput,
        idempotency="required",
    ),
)
