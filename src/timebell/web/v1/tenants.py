"""`/v1/tenants`: who is separated from whom. The tenant `default` administers the others."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from timebell.kernel.bell import DEFAULT_TENANT
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Listed, Output, PageQuery, listed
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route


class TenantInput(Input):
    """A tenant to be made."""

    tenant: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$",
            max_length=100,
            description="Its id, in every path and key of it, never changed.",
        ),
    ]
    name: Annotated[str, Field(min_length=1, max_length=200, description="For people.")]


class TenantOutput(Output):
    tenant: str
    name: str
    created_at: Instant


def check_administers(call: Call) -> None:
    if call.tenant != DEFAULT_TENANT:
        raise Problem(403, "default_tenant_only", "this needs an admin key of the tenant default")


async def administered(call: Call) -> str:
    """The tenant of the path, which must be there, and the caller one who administers it."""
    check_administers(call)
    tenant: str = call.path["tenant"]
    await call.surface.tenants.get(tenant, asking=call.tenant, tx=call.transaction)
    return tenant


async def create_tenant(call: Call, body: TenantInput) -> Any:
    """A new tenant. It has no key yet: make one with `POST /v1/tenants/{tenant}/keys`."""
    check_administers(call)
    return await call.surface.tenants.create(
        call.tx, body.tenant, name=body.name, actor=call.by, correlation_id=call.correlation_id
    )


async def list_tenants(call: Call, query: PageQuery) -> Any:
    """The tenants in the order of their ids; whoever does not administer them sees their own."""
    page = await call.surface.tenants.list(asking=call.tenant, limit=query.limit, cursor=query.cursor)
    return listed(page, lambda tenant: tenant)


async def get_tenant(call: Call) -> Any:
    """One tenant."""
    return await call.surface.tenants.get(call.path["tenant"], asking=call.tenant)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/tenants",
        run=create_tenant,
        summary="Make a tenant",
        tag="tenants",
        status=201,
        scope="admin",
        body=TenantInput,
        answer=TenantOutput,
        idempotency="optional",
        example={"tenant": "acme", "name": "Acme"},
        problems={409: "There is a tenant of that id, or the idempotency key is in use."},
    ),
    Route(
        method="GET",
        path="/v1/tenants",
        run=list_tenants,
        summary="List tenants",
        tag="tenants",
        scope="admin",
        query=PageQuery,
        answer=Listed[TenantOutput],
    ),
    Route(
        method="GET",
        path="/v1/tenants/{tenant}",
        run=get_tenant,
        summary="Get a tenant",
        tag="tenants",
        scope="admin",
        answer=TenantOutput,
    ),
)
