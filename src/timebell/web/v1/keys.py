"""`/v1/keys`: who may call. A key is shown once, when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from timebell.db.walls import walled_to
from timebell.web.access.keys import ApiKey, NewKey
from timebell.web.access.tenants import written_for
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Listed, Output, PageQuery, SecretText, listed
from timebell.web.operation.routes import Route, Scope
from timebell.web.v1.tenants import administered


class KeyInput(Input):
    """A key to be made. Whoever has it may do what its scope says, until it expires or is revoked."""

    name: Annotated[str, Field(min_length=1, max_length=200, description="For people, to know it again.")]
    scope: Scope = "write"
    is_test: Annotated[bool, Field(description="Begins with tb_test_ instead of tb_live_.")] = False
    expires_at: Instant | None = None


class KeyOutput(Output):
    id: UUID
    tenant: str
    name: str
    prefix: str
    scope: Scope
    is_test: bool
    created_by: str | None
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None
    last_used_on: date | None


class NewKeyOutput(KeyOutput):
    key: Annotated[
        SecretText, Field(description="The key itself. It is kept nowhere and cannot be shown again.")
    ]


_EXAMPLE: Mapping[str, Any] = {"name": "the booking service", "scope": "write"}
_ADMINISTERED = {403: "The key is not an admin key of the tenant `default`."}


async def create_key(call: Call, body: KeyInput) -> Any:
    """A new key of this tenant.

    It takes no idempotency key: the answer has a secret in it, and what is kept for a repetition would have it too. A
    key whose answer was lost can be revoked by its name and made again.
    """
    made = await call.surface.keys.create(
        call.tx, **body.model_dump(), actor=call.by, correlation_id=call.correlation_id
    )
    return _shown_once(made)


async def list_keys(call: Call, query: PageQuery) -> Any:
    """The keys of this tenant, revoked ones too, the oldest first."""
    page = await call.surface.keys.list(tenant=call.tenant, limit=query.limit, cursor=query.cursor)
    return listed(page, _shown)


async def revoke_key(call: Call) -> Any:
    """No request with it is answered any more, within five seconds on every node. A revoked key stays revoked."""
    revoked = await call.surface.keys.revoke(
        call.tx, call.path["id"], actor=call.by, correlation_id=call.correlation_id
    )
    return _shown(revoked)


async def create_tenant_key(call: Call, body: KeyInput) -> Any:
    """A new key of another tenant, made by whoever administers the tenants."""
    tenant = await administered(call)
    async with written_for(call.tx, tenant) as tx:
        made = await call.surface.keys.create(
            tx, **body.model_dump(), actor=call.by, correlation_id=call.correlation_id
        )
    return _shown_once(made)


async def list_tenant_keys(call: Call, query: PageQuery) -> Any:
    """The keys of another tenant, revoked ones too, the oldest first."""
    tenant = await administered(call)
    with walled_to(tenant):
        page = await call.surface.keys.list(tenant=tenant, limit=query.limit, cursor=query.cursor)
    return listed(page, _shown)


async def revoke_tenant_key(call: Call) -> Any:
    """Revoke a key of another tenant."""
    tenant = await administered(call)
    async with written_for(call.tx, tenant) as tx:
        revoked = await call.surface.keys.revoke(
            tx, call.path["key_id"], actor=call.by, correlation_id=call.correlation_id
        )
    return _shown(revoked)


def _shown(key: ApiKey) -> dict[str, Any]:
    shown = asdict(key)
    shown["created_by"] = shown.pop("actor")
    return shown


def _shown_once(made: NewKey) -> dict[str, Any]:
    return {**_shown(made.key), "key": made.secret}


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/keys",
        run=create_key,
        summary="Make an API key",
        tag="keys",
        status=201,
        scope="admin",
        body=KeyInput,
        answer=NewKeyOutput,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path="/v1/keys",
        run=list_keys,
        summary="List API keys",
        tag="keys",
        scope="admin",
        query=PageQuery,
        answer=Listed[KeyOutput],
    ),
    Route(
        method="DELETE",
        path="/v1/keys/{id}",
        run=revoke_key,
        summary="Revoke an API key",
        tag="keys",
        scope="admin",
        answer=KeyOutput,
    ),
    Route(
        method="POST",
        path="/v1/tenants/{tenant}/keys",
        run=create_tenant_key,
        summary="Make an API key of another tenant",
        tag="tenants",
        status=201,
        scope="admin",
        body=KeyInput,
        answer=NewKeyOutput,
        example=_EXAMPLE,
        problems=_ADMINISTERED,
    ),
    Route(
        method="GET",
        path="/v1/tenants/{tenant}/keys",
        run=list_tenant_keys,
        summary="List API keys of another tenant",
        tag="tenants",
        scope="admin",
        query=PageQuery,
        answer=Listed[KeyOutput],
        problems=_ADMINISTERED,
    ),
    Route(
        method="DELETE",
        path="/v1/tenants/{tenant}/keys/{key_id}",
        run=revoke_tenant_key,
        summary="Revoke an API key of another tenant",
        tag="tenants",
        scope="admin",
        answer=KeyOutput,
        problems=_ADMINISTERED,
    ),
)
