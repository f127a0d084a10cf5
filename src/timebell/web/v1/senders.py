"""`/v1/tenants/{tenant}/senders`: in whose name a tenant may send, approved by whoever administers the tenants."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from timebell.db.walls import walled_to
from timebell.web.access.tenants import written_for
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Output
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.v1.tenants import administered

Kind = Literal["email", "sms", "whatsapp"]
Value = Annotated[
    str,
    Field(
        min_length=1,
        max_length=254,
        description="A mail address or a whole domain, the sender of text messages, or a number of WhatsApp.",
    ),
]


class SenderInput(Input):
    """A sender that a tenant may use."""

    kind: Kind
    value: Value


class SenderQuery(Input):
    kind: Kind
    value: Value


class SenderOutput(Output):
    kind: Kind
    value: str
    approved_by: str | None
    approved_at: Instant | None


class SendersOutput(Output):
    tenant: str
    senders: Annotated[list[SenderOutput], Field(description="All of them; a tenant has at most 100.")]


async def list_senders(call: Call) -> Any:
    """The approved senders of a tenant; whoever does not administer the tenants sees their own."""
    tenant: str = call.path["tenant"]
    if tenant != call.tenant:
        tenant = await administered(call)
    with walled_to(tenant):
        found = await call.notify.senders.list(tenant=tenant)
    return {"tenant": tenant, "senders": [_shown(one) for one in found]}


async def approve_sender(call: Call, body: SenderInput) -> Any:
    """Let a tenant send in a name. Approving it again changes nothing."""
    tenant = await administered(call)
    async with written_for(call.tx, tenant) as tx:
        made = await call.notify.senders.approve(tx, body.kind, body.value, actor=call.by)
    return _shown(made)


async def withdraw_sender(call: Call, query: SenderQuery) -> None:
    """From the next message on it is not used any more; what the tenant sends comes from the provider's own sender."""
    tenant = await administered(call)
    async with written_for(call.tx, tenant) as tx:
        is_gone = await call.notify.senders.withdraw(tx, query.kind, query.value, actor=call.by)
    if not is_gone:
        raise Problem(404, "not_found", "that sender is not approved for the tenant")


def _shown(one: Any) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "value": one.value,
        "approved_by": one.actor,
        "approved_at": one.approved_at,
    }


_TAG: Final = "tenants"
_ADMINISTERED: Final = {403: "The key is not an admin key of the tenant `default`."}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/tenants/{tenant}/senders",
        run=list_senders,
        summary="List the approved senders of a tenant",
        tag=_TAG,
        scope="admin",
        answer=SendersOutput,
        problems=_ADMINISTERED,
    ),
    Route(
        method="POST",
        path="/v1/tenants/{tenant}/senders",
        run=approve_sender,
        summary="Approve a sender for a tenant",
        tag=_TAG,
        status=201,
        scope="admin",
        body=SenderInput,
        answer=SenderOutput,
        idempotency="optional",
        example={"kind": "email", "value": "example.org"},
        problems={
            **_ADMINISTERED,
            409: "The tenant has as many as it may, or the idempotency key is in use.",
        },
    ),
    Route(
        method="DELETE",
        path="/v1/tenants/{tenant}/senders",
        run=withdraw_sender,
        summary="Withdraw the approval of a sender",
        tag=_TAG,
        status=204,
        scope="admin",
        query=SenderQuery,
        idempotency="optional",
        problems={**_ADMINISTERED, 404: "That sender is not approved for the tenant."},
    ),
)
