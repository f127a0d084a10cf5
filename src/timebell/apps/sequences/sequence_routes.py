"""`/api/sequences`: what an event starts, as data, and the events of any subject."""

from __future__ import annotations

from typing import Final

from timebell.apps.sequences.answer_bodies import (
    ApplicationRow,
    ChangedSequenceRow,
    Funnel,
    HappenedRow,
    SequenceRow,
    application_row,
    diff_row,
    sequence_row,
)
from timebell.apps.sequences.bodies import (
    ApplyQuery,
    EventInput,
    SequenceInput,
    SequencePatch,
    SequencesQuery,
)
from timebell.apps.sequences.events import Events
from timebell.apps.sequences.models import By
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.refusals import CODES
from timebell.apps.sequences.service import Sequences
from timebell.web import Answer, Call, Listed, PageQuery, Route, listed

_TAG: Final = "sequences"
_PATH: Final = "/api/sequences"


async def save_sequence(call: Call, *, body: SequenceInput) -> Answer:
    """A new sequence. Its templates must be there, and speak only of what a booking, or the facts, have."""
    sequence = await _sequences(call).save(call.tx, body.sequence(), by=by_caller(call))
    headers = {"location": f"{_PATH}/{sequence.id}"}
    return Answer(content=sequence_row(sequence), revision=sequence.revision, headers=headers)


async def list_sequences(call: Call, *, query: SequencesQuery) -> object:
    """The sequences of this tenant in the order of their making, all or those that an event starts."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell, call.notify).sequences(
            tx, trigger_event=query.trigger_event, limit=query.limit, cursor=query.cursor
        )
    return listed(page, sequence_row)


async def get_sequence(call: Call) -> Answer:
    """One sequence, as whoever enters it now begins with it."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        sequence = await _sequences(call).get(tx, call.path["id"])
    return Answer(content=sequence_row(sequence), revision=sequence.revision)


async def change_sequence(call: Call, *, body: SequencePatch, query: ApplyQuery) -> Answer:
    """Other steps or conditions are a new version: whoever is enrolled keeps theirs, unless it is applied to them.

    With `apply=true` it is, to the first of them at once and to the others in the background; `diff` is what that has
    changed by now, and `application` tells how far it has come. With `dry_run=true` besides, nothing is kept.
    """
    sequences, by = _sequences(call), by_caller(call)
    held = await sequences.hold(call.tx, call.path["id"])
    call.check_revision(held.revision)
    changed = await sequences.change(call.tx, held, body.change(), by=by)
    content = {**sequence_row(changed), "diff": None, "application": None}
    if query.apply or call.is_dry_run:
        application = await sequences.apply(call.tx, changed, by=by)
        content |= {"diff": diff_row(application.counts), "application": application_row(application)}
    return Answer(content=content, revision=changed.revision)


async def delete_sequence(call: Call) -> Answer:
    """Nobody enters it any more, and whoever is in it gets nothing further from it."""
    sequences = _sequences(call)
    held = await sequences.hold(call.tx, call.path["id"])
    call.check_revision(held.revision)
    await sequences.delete(call.tx, held, by=by_caller(call))
    return Answer(content=None, status=204)


async def get_sequence_funnel(call: Call) -> object:
    """How many messages of each step are scheduled, and what became of the others."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return {"steps": await Reading(call.bell, call.notify).funnel(tx, call.path["id"])}


async def list_sequence_applications(call: Call, *, query: PageQuery) -> object:
    """What was applied to those who are enrolled, the first first, and how far each has come."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        await _sequences(call).get(tx, call.path["id"])
        page = await Reading(call.bell, call.notify).applications(
            tx, call.path["id"], limit=query.limit, cursor=query.cursor
        )
    return listed(page, application_row)


