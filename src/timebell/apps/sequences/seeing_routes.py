"""Routes for previews, explanations and calendars: what would be sent, when and why, and why not. Nothing here changes
anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from starlette.responses import Response

from timebell.apps.sequences.answer_bodies import message_row
from timebell.apps.sequences.bookings import Bookings
from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.explaining import Explaining
from timebell.apps.sequences.models import Message, Subject
from timebell.apps.sequences.preview_bodies import PreviewRow, SequencePreviewInput, preview_row
from timebell.apps.sequences.previewing import Previewing, Question
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.refusals import unknown_contact
from timebell.apps.sequences.seeing_bodies import (
    CalendarRow,
    ExplanationRow,
    WhyNotQuery,
    WhyNotRow,
    calendar_row,
    explanation_row,
)
from timebell.apps.sequences.sentences import summary
from timebell.apps.sequences.store import SequenceStore
from timebell.kernel import Transaction
from timebell.rules.ics import CalendarEntry, calendar_file
from timebell.web import Call, Listed, PageQuery, Route, listed

_PAGE: Final = 500
_PAGES_MAX: Final = 10


async def preview_sequence(call: Call, *, body: SequencePreviewInput) -> object:
    """The messages that the sequence would make for a booking or another subject, real or invented, each with its time,
    its channel and its text, or with the reason why it would not be sent. Nothing is written or sent.

    Opt-outs, suppressions, quiet hours and caps are asked at sending; `/v1/why-not` says what they would do.
    """
    previewing = Previewing(call.bell, call.notify)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        found = None
        if body.booking_id is not None:
            found = await Bookings(call.bell, call.notify).get(tx, body.booking_id)
        now = await SequenceStore(call.bell.clock).read_clock(tx)
        question = body.question(found, call.tenant, now)
        if found is None:
            await _check_people(call, tx, question, is_booking=body.booking is not None)
        sheet = await previewing.read(tx, call.path["id"], question)
    return preview_row(await previewing.show(call.tenant, sheet, question))


async def explain_message(call: Call) -> object:
    """Why a message is sent then, or why not, in words: what it is counted from, its conditions as they were measured,
    and what was considered once it was due."""
    explaining = Explaining(call.bell, call.notify)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        grounds = await explaining.read(tx, call.path["id"])
    return explanation_row(await explaining.explain(call.tenant, grounds))


async def list_why_not(call: Call, *, query: WhyNotQuery) -> object:
    """The messages that did not go to a contact, in the order of their making, each with the reason in a sentence."""
    explaining = Explaining(call.bell, call.notify)
    await call.notify.recipients.get(call.path["id"], tenant=call.tenant)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await explaining.not_sent(tx, call.path["id"], limit=query.limit, cursor=query.cursor)
    whys = {message.id: await explaining.why(call.tenant, message) for message in page.lines}
    return listed(page, lambda message: {**message_row(message), "why": whys[message.id]})


async def list_booking_calendar(call: Call, *, query: PageQuery) -> object:
    """The messages of a booking in the order of their instants, also those that were and those that are not sent."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        booking = await Bookings(call.bell, call.notify).get(tx, call.path["id"])
        page = await Reading(call.bell, call.notify).calendar(
            tx, booking, limit=query.limit, cursor=query.cursor
        )
        names = await _names(call, tx, page.lines)
    return listed(
        page, lambda message: calendar_row(message, names.get(message.recipient_id), booking.timezone)
    )


