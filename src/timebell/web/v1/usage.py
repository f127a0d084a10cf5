"""`/v1/usage` and `/v1/tenants/{tenant}/quotas`: how much a tenant may have, and what it has of that."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from timebell.web.access.quotas import LIMIT_MAX, save_quotas
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Output
from timebell.web.operation.routes import Route
from timebell.web.v1.tenants import administered

Limit = Annotated[int, Field(ge=0, le=LIMIT_MAX)]


class QuotasInput(Input):
    """Quotas of a tenant; what is left out stays, and null takes back one that the tenant has of its own."""

    pending_jobs: Limit | None = None
    payload_bytes: Limit | None = None
    schedules: Limit | None = None
    recipients: Limit | None = None
    requests_per_minute: Limit | None = None


class QuotaOutput(Output):
    name: str
    limit: Annotated[int | None, Field(description="Null where there is none.")]
    used: Annotated[
        int | None,
        Field(description="What there is, up to the limit and one more; null where nothing is counted."),
    ]
    is_own: Annotated[bool, Field(description="Given to this tenant, and not the default of the server.")]


class UsageOutput(Output):
    tenant: str
    quotas: list[QuotaOutput]


async def get_usage(call: Call) -> Any:
    """What this tenant has, and how much it may have. Of requests only the limit is told; `RateLimit` has the rest."""
    return await _shown(call, call.tenant)


async def get_tenant_quotas(call: Call) -> Any:
    """The quotas of another tenant, and what it has of them."""
    return await _shown(call, await administered(call))


async def set_tenant_quotas(call: Call, body: QuotasInput) -> Any:
    """Give another tenant quotas of its own. They count within some seconds on every node."""
    tenant = await administered(call)
    changes = body.model_dump(exclude_unset=True)
    await save_quotas(call.bell.clock, call.tx, tenant, changes)
    await call.bell.record(
        call.tx,
        "tenant.quotas_set",
        {"tenant": tenant, **changes},
        actor=call.by,
        correlation_id=call.correlation_id,
    )
    own = await call.surface.quotas.own(call.tx, tenant)
    return {"tenant": tenant, "quotas": own}


async def _shown(call: Call, tenant: str) -> dict[str, Any]:
    return {"tenant": tenant, "quotas": await call.surface.quotas.usage(tenant)}


_ADMINISTERED = {403: "The key is not an admin key of the tenant `default`."}

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v1/usage",
        run=get_usage,
        summary="See what this tenant has and may have",
        tag="tenants",
        answer=UsageOutput,
    ),
    Route(
        method="GET",
        path="/v1/tenants/{tenant}/quotas",
        run=get_tenant_quotas,
        summary="Get the quotas of a tenant",
        tag="tenants",
        scope="admin",
        answer=UsageOutput,
        problems=_ADMINISTERED,
    ),
    Route(
        method="PATCH",
        path="/v1/tenants/{tenant}/quotas",
        run=set_tenant_quotas,
        summary="Set the quotas of a tenant",
        tag="tenants",
        scope="admin",
        body=QuotasInput,
        answer=UsageOutput,
        example={"pending_jobs": 5_000_000},
        problems=_ADMINISTERED,
    ),
)
