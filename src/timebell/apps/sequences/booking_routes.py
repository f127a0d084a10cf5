"""`/api/bookings`: what somebody booked, and what happens to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from timebell.apps.sequences.answer_bodies import (
    BookingRow,
    BookingSettingsRow,
    ChangedBookingRow,
    booking_row,
    diff_row,
    settings_row,
)
from timebell.apps.sequences.bodies import (
    BookingInput,
    BookingPatch,
    BookingSettingsInput,
    BookingsQuery,
)
from timebell.apps.sequences.bookings import Bookings
from timebell.apps.sequences.models import Happened, Transition
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.refusals import CODES
from timebell.apps.sequences.sequence_routes import by_caller
from timebell.web import Answer, Call, Listed, Route, listed

_TAG: Final = "bookings"
_PATH: Final = "/api/bookings"
_NAMES: Final = {"ends_at": "endAt", "starts_at": "startAt"}


async def add_booking(call: Call, *, body: BookingInput) -> Answer:
    """A booking, with all the messages that its status starts. `enrolled` is how many were scheduled."""
    happened = await _bookings(call).add(call.tx, body.booking(), by=by_caller(call))
    answer = _changed(happened)
    return Answer(
        content=answer.content,
        revision=answer.revision,
        headers={"location": f"{_PATH}/{happened.subject.id}"},
    )


async def list_bookings(call: Call, *, query: BookingsQuery) -> object:
    """The bookings of this tenant in the order of their coming: all, those of a status, or those of a contact."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell, call.notify).bookings(
            tx, status=query.status, person=query.contact_id, limit=query.limit, cursor=query.cursor
        )
    return listed(page, booking_row)


async def get_booking(call: Call) -> Answer:
    """One booking."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        booking = await _bookings(call).get(tx, call.path["id"])
    return Answer(content=booking_row(booking), revision=booking.revision)


async def change_booking(call: Call, *, body: BookingPatch) -> Answer:
    """Other dates move what is pending and have conditions checked again; what was sent stays."""
    bookings = _bookings(call)
    held = await bookings.hold(call.tx, call.path["id"])
    call.check_revision(held.revision)
    return _changed(await bookings.change(call.tx, held, body.change(held), by=by_caller(call)))


async def get_booking_settings(call: Call) -> object:
    """What bookings do by themselves."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return settings_row(await _bookings(call).settings(tx))


async def change_booking_settings(call: Call, *, body: BookingSettingsInput) -> object:
    """Have bookings check in at their start or complete at their end by themselves; also those that are there, which
    takes a moment."""
    settings = await _bookings(call).change_settings(
        call.tx, checks_in=body.check_in_at_start, completes=body.complete_at_end, by=by_caller(call)
    )
    return settings_row(settings)


def _moving(transition: Transition, says: str) -> Callable[[Call], Awaitable[Answer]]:
    async def move(call: Call) -> Answer:
        bookings = _bookings(call)
        held = await bookings.hold(call.tx, call.path["id"], transition)
        call.check_revision(held.revision)
        return _changed(await bookings.move(call.tx, held, transition, by=by_caller(call)))

    move.__name__ = f"{transition.replace('-', '_')}_booking"
    move.__doc__ = says
    return move


def _bookings(call: Call) -> Bookings:
    return Bookings(call.bell, call.notify)


def _changed(happened: Happened) -> Answer:
    content: dict[str, Any] = {
        **booking_row(happened.subject),
        "enrolled": happened.enrolled,
        "diff": diff_row(happened.diff),
    }
    return Answer(content=content, revision=happened.subject.revision)


def _transition(transition: Transition, summary: str, says: str) -> Route:
    return Route(
        method="POST",
        path=f"{_PATH}/{{id}}/{transition}",
        run=_moving(transition, says),
        summary=summary,
        tag=_TAG,
        scope="write",
        acts_for="noted",
        answer=ChangedBookingRow,
        idempotency="required",
        plans=True,
        problems={409: "it is in a state that this does not lead out of, or the idempotency key is in use"},
        codes=CODES,
    )


_EXAMPLE: Final = {
    "contactId": "0199a3c2-0000-7000-8000-000000000001",
    "subtype": "stay",
    "eventName": "Three nights by the lake",
    "location": "Seestrasse 4",
    "startAt": "2027-03-27T14:00:00Z",
    "endAt": "2027-03-30T09:00:00Z",
    "timezone": "Europe/Berlin",
}

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=add_booking,
        summary="Add a booking",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="noted",
        body=BookingInput,
        answer=ChangedBookingRow,
        idempotency="optional",
        plans=True,
        names=_NAMES,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path=_PATH,
        run=list_bookings,
        summary="List bookings",
        tag=_TAG,
        acts_for="noted",
        query=BookingsQuery,
        answer=Listed[BookingRow],
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}",
        run=get_booking,
        summary="Read a booking",
        tag=_TAG,
        acts_for="noted",
        answer=BookingRow,
    ),
    Route(
        method="PATCH",
        path=f"{_PATH}/{{id}}",
        run=change_booking,
        summary="Change a booking",
        tag=_TAG,
        scope="write",
        acts_for="noted",
        body=BookingPatch,
        answer=ChangedBookingRow,
        idempotency="optional",
        plans=True,
        names=_NAMES,
        example={"startAt": "2027-03-28T14:00:00Z", "endAt": "2027-03-31T09:00:00Z"},
    ),
    _transition("confirm", "Confirm a booking", "It is confirmed; what listens to that begins."),
    _transition("check-in", "Check a booking in", "The guest is there; what listens to that begins."),
    _transition("complete", "Complete a booking", "It is over; what listens to that begins."),
    _transition(
        "cancel",
        "Cancel a booking",
        "Everything that is pending is cancelled, and then what listens to the cancellation begins.",
    ),
    Route(
        method="GET",
        path="/api/booking-settings",
        run=get_booking_settings,
        summary="Read what bookings do by themselves",
        tag=_TAG,
        answer=BookingSettingsRow,
    ),
    Route(
        method="PATCH",
        path="/api/booking-settings",
        run=change_booking_settings,
        summary="Decide what bookings do by themselves",
        tag=_TAG,
        scope="admin",
        body=BookingSettingsInput,
        answer=BookingSettingsRow,
        idempotency="optional",
        example={"checkInAtStart": True},
    ),
)