async def get_booking_calendar(call: Call) -> Response:
    """The same as iCalendar, for any calendar program: an entry for each message at its instant. One that is not sent
    is a cancelled entry, which says why."""
    messages: list[Message] = []
    names: dict[UUID, str] = {}
    async with call.bell.transaction(tenant=call.tenant) as tx:
        booking = await Bookings(call.bell, call.notify).get(tx, call.path["id"])
        cursor: str | None = None
        for _ in range(_PAGES_MAX):
            page = await Reading(call.bell, call.notify).calendar(tx, booking, limit=_PAGE, cursor=cursor)
            messages += page.lines
            names |= await _names(call, tx, page.lines)
            cursor = page.next_cursor
            if cursor is None:
                break
    # When something changed last is when the file was made, so that the same calendar is the same file.
    made_at = max([booking.updated_at, *(one.sent_at for one in messages if one.sent_at is not None)])
    entries = [_entry(one, booking, names.get(one.recipient_id)) for one in messages]
    text = calendar_file(entries, made_at=made_at, name=str(booking.facts["eventName"]))
    return Response(text, media_type="text/calendar", headers={"cache-control": "private, max-age=60"})


def _entry(message: Message, booking: Subject, name: str | None) -> CalendarEntry:
    assert message.due_at is not None, "what has no instant is in no calendar"
    return CalendarEntry(
        uid=f"{message.id}@timebell",
        at=message.due_at,
        title=f"{message.step}: {name or 'a contact who is gone'} ({message.channel})",
        text=summary(message, None, booking.timezone),
        status="CANCELLED" if message.status in ("cancelled", "skipped") else "CONFIRMED",
        # It rises whenever the dates do change, which is what programs ask of it.
        sequence=booking.revision,
    )


async def _names(call: Call, tx: Transaction, messages: Sequence[Message]) -> dict[UUID, str]:
    ids = sorted({message.recipient_id for message in messages})
    people = await call.notify.recipients.get_many(tx, ids) if ids else {}
    return {UUID(int=id.int): one.name for id, one in people.items()}


async def _check_people(call: Call, tx: Transaction, question: Question, *, is_booking: bool) -> None:
    """Those who are not invented must be there."""
    there = await Enrolling(call.bell, call.notify).people(tx, [question.subject])
    for place, (id, _) in enumerate(question.subject.people):
        if id not in there and id not in question.invented:
            further = f"booking/contacts/{place - 1}" if place else "booking/contactId"
            raise unknown_contact(further if is_booking else f"subject/contacts/{place}", id)


_PREVIEW: Final = {
    "booking": {
        "contact": {"name": "Ada", "language": "de", "email": "ada@example.org"},
        "subtype": "stay",
        "eventName": "Three nights by the lake",
        "startAt": "2027-03-27T14:00:00Z",
        "endAt": "2027-03-30T09:00:00Z",
        "timezone": "Europe/Berlin",
    },
    "eventAt": "2027-03-01T09:00:00Z",
}

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/sequences/{id}/preview",
        run=preview_sequence,
        # It only reads, and opens a transaction for no longer than that.
        shared=preview_sequence,
        summary="Preview what a sequence would tell",
        tag="sequences",
        acts_for="noted",
        body=SequencePreviewInput,
        answer=PreviewRow,
        example=_PREVIEW,
    ),
    Route(
        method="GET",
        path="/api/messages/{id}/explain",
        run=explain_message,
        summary="Explain a message",
        tag="messages",
        acts_for="noted",
        answer=ExplanationRow,
    ),
    Route(
        method="GET",
        path="/api/contacts/{id}/why-not",
        run=list_why_not,
        summary="List what did not go to a contact, and why",
        tag="messages",
        acts_for="noted",
        query=WhyNotQuery,
        answer=Listed[WhyNotRow],
    ),
    Route(
        method="GET",
        path="/api/bookings/{id}/calendar",
        run=list_booking_calendar,
        summary="List the messages of a booking by their instants",
        tag="messages",
        acts_for="noted",
        query=PageQuery,
        answer=Listed[CalendarRow],
    ),
    Route(
        method="GET",
        path="/api/bookings/{id}/calendar.ics",
        run=get_booking_calendar,
        summary="The messages of a booking (iCalendar)",
        tag="messages",
        acts_for="noted",
        media_type="text/calendar",
    ),
)
