"""`/v1/suppressions`: addresses that nothing may be sent to, whoever they belong to."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from timebell.kernel.paging import Page
from timebell.notify import Channel
from timebell.notify.people.suppressions import Suppression
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Listed, Output, listed
from timebell.web.operation.problems import FieldError, Problem
from timebell.web.operation.routes import Route

Value = Annotated[str, Field(min_length=1, max_length=2_000)]
MessageClass = Literal["transactional", "marketing"]


class SuppressionsQuery(Input):
    """All of the list, or with `channel` and `address` what is suppressed of that address."""

    limit: Annotated[int, Field(ge=1, le=500, strict=False)] = 50
    cursor: Annotated[str, Field(min_length=1, max_length=16_000)] | None = None
    channel: Channel | None = None
    address: Value | None = None


class SuppressionInput(Input):
    """An address that is to get nothing, or with a `message_class` nothing of that class."""

    channel: Channel
    address: Value
    message_class: MessageClass | None = None
    reason: Annotated[str, Field(min_length=1, max_length=2_000)] = "manual"


class SuppressionQuery(Input):
    channel: Channel
    address: Value
    message_class: MessageClass | None = None


class SuppressionOutput(Output):
    """`address` is a hash where it belonged to a recipient that was erased."""

    channel: Channel
    address: str
    message_class: MessageClass | None
    reason: str
    source: str
    is_hidden: bool
    created_at: Instant


class AddedSuppression(Output):
    """`is_new` is false where it stood there already; then it keeps its reason."""

    is_new: bool


async def list_suppressions(call: Call, query: SuppressionsQuery) -> dict[str, Any]:
    """What is on the list, by channel and address."""
    if query.channel is not None and query.address is not None:
        found = await call.notify.suppressions.find(
            channel=query.channel, address=query.address, tenant=call.tenant
        )
        return listed(Page(lines=found), _shown)
    if query.channel is not None or query.address is not None:
        missing = "address" if query.address is None else "channel"
        message = "an address belongs to a channel; give both or neither"
        error = FieldError(pointer=f"?{missing}", code="invalid_parameter", message=message)
        raise Problem(422, "invalid_input", f"?{missing}: {message}", errors=[error])
    page = await call.notify.suppressions.list(tenant=call.tenant, limit=query.limit, cursor=query.cursor)
    return listed(page, _shown)


async def add_suppression(call: Call, body: SuppressionInput) -> AddedSuppression:
    """Send nothing there any more; not even what is critical."""
    is_new = await call.notify.suppressions.add(
        call.tx,
        channel=body.channel,
        address=body.address,
        message_class=body.message_class or "",
        reason=body.reason,
        source=call.by,
    )
    return AddedSuppression(is_new=is_new)


async def remove_suppression(call: Call, query: SuppressionQuery) -> None:
    """Send there again. Who took it off the list is recorded."""
    is_gone = await call.notify.suppressions.remove(
        call.tx,
        channel=query.channel,
        address=query.address,
        message_class=query.message_class or "",
        actor=call.by,
    )
    if not is_gone:
        raise Problem(404, "not_found", "that address is not on the list, or for another class of message")


def _shown(one: Suppression) -> SuppressionOutput:
    return SuppressionOutput(
        channel=one.channel,
        address=one.address,
        message_class=one.message_class or None,
        reason=one.reason,
        source=one.source,
        is_hidden=one.is_hidden,
        created_at=one.created_at,
    )


_TAG: Final = "suppressions"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/suppressions",
        run=list_suppressions,
        summary="List suppressed addresses",
        tag=_TAG,
        query=SuppressionsQuery,
        answer=Listed[SuppressionOutput],
    ),
    Route(
        method="POST",
        path="/v1/suppressions",
        run=add_suppression,
        summary="Suppress an address",
        tag=_TAG,
        status=201,
        scope="write",
        body=SuppressionInput,
        answer=AddedSuppression,
        idempotency="optional",
        example={"channel": "email", "address": "ada@example.org", "reason": "asked by phone"},
    ),
    Route(
        method="DELETE",
        path="/v1/suppressions",
        run=remove_suppression,
        summary="Take an address off the list",
        tag=_TAG,
        status=204,
        scope="write",
        query=SuppressionQuery,
        idempotency="optional",
        problems={404: "That address is not on the list."},
    ),
)
