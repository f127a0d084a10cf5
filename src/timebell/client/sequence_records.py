"""Request and response bodies about sequences, bookings and messages. The names are the source's own, as Python writes
them: `scheduled_for` is `scheduledFor` on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

from pydantic import AwareDatetime, ConfigDict
from pydantic.alias_generators import to_camel

from timebell.client.records import Record

Anchor = Literal["event_time", "booking_start", "booking_end"]
BookingStatus = Literal["created", "confirmed", "checked_in", "completed", "cancelled"]
MessageStatus = Literal["scheduled", "sending", "sent", "failed", "cancelled", "skipped"]
StepChannel = Literal["preferred", "email", "sms", "whatsapp"]


class ConditionTerms(TypedDict, total=False):
    """What must be so; of several words one must fit."""

    min_days_out: int | None
    max_days_out: int | None
    booking_subtype: str | Sequence[str] | None
    language: str | Sequence[str] | None
    has_phone: bool | None
    status: str | Sequence[str] | None


class SequenceStepTerms(TypedDict, total=False):
    """One message; the offset is ISO 8601, such as `-P7D`, and `at` a time of day there, such as `09:00`."""

    key: Required[str]
    template_id: Required[str]
    anchor: Anchor
    offset: str
    at: str | None
    channel: StepChannel
    contacts: Literal["primary", "all"]
    conditions: ConditionTerms


class SequenceTerms(TypedDict, total=False):
    name: str | None
    trigger_event: str | None
    booking_subtype: str | None
    active: bool | None
    conditions: ConditionTerms | None
    steps: Sequence[SequenceStepTerms] | None


class NewSequence(TypedDict, total=False):
    name: Required[str]
    trigger_event: Required[str]
    steps: Required[Sequence[SequenceStepTerms]]
    booking_subtype: str | None
    active: bool
    conditions: ConditionTerms


class ContactTerms(TypedDict, total=False):
    contact_id: Required[UUID]
    role: str


class NewBooking(TypedDict, total=False):
    """`contact_id` is the primary contact; `contacts` are further ones."""

    contact_id: Required[UUID]
    subtype: Required[str]
    event_name: Required[str]
    start_at: Required[datetime]
    end_at: Required[datetime]
    timezone: Required[str]
    contacts: Sequence[UUID | ContactTerms]
    location: str | None
    status: Literal["created", "confirmed", "checked_in", "completed"]


class BookingTerms(TypedDict, total=False):
    contact_id: UUID | None
    contacts: Sequence[UUID | ContactTerms] | None
    subtype: str | None
    event_name: str | None
    location: str | None
    start_at: datetime | None
    end_at: datetime | None
    timezone: str | None


class PreviewContactTerms(TypedDict, total=False):
    """A contact that is there, by `contact_id`, or one that is invented, by a `name`."""

    contact_id: UUID | None
    role: str
    name: str | None
    language: str
    timezone: str | None
    email: str | None
    phone: str | None
    channel_preference: str | None
    whatsapp_opt_in: bool


class PreviewBookingTerms(TypedDict, total=False):
    """A booking that need not be there; give a `contact_id`, or an invented `contact`."""

    contact_id: UUID | None
    contact: PreviewContactTerms | None
    contacts: Sequence[UUID | PreviewContactTerms]
    subtype: Required[str]
    event_name: Required[str]
    start_at: Required[datetime]
    end_at: Required[datetime]
    timezone: Required[str]
    location: str | None
    status: BookingStatus | None


class _Served(Record):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class SequenceStep(_Served):
    key: str
    anchor: str
    offset: str
    at: str | None
    channel: str
    template_id: str
    contacts: str
    conditions: dict[str, Any]


class MessageSequence(_Served):
    """A sequence as whoever enters it now begins with it."""

    id: UUID
    name: str
    trigger_event: str
    booking_subtype: str | None
    active: bool
    version: int
    conditions: dict[str, Any]
    steps: list[SequenceStep]
    created_at: AwareDatetime
    updated_at: AwareDatetime


class MessageDiff(_Served):
    """What was changed about what is owed: so many messages."""

    kept: int
    moved: int
    added: int
    withdrawn: int


class SequenceApplication(_Served):
    """A version that is applied to all who are enrolled, and how far that has come."""

    id: UUID
    version: int | None
    enrolled_count: int
    done_count: int
    refused: int
    diff: MessageDiff
    created_at: AwareDatetime
    finished_at: AwareDatetime | None


class ChangedSequence(MessageSequence):
    diff: MessageDiff | None
    application: SequenceApplication | None


class FunnelStep(_Served):
    step_key: str
    enrolled: int
    scheduled: int
    sent: int
    skipped: int
    failed: int
    cancelled: int


class BookingContact(_Served):
    contact_id: UUID
    role: str


class Booking(_Served):
    id: UUID
    contact_id: UUID | None
    contacts: list[BookingContact]
    subtype: str
    event_name: str
    location: str | None
    start_at: AwareDatetime
    end_at: AwareDatetime
    timezone: str
    status: str
    created_at: AwareDatetime
    updated_at: AwareDatetime


class ChangedBooking(Booking):
    """`enrolled`: how many messages this scheduled. `diff`: what it changed about those that were pending."""

    enrolled: int
    diff: MessageDiff


class BookingSettings(_Served):
    check_in_at_start: bool
    complete_at_end: bool


class Happened(_Served):
    """What came of an event about a subject."""

    subject: str
    enrolled: int
    diff: MessageDiff


class Message(_Served):
    """A message and how it stands. `channel` is the one used; before sending, the one that would be chosen now."""

    id: UUID
    sequence_id: UUID
    step_key: str
    booking_id: UUID | None
    subject: str
    contact_id: UUID
    channel: str
    scheduled_for: AwareDatetime | None
    status: str
    reason: str | None
    template_id: str
    sent_at: AwareDatetime | None
    attempts: int


class MessageNotSent(Message):
    why: str


class CalendarMessage(Message):
    local_time: str | None
    contact_name: str | None


class MessageCondition(_Served):
    of: str
    name: str
    wanted: Any
    found: Any
    met: bool | None


class MessageLine(_Served):
    at: AwareDatetime | None
    text: str


class MessageExplanation(_Served):
    """Why a message is sent then, or is not: in one sentence, by what it was decided from, and step by step."""

    id: UUID
    status: str
    reason: str | None
    summary: str
    scheduled_for: AwareDatetime | None
    local_time: str | None
    timezone: str
    sequence_id: UUID
    version: int
    step_key: str
    anchor: str | None
    anchor_at: AwareDatetime | None
    offset: str | None
    at: str | None
    event_at: AwareDatetime
    measured_at: AwareDatetime
    conditions: list[MessageCondition]
    story: list[MessageLine]


class PreviewText(_Served):
    language: str
    subject: str | None
    body: str
    html: str | None


class PreviewMessage(_Served):
    """A message that would be made; `contact_id` is None for a contact who is invented."""

    step_key: str
    contact_id: UUID | None
    contact_name: str
    role: str
    channel: str | None
    scheduled_for: AwareDatetime | None
    local_time: str | None
    status: str
    reason: str | None
    why: str | None
    template_id: str
    text: PreviewText | None
    text_left_out: bool


class SequencePreview(_Served):
    """What a sequence would tell. Where `enters` is false, the messages are those that it would make if it did."""

    sequence_id: UUID
    version: int
    event_at: AwareDatetime
    timezone: str
    enters: bool
    reason: str | None
    why: str | None
    messages: list[PreviewMessage]


def on_the_wire(value: Any) -> Any:
    """The names as they are sent, also those of what is inside."""
    if isinstance(value, Mapping):
        return {to_camel(name): on_the_wire(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [on_the_wire(each) for each in value]
    # The ids that drivers of databases make are of kinds of their own.
    return str(value) if isinstance(value, UUID) else value


def facts_on_the_wire(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a subject's own facts are called is not ours to change."""
    contacts = {"contacts": on_the_wire(facts["contacts"])} if facts.get("contacts") is not None else {}
    return {**facts, **contacts}
