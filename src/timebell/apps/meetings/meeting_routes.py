"""`/api/meetings`: proposed, answered, moved and remembered, for those who take part."""

from __future__ import annotations

from typing import Any, Final

from timebell.apps.meetings.bodies import (
    Acceptance,
    ChangedMeetingRow,
    MeetingInput,
    MeetingRow,
    MeetingsQuery,
    ParticipantInput,
    ReminderRow,
    Rescheduling,
    SettingsInput,
    SettingsRow,
    StatusEventRow,
    Withdrawal,
    changed_meeting_row,
    meeting_row,
    reminder_row,
)
from timebell.apps.meetings.models import By, Change, Meeting
from timebell.apps.meetings.reading import Reading
from timebell.apps.meetings.refusals import CODES
from timebell.apps.meetings.service import Meetings
from timebell.web import Answer, Call, Listed, PageQuery, Route, listed

_TAG: Final = "meetings"


async def propose_meeting(call: Call, *, body: MeetingInput) -> Answer:
    """The acting recipient proposes it and takes part. Everybody else who does is told."""
    meeting = await _meetings(call).propose(call.tx, call.person, body.meeting(), by=by_caller(call))
    return _shown(meeting)


async def list_meetings(call: Call, *, query: MeetingsQuery) -> object:
    """The meetings that the acting recipient takes part in, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell).list(
            tx,
            call.person,
            query.wanted(),
            newest_first=query.sort == "-created_at",
            limit=query.limit,
            cursor=query.cursor,
        )
    return listed(page, meeting_row)


async def get_meeting(call: Call) -> Answer:
    """One meeting that the acting recipient takes part in."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return _shown(await Reading(call.bell).get(tx, call.person, call.path["id"]))


async def get_meeting_lineage(call: Call, *, query: PageQuery) -> object:
    """The meeting with all that it was rescheduled from and into, the first of them first, whichever is asked for."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell).lineage(
            tx, call.person, call.path["id"], limit=query.limit, cursor=query.cursor
        )
    return listed(page, meeting_row)


async def list_meeting_events(call: Call, *, query: PageQuery) -> object:
    """What became of a meeting: each transition with who did it and why, in order."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell).events(
            tx, call.person, call.path["id"], limit=query.limit, cursor=query.cursor
        )
    return listed(page, StatusEventRow.model_validate)


async def list_meeting_reminders(call: Call, *, query: PageQuery) -> object:
    """The reminders of a meeting, those that are owed and those that came to an end."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Reading(call.bell).reminders(
            tx, call.person, call.path["id"], limit=query.limit, cursor=query.cursor
        )
    return listed(page, reminder_row)


async def accept_meeting(call: Call, *, body: Acceptance) -> Answer:
    """Takes place in that slot: everybody is told, reminded and busy. The first who accepts decides for all."""
    meeting = await held(call)
    return _changed(await _meetings(call).accept(call.tx, meeting, body.slot.slot(), by=by_caller(call)))


async def deny_meeting(call: Call, *, body: Withdrawal) -> Answer:
    """Does not take place; the requester is told."""
    meeting = await held(call)
    return _changed(await _meetings(call).deny(call.tx, meeting, body.reason, by=by_caller(call)))


async def reschedule_meeting(call: Call, *, body: Rescheduling) -> Answer:
    """Answers with the new meeting that takes its place, proposed by the acting recipient to the same people."""
    meeting = await held(call)
    slots = [each.slot() for each in body.proposed_slots]
    return _changed(
        await _meetings(call).reschedule(call.tx, meeting, slots, body.reason, by=by_caller(call))
    )


async def cancel_meeting(call: Call, *, body: Withdrawal) -> Answer:
    """Does not take place after all: nobody is reminded any more, and everybody is told."""
    meeting = await held(call)
    return _changed(await _meetings(call).cancel(call.tx, meeting, body.reason, by=by_caller(call)))


async def complete_meeting(call: Call) -> Answer:
    """Has taken place. At the end of its slot a meeting is completed by itself."""
    meeting = await held(call)
    return _changed(await _meetings(call).complete(call.tx, meeting, by=by_caller(call)))


async def add_meeting_participant(call: Call, *, body: ParticipantInput) -> Answer:
    """One more takes part, is told so and reminded as the others. Somebody who does already stays."""
    meeting = await held(call)
    return _changed(
        await _meetings(call).add_participant(call.tx, meeting, body.participant_id, by=by_caller(call))
    )


async def remove_meeting_participant(call: Call) -> Answer:
    """Takes no part any more, and is not reminded. The requester removes anybody else; everybody else may leave."""
    meeting = await held(call)
    person = call.path["participant_id"]
    return _changed(await _meetings(call).remove_participant(call.tx, meeting, person, by=by_caller(call)))


async def get_meeting_settings(call: Call) -> SettingsRow:
    """When people are reminded of their meetings."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return SettingsRow.model_validate(await Reading(call.bell).settings(tx))


async def change_meeting_settings(call: Call, *, body: SettingsInput) -> SettingsRow:
    """Changes what is named, for the meetings that are on as well, which takes a moment."""
    offsets = body.reminder_offsets_min
    settings = await _meetings(call).change_settings(
        call.tx,
        offsets_min=None if offsets is None else list(dict.fromkeys(offsets)),
        attempts_max=body.reminder_attempts_max,
        by=by_caller(call),
    )
    return SettingsRow.model_validate(settings)


