"""`/api/messages`: what is to be sent and was, and why or why not."""

from __future__ import annotations

from typing import Final

from timebell.apps.sequences.answer_bodies import (
    MessageRow,
    message_row,
)
from timebell.apps.sequences.bodies import (
    MessagesQuery,
)
from timebell.apps.sequences.reading import Reading
from timebell.web import Call, Listed, PageQuery, Route, listed

_TAG: Final = "messages"


async def list_messages(call: Call, *, query: MessagesQuery) -> object:
    """The messages of this tenant in the order of their making: all, or those of a status, a contact or a sequence."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell, call.notify).messages(
            tx,
            statuses=None if query.status is None else [query.status],
            person=query.contact_id,
            sequence_id=query.sequence_id,
            limit=query.limit,
            cursor=query.cursor,
        )
    return listed(page, message_row)


async def get_message(call: Call) -> object:
    """One message and how it stands."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return message_row(await Reading(call.bell, call.notify).message(tx, call.path["id"]))


async def list_booking_messages(call: Call, *, query: PageQuery) -> object:
    """The messages of a booking, those that are to be sent, that were, and that are not, each with its reason."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell, call.notify).messages_of_booking(
            tx, call.path["id"], limit=query.limit, cursor=query.cursor
        )
    return listed(page, message_row)


ROUTES: Final = (
    Route(
        method="GET",
        path="/api/bookings/{id}/messages",
        run=list_booking_messages,
        summary="List the messages of a booking",
        tag=_TAG,
        acts_for="noted",
        query=PageQuery,
        answer=Listed[MessageRow],
    ),
    Route(
        method="GET",
        path="/api/messages",
        run=list_messages,
        summary="List messages",
        tag=_TAG,
        acts_for="noted",
        query=MessagesQuery,
        answer=Listed[MessageRow],
    ),
    Route(
        method="GET",
        path="/api/messages/{id}",
        run=get_message,
        summary="Read a message",
        tag=_TAG,
        acts_for="noted",
        answer=MessageRow,
    ),
)