async def get_sequence_application(call: Call) -> object:
    """How far a version has come that is applied to those who are enrolled."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return application_row(
            await _sequences(call).application(tx, call.path["id"], call.path["application_id"])
        )


async def tell_event(call: Call, *, body: EventInput) -> object:
    """Something happened to a subject of yours: the sequences that listen to it begin, and what it says of the subject
    moves what is pending. The same event again starts nothing again, unless it names another `entry`."""
    happened = await Events(call.bell, call.notify).happen(call.tx, body.happened(), by=by_caller(call))
    return {"subject": body.subject, "enrolled": happened.enrolled, "diff": diff_row(happened.diff)}


def by_caller(call: Call) -> By:
    return By(name=call.by, correlation_id=call.correlation_id)


def _sequences(call: Call) -> Sequences:
    return Sequences(call.bell, call.notify)


_EXAMPLE: Final = {
    "name": "Before the stay",
    "triggerEvent": "booking_confirmed",
    "bookingSubtype": "stay",
    "conditions": {"minDaysOut": 1},
    "steps": [
        {
            "key": "week-before",
            "anchor": "booking_start",
            "offset": "-P7D",
            "at": "09:00",
            "channel": "email",
            "templateId": "stay.before_week",
        }
    ],
}
_EVENT: Final = {
    "event": "trial_started",
    "subject": "trial:42",
    "facts": {
        "start": "2027-03-01T09:00:00Z",
        "end": "2027-03-15T09:00:00Z",
        "timezone": "Europe/Berlin",
        "contacts": ["0199a3c2-0000-7000-8000-000000000001"],
        "plan": "team",
    },
}
_UNFIT: Final = {422: "a template is missing or does not fit (`template_unfit`), or a field is wrong"}

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=save_sequence,
        summary="Save a sequence",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="noted",
        body=SequenceInput,
        answer=SequenceRow,
        idempotency="optional",
        plans=True,
        example=_EXAMPLE,
        problems={**_UNFIT, 409: "the tenant has as many sequences as one may have"},
        codes=CODES,
    ),
    Route(
        method="GET",
        path=_PATH,
        run=list_sequences,
        summary="List sequences",
        tag=_TAG,
        acts_for="noted",
        query=SequencesQuery,
        answer=Listed[SequenceRow],
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}",
        run=get_sequence,
        summary="Read a sequence",
        tag=_TAG,
        acts_for="noted",
        answer=SequenceRow,
    ),
    Route(
        method="PATCH",
        path=f"{_PATH}/{{id}}",
        run=change_sequence,
        summary="Change a sequence",
        tag=_TAG,
        scope="write",
        acts_for="noted",
        body=SequencePatch,
        query=ApplyQuery,
        answer=ChangedSequenceRow,
        idempotency="optional",
        plans=True,
        example={"active": False},
        problems=_UNFIT,
        codes=CODES,
    ),
    Route(
        method="DELETE",
        path=f"{_PATH}/{{id}}",
        run=delete_sequence,
        summary="Delete a sequence",
        tag=_TAG,
        status=204,
        scope="write",
        acts_for="noted",
        idempotency="optional",
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}/funnel",
        run=get_sequence_funnel,
        summary="Count the messages of a sequence",
        tag=_TAG,
        acts_for="noted",
        answer=Funnel,
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}/applications",
        run=list_sequence_applications,
        summary="List what was applied to those who are enrolled",
        tag=_TAG,
        acts_for="noted",
        query=PageQuery,
        answer=Listed[ApplicationRow],
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}/applications/{{application_id}}",
        run=get_sequence_application,
        summary="Read how far a version has been applied",
        tag=_TAG,
        acts_for="noted",
        answer=ApplicationRow,
    ),
    Route(
        method="POST",
        path=f"{_PATH}/events",
        run=tell_event,
        summary="Tell of an event of any subject",
        tag=_TAG,
        scope="write",
        acts_for="noted",
        body=EventInput,
        answer=HappenedRow,
        idempotency="optional",
        plans=True,
        names={"timezone": "facts.timezone", "ends_at": "facts.end"},
        example=_EVENT,
    ),
)
