"""Request and response bodies about meetings. The names are the source's own, which clients know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, model_validator

from timebell.apps.meetings.models import (
    OFFSETS_MAX,
    PARTICIPANTS_MAX,
    SLOTS_MAX,
    Change,
    Meeting,
    MeetingFilter,
    NewMeeting,
    ReminderJob,
    Slot,
    Status,
)
from timebell.kernel import StepChange
from timebell.web import Input, Instant, Output, PageQuery

Title = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Description = Annotated[str, Field(max_length=5_000)]
Location = Annotated[str, Field(min_length=1, max_length=500)]
Zone = Annotated[str, Field(min_length=1, max_length=100)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000)]
# A month at most; at the start itself nobody is reminded any more.
Minutes = Annotated[int, Field(ge=1, le=43_200)]


class SlotInput(Input):
    """From `start`, inclusive, to `end`, exclusive."""

    start: Instant
    end: Instant

    @model_validator(mode="after")
    def _forward(self) -> SlotInput:
        if self.end <= self.start:
            raise ValueError("end must be after start")
        return self

    def slot(self) -> Slot:
        return Slot(self.start, self.end)


Slots = Annotated[list[SlotInput], Field(min_length=1, max_length=SLOTS_MAX)]


class MeetingInput(Input):
    """A meeting that is proposed. Whoever proposes it takes part, named or not."""

    title: Title
    participants: Annotated[list[UUID], Field(min_length=1, max_length=PARTICIPANTS_MAX)]
    timezone: Zone
    proposed_slots: Slots
    description: Description = ""
    location: Location | None = None

    def meeting(self) -> NewMeeting:
        return NewMeeting(
            title=self.title,
            timezone=self.timezone,
            participants=self.participants,
            proposed_slots=[each.slot() for each in self.proposed_slots],
            description=self.description,
            location=self.location,
        )


class Acceptance(Input):
    """Which of the proposed slots it is to be, compared as instants."""

    slot: SlotInput


class Withdrawal(Input):
    """Why, if there is something to say."""

    reason: Reason | None = None


class Rescheduling(Input):
    """Other times to choose from, and why."""

    proposed_slots: Slots
    reason: Reason | None = None


class ParticipantInput(Input):
    """Who is to take part as well."""

    participant_id: UUID


class MeetingsQuery(PageQuery):
    """`person`: with whom. `from` and `to`: within which span its slot lies, or any of those proposed."""

    status: Status | None = None
    person: UUID | None = None
    since: Annotated[Instant | None, Field(alias="from")] = None
    before: Annotated[Instant | None, Field(alias="to")] = None
    sort: Literal["created_at", "-created_at"] = "created_at"

    def wanted(self) -> MeetingFilter:
        return MeetingFilter(status=self.status, person=self.person, since=self.since, before=self.before)


class SettingsInput(Input):
    """When people are reminded, in minutes before the start, and how often that is tried."""

    reminder_offsets_min: Annotated[list[Minutes], Field(max_length=OFFSETS_MAX)] | None = None
    reminder_attempts_max: Annotated[int, Field(ge=1, le=20)] | None = None


class SlotRow(Output):
    start: Instant
    end: Instant


class MeetingRow(Output):
    """A meeting. One that was rescheduled has a child, which has it as its `parent_meeting_id`."""

    id: UUID
    status: Status
    title: str
    description: str
    location: str | None
    timezone: str
    requester_id: UUID
    participants: list[UUID]
    proposed_slots: list[SlotRow]
    accepted_slot: SlotRow | None
    parent_meeting_id: UUID | None
    created_at: Instant
    updated_at: Instant


class ReminderChange(Output):
    """What became of one reminder. `was_at` is when one that moved was to be told before."""

    recipient_id: UUID
    reminder_type: str
    scheduled_at: Instant
    was_at: Instant | None


class ReminderDiff(Output):
    """What a change meant for who is reminded. `skipped` are those whose time has passed; of `too_late` somebody was
    being told just then."""

    kept: list[ReminderChange]
    moved: list[ReminderChange]
    added: list[ReminderChange]
    withdrawn: list[ReminderChange]
    skipped: list[ReminderChange]
    too_late: list[ReminderChange]


class ChangedMeetingRow(MeetingRow):
    """A meeting after a change. Where it was rescheduled, this is the new one, and the old one's are withdrawn."""

    diff: ReminderDiff


class StatusEventRow(Output):
    """One transition."""

    id: UUID
    meeting_id: UUID
    from_status: Status
    to_status: Status
    reason: str | None
    actor: str
    created_at: Instant


class ReminderRow(Output):
    """A reminder, owed or at its end. `attempts` are those that failed."""

    id: UUID
    meeting_id: UUID
    recipient_id: UUID
    reminder_type: str
    scheduled_at: Instant
    status: Literal["pending", "sent", "failed", "cancelled"]
    reason: str | None
    attempts: int
    last_attempt_at: Instant | None
    next_attempt_at: Instant | None
    channels: list[str]
    created_at: Instant
    updated_at: Instant


class SettingsRow(Output):
    """What the tenant decided about meetings, or the defaults."""

    reminder_offsets_min: list[int]
    reminder_attempts_max: int


def meeting_row(meeting: Meeting) -> MeetingRow:
    return MeetingRow.model_validate(meeting)


def changed_meeting_row(change: Change) -> ChangedMeetingRow:
    diff = {name: _reminder_changes(getattr(change.diff, name)) for name in ReminderDiff.model_fields}
    row = meeting_row(change.meeting)
    return ChangedMeetingRow(**dict(row), diff=ReminderDiff(**diff))


def _reminder_changes(steps: Sequence[StepChange]) -> list[ReminderChange]:
    """Of the steps of a meeting's agenda those that remind somebody; the other one completes it."""
    named = [(step, *step.key.partition(":")) for step in steps]
    return [
        ReminderChange(
            recipient_id=UUID(recipient),
            reminder_type=type,
            scheduled_at=step.due_at,
            was_at=step.was_due_at,
        )
        for step, type, _, recipient in named
        if recipient
    ]


def reminder_row(reminder: ReminderJob) -> ReminderRow:
    return ReminderRow(
        id=reminder.id,
        meeting_id=reminder.meeting_id,
        recipient_id=reminder.recipient_id,
        reminder_type=reminder.reminder_type,
        scheduled_at=reminder.due_at,
        status=reminder.status,
        reason=reminder.reason,
        attempts=reminder.failure_count,
        last_attempt_at=reminder.last_attempt_at,
        next_attempt_at=reminder.run_at,
        channels=list(reminder.channels),
        created_at=reminder.created_at,
        updated_at=reminder.updated_at,
    )