def by_caller(call: Call) -> By:
    return By(person=call.actor, name=call.by, correlation_id=call.correlation_id)


async def held(call: Call) -> Meeting:
    """The meeting that the path names, held: 404 where there is none, then 403, then 412."""
    meeting = await _meetings(call).hold(call.tx, call.path["id"], by=by_caller(call))
    call.check_revision(meeting.revision)
    return meeting


def _meetings(call: Call) -> Meetings:
    return Meetings(call.bell, call.notify)


def _shown(meeting: Meeting) -> Answer:
    return Answer(content=meeting_row(meeting), revision=meeting.revision)


def _changed(change: Change) -> Answer:
    return Answer(content=changed_meeting_row(change), revision=change.meeting.revision)


def _transition(verb: str, run: Any, summary: str, **more: Any) -> Route:
    return Route(
        method="POST",
        path=f"/api/meetings/{{id}}/{verb}",
        run=run,
        summary=summary,
        tag=_TAG,
        scope="write",
        acts_for="recipient",
        answer=ChangedMeetingRow,
        plans=True,
        **{"idempotency": "required", "problems": _REFUSED, "codes": CODES, **more},
    )


_SLOT: Final = {"start": "2027-03-05T09:00:00Z", "end": "2027-03-05T10:00:00Z"}
_EXAMPLE: Final = {
    "title": "Quarterly review",
    "participants": ["0199a3c2-0000-7000-8000-000000000001"],
    "timezone": "Europe/Berlin",
    "proposed_slots": [_SLOT],
    "location": "Room 4",
}
_REFUSED: Final = {
    403: "the acting recipient takes no part in it, or may not do that",
    409: "it is in a state that this does not lead out of",
}
_TAKEN: Final = {**_REFUSED, 409: f"{_REFUSED[409]}, or somebody is busy then (`slot_conflict`, `next_free`)"}

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/meetings",
        run=propose_meeting,
        summary="Propose a meeting",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="recipient",
        body=MeetingInput,
        answer=MeetingRow,
        idempotency="optional",
        plans=True,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path="/api/meetings",
        run=list_meetings,
        summary="List meetings",
        tag=_TAG,
        acts_for="recipient",
        query=MeetingsQuery,
        answer=Listed[MeetingRow],
    ),
    Route(
        method="GET",
        path="/api/meetings/{id}",
        run=get_meeting,
        summary="Read a meeting",
        tag=_TAG,
        acts_for="recipient",
        answer=MeetingRow,
    ),
    Route(
        method="GET",
        path="/api/meetings/{id}/lineage",
        run=get_meeting_lineage,
        summary="Read the lineage of a meeting",
        tag=_TAG,
        acts_for="recipient",
        query=PageQuery,
        answer=Listed[MeetingRow],
    ),
    Route(
        method="GET",
        path="/api/meetings/{id}/events",
        run=list_meeting_events,
        summary="Read what became of a meeting",
        tag=_TAG,
        acts_for="recipient",
        query=PageQuery,
        answer=Listed[StatusEventRow],
    ),
    Route(
        method="GET",
        path="/api/meetings/{id}/reminders",
        run=list_meeting_reminders,
        summary="List the reminders of a meeting",
        tag=_TAG,
        acts_for="recipient",
        query=PageQuery,
        answer=Listed[ReminderRow],
    ),
    _transition(
        "accept", accept_meeting, "Accept a slot", body=Acceptance, example={"slot": _SLOT}, problems=_TAKEN
    ),
    _transition("deny", deny_meeting, "Deny a meeting", body=Withdrawal, example={"reason": "On leave"}),
    _transition(
        "reschedule",
        reschedule_meeting,
        "Propose other times",
        body=Rescheduling,
        example={"proposed_slots": [_SLOT], "reason": "Train strike"},
    ),
    _transition(
        "cancel", cancel_meeting, "Cancel a meeting", body=Withdrawal, example={"reason": "Settled by mail"}
    ),
    _transition("complete", complete_meeting, "Complete a meeting"),
    _transition(
        "participants",
        add_meeting_participant,
        "Add a participant",
        body=ParticipantInput,
        example={"participant_id": "0199a3c2-0000-7000-8000-000000000001"},
        problems=_TAKEN,
        idempotency="optional",
    ),
    Route(
        method="DELETE",
        path="/api/meetings/{id}/participants/{participant_id}",
        run=remove_meeting_participant,
        summary="Remove a participant",
        tag=_TAG,
        scope="write",
        acts_for="recipient",
        answer=ChangedMeetingRow,
        idempotency="optional",
        plans=True,
        problems=_REFUSED,
        codes=CODES,
    ),
    Route(
        method="GET",
        path="/api/meeting-settings",
        run=get_meeting_settings,
        summary="Read when people are reminded",
        tag=_TAG,
        answer=SettingsRow,
    ),
    Route(
        method="PATCH",
        path="/api/meeting-settings",
        run=change_meeting_settings,
        summary="Decide when people are reminded",
        tag=_TAG,
        scope="admin",
        body=SettingsInput,
        answer=SettingsRow,
        idempotency="optional",
        example={"reminder_offsets_min": [2880, 60]},
    ),
)
