"""`/api/availability`, `/api/meetings/suggest` and `/api/meetings/{id}/holds`: when people can be met."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from timebell.apps.meetings.availability import Availability
from timebell.apps.meetings.availability_bodies import (
    BlockEdit,
    BlockInput,
    BlockRow,
    HoldInput,
    HoldRow,
    Wish,
    block_row,
)
from timebell.apps.meetings.bodies import SlotRow
from timebell.apps.meetings.free_time import Block
from timebell.apps.meetings.holds import Holds
from timebell.apps.meetings.meeting_routes import by_caller, held
from timebell.apps.meetings.reading import Reading
from timebell.apps.meetings.refusals import CODES
from timebell.apps.meetings.suggesting import Suggesting
from timebell.web import Answer, Call, Listed, Page, PageQuery, Route, listed

_AVAILABILITY: Final = "meetings: availability"
_MEETINGS: Final = "meetings"


async def create_availability(call: Call, *, body: BlockInput) -> Answer:
    """Hours in which the acting recipient may be met. Whoever has none may be met at any time."""
    return _shown(await Availability(call.bell).add(call.tx, call.person, body.hours(), actor=call.by))


async def list_availability(call: Call, *, query: PageQuery) -> object:
    """The blocks of the acting recipient, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Availability(call.bell).list(tx, call.person, limit=query.limit, cursor=query.cursor)
    return listed(page, block_row)


async def get_availability(call: Call) -> Answer:
    """One block."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return _shown(await Availability(call.bell).get(tx, call.person, call.path["id"]))


async def edit_availability(call: Call, *, body: BlockEdit) -> Answer:
    """Changes what it names. What was accepted stays accepted."""
    block = await _held_block(call)
    edited = await Availability(call.bell).edit(call.tx, block, body.hours(block.hours), actor=call.by)
    return _shown(edited)


async def delete_availability(call: Call) -> Answer:
    """After the last block one may be met at any time again."""
    await Availability(call.bell).remove(call.tx, await _held_block(call), actor=call.by)
    return Answer(content=None, status=204)


async def suggest_slots(call: Call, *, body: Wish) -> object:
    """The first slots at which everybody can, the acting recipient included: inside the blocks of all, and free of
    accepted meetings, of holds, and of what their own calendars say.

    There is no next page: for more, ask for a higher `limit` or for a later `window`.
    """
    slots = await Suggesting(call.bell, call.notify).suggest(
        call.tx,
        [call.person, *body.participants],
        body.window.slot(),
        duration=body.duration,
        interval=body.interval,
        limit=body.limit,
    )
    return listed(Page(lines=tuple(slots)), SlotRow.model_validate)


async def hold_slot(call: Call, *, body: HoldInput) -> HoldRow:
    """Keeps one of the proposed slots free, for ten minutes if nothing else is said. A person has one hold on a
    meeting: the next takes its place. Everybody who takes part is busy then, for all other meetings."""
    meeting = await held(call)
    hold = await Holds(call.bell).add(
        call.tx,
        meeting,
        body.slot.slot(),
        lasts=timedelta(minutes=body.minutes),
        person=call.person,
        by=by_caller(call),
    )
    return HoldRow.model_validate(hold)


async def list_holds(call: Call, *, query: PageQuery) -> object:
    """The holds on a meeting that have not ended."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        meeting = await Reading(call.bell).get(tx, call.person, call.path["id"])
        page = await Holds(call.bell).list(tx, meeting.id, limit=query.limit, cursor=query.cursor)
    return listed(page, HoldRow.model_validate)


async def release_slot(call: Call) -> Answer:
    """Ends the hold of the acting recipient. Where there is none, that is well."""
    meeting = await held(call)
    await Holds(call.bell).remove(call.tx, meeting, person=call.person, by=by_caller(call))
    return Answer(content=None, status=204)


async def _held_block(call: Call) -> Block:
    block = await Availability(call.bell).hold(call.tx, call.person, call.path["id"])
    call.check_revision(block.revision)
    return block


def _shown(block: Block) -> Answer:
    return Answer(content=block_row(block), revision=block.revision)


_SLOT: Final = {"start": "2027-03-05T09:00:00Z", "end": "2027-03-05T10:00:00Z"}
_BLOCK: Final = {"day_of_week": 1, "start_time": "09:00", "end_time": "12:00", "timezone": "Europe/Berlin"}
_WISH: Final = {
    "participants": ["0199a3c2-0000-7000-8000-000000000001"],
    "duration": "PT30M",
    "window": {"start": "2027-03-08T00:00:00Z", "end": "2027-03-13T00:00:00Z"},
}
_REFUSED: Final = {
    403: "the acting recipient takes no part in it",
    409: "it is not pending, or somebody is busy then (`slot_conflict`, `next_free`)",
}

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/availability",
        run=create_availability,
        summary="Say when one may be met",
        tag=_AVAILABILITY,
        status=201,
        scope="write",
        acts_for="recipient",
        body=BlockInput,
        answer=BlockRow,
        idempotency="optional",
        example=_BLOCK,
    ),
    Route(
        method="GET",
        path="/api/availability",
        run=list_availability,
        summary="List availability blocks",
        tag=_AVAILABILITY,
        acts_for="recipient",
        query=PageQuery,
        answer=Listed[BlockRow],
    ),
    Route(
        method="GET",
        path="/api/availability/{id}",
        run=get_availability,
        summary="Read an availability block",
        tag=_AVAILABILITY,
        acts_for="recipient",
        answer=BlockRow,
    ),
    Route(
        method="PATCH",
        path="/api/availability/{id}",
        run=edit_availability,
        summary="Change an availability block",
        tag=_AVAILABILITY,
        scope="write",
        acts_for="recipient",
        body=BlockEdit,
        answer=BlockRow,
        idempotency="optional",
        example={"end_time": "13:00"},
    ),
    Route(
        method="DELETE",
        path="/api/availability/{id}",
        run=delete_availability,
        summary="Delete an availability block",
        tag=_AVAILABILITY,
        status=204,
        scope="write",
        acts_for="recipient",
        idempotency="optional",
    ),
    Route(
        method="POST",
        path="/api/meetings/suggest",
        run=suggest_slots,
        summary="Suggest when to meet",
        tag=_MEETINGS,
        acts_for="recipient",
        body=Wish,
        answer=Listed[SlotRow],
        example=_WISH,
    ),
    Route(
        method="POST",
        path="/api/meetings/{id}/holds",
        run=hold_slot,
        summary="Hold a slot",
        tag=_MEETINGS,
        status=201,
        scope="write",
        acts_for="recipient",
        body=HoldInput,
        answer=HoldRow,
        idempotency="optional",
        plans=True,
        example={"slot": _SLOT},
        problems=_REFUSED,
        codes=CODES,
    ),
    Route(
        method="GET",
        path="/api/meetings/{id}/holds",
        run=list_holds,
        summary="List the holds on a meeting",
        tag=_MEETINGS,
        acts_for="recipient",
        query=PageQuery,
        answer=Listed[HoldRow],
    ),
    Route(
        method="DELETE",
        path="/api/meetings/{id}/holds",
        run=release_slot,
        summary="Release a held slot",
        tag=_MEETINGS,
        status=204,
        scope="write",
        acts_for="recipient",
        idempotency="optional",
        problems={403: _REFUSED[403]},
        codes=CODES,
    ),
)
