"""`/v1/recipients`: who can be told things, how they are reached, and what they do not want."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from timebell.errors import NotFound
from timebell.kernel.paging import Page
from timebell.notify import Address, OptOut, Recipient
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Listed, listed
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Answer, Route
from timebell.web.v1.recipient_bodies import (
    AddressInput,
    AddressOutput,
    ErasureOutput,
    ExportOutput,
    ExportQuery,
    OptOutInput,
    OptOutOutput,
    OptOutQuery,
    RecipientEdit,
    RecipientInput,
    RecipientOutput,
    RecipientsQuery,
    shown_opt_out,
    shown_recipient,
)


async def create_recipient(call: Call, body: RecipientInput) -> Answer:
    """Somebody who can be told things, acts in the apps, and owns what they make there."""
    made = await call.notify.recipients.add(call.tx, **body.model_dump(), actor=call.by)
    return replace(_shown_whole(made), headers={"location": f"/v1/recipients/{made.id}"})


async def list_recipients(call: Call, query: RecipientsQuery) -> dict[str, Any]:
    """The recipients of this tenant, the oldest first."""
    if query.external_id is None:
        page = await call.notify.recipients.list(
            tenant=call.tenant,
            newest_first=query.sort == "-created_at",
            limit=query.limit,
            cursor=query.cursor,
        )
        return listed(page, shown_recipient)
    try:
        found = await call.notify.recipients.find(query.external_id, tenant=call.tenant)
    except NotFound:
        return listed(Page(lines=()), shown_recipient)
    return listed(Page(lines=(found,)), shown_recipient)


async def get_recipient(call: Call) -> Answer:
    """One recipient."""
    return _shown_whole(await call.notify.recipients.get(call.path["id"], tenant=call.tenant))


async def edit_recipient(call: Call, body: RecipientEdit) -> Answer:
    """Change what is named. What waits for this recipient is decided anew."""
    changed = await call.notify.recipients.change(
        call.tx,
        call.path["id"],
        if_revision=call.if_revision,
        actor=call.by,
        **body.model_dump(exclude_unset=True),
    )
    return _shown_whole(changed)


async def erase_recipient(call: Call) -> ErasureOutput:
    """Forget who somebody is and what they were told. What was owed to them is withdrawn; ids and states stay."""
    if call.if_revision is not None:
        # A change of nothing compares the revision and holds it until all is erased.
        await call.notify.recipients.change(call.tx, call.path["id"], if_revision=call.if_revision)
    erasure = await call.notify.recipients.erase(call.tx, call.path["id"], actor=call.by)
    return ErasureOutput(
        id=erasure.recipient_id,
        withdrawn=list(erasure.withdrawn),
        too_late=list(erasure.too_late),
        undecided=list(erasure.undecided),
    )


async def export_recipient(call: Call, query: ExportQuery) -> ExportOutput:
    """Everything that is kept about somebody, as it is kept, a page at a time; secrets of addresses are left out."""
    page = await call.notify.recipients.export(
        call.path["id"], tenant=call.tenant, limit=query.limit, cursor=query.cursor
    )
    return ExportOutput(
        document=dict(page.document), next_cursor=page.next_cursor, has_more=page.next_cursor is not None
    )


async def add_address(call: Call, body: AddressInput) -> AddressOutput:
    """One more way to reach them. One that they had already is taken for good again."""
    address = Address(kind=body.kind, value=body.value, detail=body.detail)
    added = await call.notify.recipients.add_address(call.tx, call.path["id"], address, actor=call.by)
    return AddressOutput.model_validate(added)


async def remove_address(call: Call) -> None:
    """They are reached there no more."""
    await call.notify.recipients.remove_address(
        call.tx, call.path["id"], call.path["address_id"], actor=call.by
    )


async def add_opt_out(call: Call, body: OptOutInput) -> OptOutOutput:
    """They do not want this. What is critical ignores an opt-out of a topic, and never one of a channel."""
    await call.notify.recipients.opt_outs.add(
        call.tx, call.path["id"], topic=body.topic, channel=body.channel, source="api", actor=call.by
    )
    return shown_opt_out(OptOut(topic=body.topic, channel=body.channel))


async def remove_opt_out(call: Call, query: OptOutQuery) -> None:
    """They want it again."""
    is_gone = await call.notify.recipients.opt_outs.remove(
        call.tx, call.path["id"], topic=query.topic, channel=query.channel, actor=call.by
    )
    if not is_gone:
        raise Problem(404, "not_found", "the recipient has no opt-out of just this topic and channel")


def _shown_whole(recipient: Recipient) -> Answer:
    return Answer(content=shown_recipient(recipient), revision=recipient.revision)


_TAG: Final = "recipients"
_TAKEN: Final = {409: "The `external_id` stands for another recipient, or the idempotency key is in use."}
# Where a body has what an address is made of inside.
_ADDRESS_NAMES: Final = {
    "address.value": "value",
    "address.endpoint": "value",
    **{
        f"address.{name}": f"detail.{name}"
        for name in ("secret", "previous_secret", "keys", "keys.p256dh", "keys.auth")
    },
}
_EXAMPLE: Final = {
    "name": "Ada",
    "email": "ada@example.org",
    "timezone": "Europe/Berlin",
    "language": "de",
    "quiet_hours": {"start": "22:00", "end": "07:00"},
}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path="/v1/recipients",
        run=create_recipient,
        summary="Make a recipient",
        tag=_TAG,
        status=201,
        scope="write",
        body=RecipientInput,
        answer=RecipientOutput,
        idempotency="optional",
        example=_EXAMPLE,
        problems=_TAKEN,
    ),
    Route(
        method="GET",
        path="/v1/recipients",
        run=list_recipients,
        summary="List recipients",
        tag=_TAG,
        query=RecipientsQuery,
        answer=Listed[RecipientOutput],
    ),
    Route(
        method="GET",
        path="/v1/recipients/{id}",
        run=get_recipient,
        summary="Get a recipient",
        tag=_TAG,
        answer=RecipientOutput,
    ),
    Route(
        method="PATCH",
        path="/v1/recipients/{id}",
        run=edit_recipient,
        summary="Change a recipient",
        tag=_TAG,
        scope="write",
        body=RecipientEdit,
        answer=RecipientOutput,
        idempotency="optional",
        example={"timezone": "Europe/Vienna", "quiet_hours": None},
        problems=_TAKEN,
    ),
    Route(
        method="DELETE",
        path="/v1/recipients/{id}",
        run=erase_recipient,
        summary="Erase a recipient",
        tag=_TAG,
        scope="write",
        answer=ErasureOutput,
        idempotency="optional",
    ),
    Route(
        method="GET",
        path="/v1/recipients/{id}/export",
        run=export_recipient,
        summary="Export what is kept about a recipient",
        tag=_TAG,
        query=ExportQuery,
        answer=ExportOutput,
    ),
    Route(
        method="POST",
        path="/v1/recipients/{id}/addresses",
        run=add_address,
        summary="Add an address",
        tag=_TAG,
        status=201,
        scope="write",
        body=AddressInput,
        answer=AddressOutput,
        idempotency="optional",
        names=_ADDRESS_NAMES,
        example={"kind": "phone", "value": "+49 170 1234567"},
    ),
    Route(
        method="DELETE",
        path="/v1/recipients/{id}/addresses/{address_id}",
        run=remove_address,
        summary="Remove an address",
        tag=_TAG,
        status=204,
        scope="write",
        idempotency="optional",
    ),
    Route(
        method="POST",
        path="/v1/recipients/{id}/opt-outs",
        run=add_opt_out,
        summary="Add an opt-out",
        tag=_TAG,
        status=201,
        scope="write",
        body=OptOutInput,
        answer=OptOutOutput,
        idempotency="optional",
        example={"topic": "news", "channel": "email"},
    ),
    Route(
        method="DELETE",
        path="/v1/recipients/{id}/opt-outs",
        run=remove_opt_out,
        summary="Remove an opt-out",
        tag=_TAG,
        status=204,
        scope="write",
        query=OptOutQuery,
        idempotency="optional",
    ),
)
