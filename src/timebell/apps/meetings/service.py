"""`Meetings`: the verbs about meetings. Each takes part in the transaction that it is given.

Whoever changes a meeting holds it first, which locks it: of several who do so at once one wins, and the others see what
became of it. What a state implies, the agenda, the people who are busy and who is told, is written with the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final
from uuid import UUID

from timebell.apps.meetings.busy import Busy
from timebell.apps.meetings.invitations import Invitations
from timebell.apps.meetings.models import (
    PARTICIPANTS_MAX,
    By,
    Change,
    Meeting,
    MeetingSettings,
    NewMeeting,
    Slot,
    Transition,
)
from timebell.apps.meetings.notices import notices, past_reminders, reminders
from timebell.apps.meetings.refusals import (
    changed_meanwhile,
    no_meeting,
    not_a_participant,
    not_possible,
    own_proposal,
    requester_stays,
    too_many,
    unknown_people,
    wrong_slot,
)
from timebell.apps.meetings.rules import OPEN, TO, distinct, is_legal, is_to_come, plan_of, refused_slot
from timebell.apps.meetings.store import MeetingStore
from timebell.apps.meetings.templates import (
    ACCEPTED,
    ADDED,
    CANCELLED,
    DENIED,
    PROPOSED,
    REMOVED,
    RESCHEDULED,
)
from timebell.errors import InvalidInput
from timebell.kernel import AgendaDiff, Ids, Step, Timebell, Transaction
from timebell.notify import Notify
from timebell.rules.localtime import zone

COMPLETE: Final = "meetings.complete"
REPLAN: Final = "meetings.replan"
_SYSTEM: Final = "meetings"
_REPLANNED: Final = 20


class Meetings:
    """What people propose to each other, and what becomes of it."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._busy = Busy(bell)
        self._invitations = Invitations(bell, notify)
        self._store = MeetingStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def propose(self, tx: Transaction, person: UUID, new: NewMeeting, *, by: By) -> Meeting:
        """A meeting that a person asks others for; it is pending until one of them answers."""
        zone(new.timezone)
        people = sorted({person, *new.participants})
        if len(people) > PARTICIPANTS_MAX:
            raise InvalidInput(
                f"are {len(people)} with the requester, the limit is {PARTICIPANTS_MAX}", field="participants"
            )
        names = await self._names(tx, people, field="participants")
        meeting = await self._insert(tx, person, new, people)
        others = [each for each in people if each != person]
        await self._tell(tx, PROPOSED, meeting, others, by=by, names=names)
        await self._record(tx, "meeting.proposed", meeting, by, {"slot_count": len(meeting.proposed_slots)})
        return meeting

    async def hold(self, tx: Transaction, id: UUID, *, by: By) -> Meeting:
        """The meeting as it is, which nobody else changes until the transaction ends.

        Of several who ask at once only the first gets it, unless it leaves the meeting in the state that it was in: the
        others decided about something else.
        """
        seen = await self._store.read_meeting(tx, id=id)
        if seen is None:
            raise no_meeting(id)
        meeting = await self._lock(tx, seen)
        if by.person is not None and by.person not in meeting.participants:
            raise not_a_participant()
        if meeting.status != seen.status:
            raise changed_meanwhile(meeting.status)
        return meeting

    async def accept(self, tx: Transaction, meeting: Meeting, slot: Slot, *, by: By) -> Change:
        """The first who accepts decides for all. Whoever proposed the meeting has, and does not."""
        if by.person == meeting.requester_id:
            raise own_proposal()
        _check(meeting, "accept")
        refused = refused_slot(meeting, slot, await self._store.read_clock(tx))
        if refused is not None:
            raise wrong_slot(refused)
        await self._busy.occupy(tx, meeting, slot, by=by.person)
        change = await self._move(tx, meeting, "accept", by=by, slot=slot)
        moved, diff = change.meeting, change.diff
        await self._tell(tx, ACCEPTED, moved, moved.participants, by=by)
        data = {
            "slot": [slot.start.isoformat(), slot.end.isoformat()],
            "planned_count": len(diff.added),
            "skipped": past_reminders(diff),
        }
        await self._record(tx, "meeting.accepted", moved, by, data)
        return change

    async def deny(self, tx: Transaction, meeting: Meeting, reason: str | None, *, by: By) -> Change:
        change = await self._leave(tx, meeting, "deny", reason, by=by)
        await self._tell(tx, DENIED, change.meeting, [meeting.requester_id], by=by, reason=reason)
        return change

    async def cancel(self, tx: Transaction, meeting: Meeting, reason: str | None, *, by: By) -> Change:
        change = await self._leave(tx, meeting, "cancel", reason, by=by)
        await self._tell(tx, CANCELLED, change.meeting, meeting.participants, by=by, reason=reason)
        return change

    async def complete(self, tx: Transaction, meeting: Meeting, *, by: By) -> Change:
        """It has taken place. Nobody needs to be told so."""
        return await self._leave(tx, meeting, "complete", None, by=by)

    async def reschedule(
        self, tx: Transaction, meeting: Meeting, slots: Sequence[Slot], reason: str | None, *, by: By
    ) -> Change:
        """Another takes its place, with the same people and other times, proposed by whoever rescheduled.

        The difference is that of the one whose place it takes: the new one owes nothing yet.
        """
        change = await self._leave(tx, meeting, "reschedule", reason, by=by)
        moved = change.meeting
        new = NewMeeting(
            title=moved.title,
            timezone=moved.timezone,
            participants=moved.participants,
            proposed_slots=slots,
            description=moved.description,
            location=moved.location,
        )
        requester = by.person or moved.requester_id
        child = await self._insert(tx, requester, new, moved.participants, parent=moved)
        await self._store.insert_reschedule_event(
            tx,
            id=self._ids.new(),
            original_meeting_id=moved.id,
            new_meeting_id=child.id,
            reason=reason,
            new_slots=child.proposed_slots,
            actor=by.name,
        )
        await self._tell(tx, RESCHEDULED, child, child.participants, by=by, reason=reason, instead_of=moved)
        await self._record(tx, "meeting.proposed", child, by, {"parent_meeting_id": str(moved.id)})
        return replace(change, meeting=child)

    async def complete_at_end(self, tx: Transaction, id: UUID, *, correlation_id: str | None) -> bool:
        """Complete what is on, as its slot is over. False where somebody is changing it, who is not waited for."""
        if not await self._store.lock_free_meeting(tx, id=id):
            return await self._store.read_meeting(tx, id=id) is None
        meeting = await self._store.read_meeting(tx, id=id)
        if meeting is not None and is_legal("complete", meeting.status):
            await self.complete(tx, meeting, by=_by_itself(correlation_id))
        return True

    async def add_participant(self, tx: Transaction, meeting: Meeting, person: UUID, *, by: By) -> Change:
        """One more takes part, is told so, and is reminded as the others are. Who does already, does."""
        _check_open(meeting)
        if person in meeting.participants:
            return Change(meeting=meeting)
        if len(meeting.participants) >= PARTICIPANTS_MAX:
            raise too_many()
        await self._names(tx, [person], field="participant_id")
        await self._store.insert_participants(tx, meeting_id=meeting.id, recipient_ids=[person])
        change = await self._repopulate(tx, meeting, by, "participant added")
        await self._tell(tx, ADDED, change.meeting, [person], by=by)
        await self._record(tx, "meeting.participant_added", meeting, by, {"participant_id": str(person)})
        return change

    async def remove_participant(self, tx: Transaction, meeting: Meeting, person: UUID, *, by: By) -> Change:
        """One no longer takes part, and is not reminded any more. The requester removes others; anybody leaves."""
        if by.person not in (None, person, meeting.requester_id):
            raise not_a_participant("only the requester removes others; you may leave it yourself")
        if person == meeting.requester_id:
            raise requester_stays()
        _check_open(meeting)
        if person not in meeting.participants:
            return Change(meeting=meeting)
        await self._store.delete_participant(tx, meeting_id=meeting.id, recipient_id=person)
        change = await self._repopulate(tx, meeting, by, "participant removed")
        if by.person != person:
            await self._tell(tx, REMOVED, change.meeting, [person], by=by)
        await self._record(tx, "meeting.participant_removed", meeting, by, {"participant_id": str(person)})
        return change

    async def change_settings(
        self, tx: Transaction, *, offsets_min: Sequence[int] | None, attempts_max: int | None, by: By
    ) -> MeetingSettings:
        """Decide anew when people are reminded, also of the meetings that are on; a job goes through those."""
        await self._store.insert_settings(tx)
        settings = await self._store.update_settings(tx, offsets_min=offsets_min, attempts_max=attempts_max)
        await self._bell.enqueue(tx, REPLAN, {}, subject="meetings:settings")
        await self._bell.record(
            tx, "meetings.settings_changed", asdict(settings), actor=by.name, correlation_id=by.correlation_id
        )
        return settings

    async def replan(self, tx: Transaction, *, after: UUID | None) -> UUID | None:
        """State anew what is owed about some of the meetings that are on; answers with the last of them, or None."""
        ids = await self._store.list_accepted(tx, after=after, limit=_REPLANNED)
        for id in ids:
            meeting = await self._lock(tx, await self._read(tx, id))
            if meeting.status == "accepted":
                await self._owe(tx, meeting, "settings changed", by=_by_itself())
        return ids[-1] if len(ids) == _REPLANNED else None

    async def erase(self, tx: Transaction, person: UUID) -> None:
        """Forget a person who is erased. What that person asked for, or nobody else is left of, is cancelled."""
        by, now = _by_itself(), await self._store.read_clock(tx)
        ids = await self._store.list_open_of_person(tx, person=person)
        await self._busy.lock_people_of(tx, ids)
        for id in ids:
            meeting = await self._store.read_meeting(tx, id=id)
            assert meeting is not None, "it is held"
            others = tuple(each for each in meeting.participants if each != person)
            if meeting.requester_id == person or len(others) < 2:
                moved = (await self._leave(tx, meeting, "cancel", "erased", by=by)).meeting
                # Nobody wants to hear of what was proposed long ago and never answered.
                if is_to_come(moved, now):
                    await self._tell(tx, CANCELLED, moved, others, by=by)
            else:
                await self._store.delete_participant(tx, meeting_id=id, recipient_id=person)
                await self._repopulate(tx, meeting, by, "erased")
        await self._store.erase_participant(tx, person=person)
        await self._busy.erase(tx, person)

    async def _lock(self, tx: Transaction, seen: Meeting) -> Meeting:
        """The meeting as it is by now. Those who take part are held before it, as where one of them is erased."""
        await self._notify.recipients.hold(tx, seen.participants)
        await self._store.lock_meeting(tx, id=seen.id)
        return await self._read(tx, seen.id)

    async def _leave(
        self, tx: Transaction, meeting: Meeting, transition: Transition, reason: str | None, *, by: By
    ) -> Change:
        """Enter a state that nothing leads out of: nothing is owed any more, and nobody is busy with it."""
        _check(meeting, transition)
        await self._busy.vacate(tx, meeting.id)
        change = await self._move(tx, meeting, transition, by=by, reason=reason)
        data = {"from": meeting.status, "reason": reason, "withdrawn_count": len(change.diff.withdrawn)}
        await self._record(tx, f"meeting.{change.meeting.status}", change.meeting, by, data)
        return change

    async def _move(
        self,
        tx: Transaction,
        meeting: Meeting,
        transition: Transition,
        *,
        by: By,
        slot: Slot | None = None,
        reason: str | None = None,
    ) -> Change:
        """The state, its event, and what is owed in it."""
        status = TO[transition]
        await self._store.move_meeting(
            tx, id=meeting.id, from_status=meeting.status, to_status=status, slot=slot
        )
        await self._store.insert_status_event(
            tx,
            id=self._ids.new(),
            meeting_id=meeting.id,
            from_status=meeting.status,
            to_status=status,
            reason=reason,
            actor=by.name,
        )
        moved = await self._read(tx, meeting.id)
        return Change(meeting=moved, diff=await self._owe(tx, moved, status, by=by))

    async def _owe(self, tx: Transaction, meeting: Meeting, reason: str, *, by: By) -> AgendaDiff:
        """State what is owed about a meeting as it stands."""
        settings = MeetingSettings() if meeting.status != "accepted" else await self._store.hold_settings(tx)
        plan = plan_of(meeting, settings)
        steps: list[Step] = []
        if plan.slot is not None:
            starts_at = plan.slot.start.isoformat()
            asked = reminders(meeting, plan, settings)
            steps = [
                replace(step, payload={**step.payload, "starts_at": starts_at})
                for step in await self._notify.steps(tx, asked, anchor=plan.slot.start)
            ]
            steps.append(Step(key="complete", kind=COMPLETE, at=plan.slot.end, late="run"))
        return await self._bell.set_agenda(
            tx,
            subject=meeting.subject,
            anchor=None if plan.slot is None else plan.slot.start,
            steps=steps,
            reason=reason,
            actor=by.name,
            correlation_id=by.correlation_id,
        )

    async def _repopulate(self, tx: Transaction, meeting: Meeting, by: By, reason: str) -> Change:
        """Others take part by now: those are busy and are reminded."""
        await self._store.touch_meeting(tx, id=meeting.id)
        changed = await self._read(tx, meeting.id)
        await self._busy.replace_people(tx, changed)
        return Change(meeting=changed, diff=await self._owe(tx, changed, reason, by=by))

    async def _insert(
        self,
        tx: Transaction,
        requester: UUID,
        new: NewMeeting,
        people: Sequence[UUID],
        parent: Meeting | None = None,
    ) -> Meeting:
        id = self._ids.new()
        await self._store.insert_meeting(
            tx,
            id=id,
            requester_id=requester,
            title=new.title,
            description=new.description,
            location=new.location,
            timezone=new.timezone,
            proposed_slots=distinct(new.proposed_slots),
            parent_meeting_id=None if parent is None else parent.id,
            root_id=id if parent is None else parent.root_id,
            sequence=0 if parent is None else parent.sequence,
        )
        await self._store.insert_participants(tx, meeting_id=id, recipient_ids=people)
        return await self._read(tx, id)

    async def _read(self, tx: Transaction, id: UUID) -> Meeting:
        meeting = await self._store.read_meeting(tx, id=id)
        assert meeting is not None, "a meeting is never deleted"
        return meeting

    async def _names(self, tx: Transaction, people: Sequence[UUID], *, field: str) -> dict[UUID, str]:
        names = await self._notify.recipients.names(tx, people)
        unknown = [each for each in people if each not in names]
        if unknown:
            raise unknown_people(field, unknown)
        return names

    async def _tell(
        self,
        tx: Transaction,
        template: str,
        meeting: Meeting,
        recipients: Sequence[UUID],
        *,
        by: By,
        reason: str | None = None,
        names: dict[UUID, str] | None = None,
        instead_of: Meeting | None = None,
    ) -> None:
        if names is None:
            names = {} if by.person is None else await self._notify.recipients.names(tx, [by.person])
        who = None if by.person is None else names.get(by.person)
        tells = notices(
            template, meeting, recipients, who=who, reason=reason, correlation_id=by.correlation_id
        )
        tells = await self._invitations.enclose(tx, tells, meeting, instead_of=instead_of)
        await self._notify.tell_many(tx, tells)

    async def _record(
        self, tx: Transaction, name: str, meeting: Meeting, by: By, data: dict[str, Any]
    ) -> None:
        await self._bell.record(
            tx, name, data, subject=meeting.subject, actor=by.name, correlation_id=by.correlation_id
        )


def _check(meeting: Meeting, transition: Transition) -> None:
    if not is_legal(transition, meeting.status):
        raise not_possible(transition, meeting.status)


def _check_open(meeting: Meeting) -> None:
    if meeting.status not in OPEN:
        raise not_possible("change who takes part in", meeting.status)


def _by_itself(correlation_id: str | None = None) -> By:
    return By(person=None, name=_SYSTEM, correlation_id=correlation_id)
