"""Request bodies about sequences, bookings, events and messages. The names are the source's own, which clients know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import orjson
from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from timebell.apps.sequences.bookings import BookingChange, NewBooking
from timebell.apps.sequences.events import SubjectEvent
from timebell.apps.sequences.models import (
    EVENT_CHARS_MAX,
    FACTS_BYTES_MAX,
    NAME_CHARS_MAX,
    PEOPLE_MAX,
    STEPS_MAX,
    SUBJECT_CHARS_MAX,
    Anchor,
    BookingStatus,
    Contacts,
    MessageStatus,
    NewSequence,
    SequenceChange,
    SequenceStep,
    StepChannel,
    Subject,
    Terms,
)
from timebell.apps.sequences.rules import DAYS_MAX, check_step, read_offset, read_time_of_day, show_offset
from timebell.apps.sequences.terms import conditions_of
from timebell.errors import InvalidInput
from timebell.rules.localtime import NAME_CHARS_MAX as ZONE_CHARS_MAX
from timebell.web import Input, Instant, PageQuery

CAMEL: Final = ConfigDict(alias_generator=to_camel)


def _offset(text: str) -> str:
    try:
        return show_offset(read_offset(text))
    except InvalidInput as error:
        raise ValueError(str(error).removeprefix("offset: ")) from None


def _time_of_day(text: str) -> str:
    try:
        read_time_of_day(text)
    except InvalidInput as error:
        raise ValueError(str(error).removeprefix("at: ")) from None
    return text


Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"\S")]
Event = Annotated[str, Field(min_length=1, max_length=EVENT_CHARS_MAX, pattern=r"^[a-z][a-z0-9_.-]*$")]
Subtype = Annotated[str, Field(min_length=1, max_length=100)]
Word = Annotated[str, Field(min_length=1, max_length=100)]
Words = Word | Annotated[list[Word], Field(min_length=1, max_length=50)]
Days = Annotated[int, Field(ge=0, le=DAYS_MAX)]
Key = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")]
OffsetText = Annotated[str, Field(min_length=2, max_length=40, examples=["-P7D"]), AfterValidator(_offset)]
TimeOfDay = Annotated[
    str, Field(min_length=5, max_length=8, examples=["09:00"]), AfterValidator(_time_of_day)
]
Zone = Annotated[str, Field(min_length=1, max_length=ZONE_CHARS_MAX, examples=["Europe/Berlin"])]
Title = Annotated[str, Field(min_length=1, max_length=300, pattern=r"\S")]
Location = Annotated[str, Field(min_length=1, max_length=500)]
Role = Annotated[str, Field(min_length=1, max_length=50)]
TemplateKey = Annotated[str, Field(min_length=1, max_length=100)]


class CamelInput(Input):
    model_config = CAMEL


class ConditionsInput(CamelInput):
    """What must be so. Days are whole calendar days in the subject's zone, measured at the event and whenever its dates
    change; the others are asked again just before sending."""

    min_days_out: Days | None = None
    max_days_out: Days | None = None
    booking_subtype: Words | None = None
    language: Words | None = None
    has_phone: bool | None = None
    status: Words | None = None

    @model_validator(mode="after")
    def _in_order(self) -> ConditionsInput:
        low, high = self.min_days_out, self.max_days_out
        if low is not None and high is not None and low > high:
            raise ValueError("minDaysOut must not be more than maxDaysOut")
        return self

    def shown(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)


class StepInput(CamelInput):
    """One message. Days and weeks of the `offset` are the subject's wall clock, hours and minutes elapsed time; with
    `at`, it comes at that time of the day that the offset leads to."""

    key: Key
    anchor: Anchor = "booking_start"
    offset: OffsetText = "PT0S"
    at: TimeOfDay | None = None
    channel: StepChannel = "preferred"
    template_id: TemplateKey
    contacts: Contacts = "primary"
    conditions: ConditionsInput = ConditionsInput()

    @model_validator(mode="after")
    def _whole_days(self) -> StepInput:
        try:
            check_step(self.step())
        except InvalidInput as error:
            raise ValueError(str(error)) from None
        return self

    def step(self) -> SequenceStep:
        return SequenceStep(
            key=self.key,
            template=self.template_id,
            anchor=self.anchor,
            offset=read_offset(self.offset),
            at=None if self.at is None else read_time_of_day(self.at),
            channel=self.channel,
            contacts=self.contacts,
            conditions=conditions_of(self.conditions.shown()),
        )


Steps = Annotated[list[StepInput], Field(min_length=1, max_length=STEPS_MAX)]


class SequenceInput(CamelInput):
    """A sequence: what starts it, for whom, and its messages."""

    name: Name
    trigger_event: Event
    booking_subtype: Subtype | None = None
    active: bool = True
    conditions: ConditionsInput = ConditionsInput()
    steps: Steps

    def sequence(self) -> NewSequence:
        return NewSequence(
            name=self.name,
            trigger_event=self.trigger_event,
            subtype=self.booking_subtype,
            is_active=self.active,
            terms=Terms(
                steps=tuple(each.step() for each in self.steps),
                conditions=conditions_of(self.conditions.shown()),
            ),
        )


class SequencePatch(CamelInput):
    """What is to become different; what is not named stays. Other steps or conditions are a new version."""

    name: Name | None = None
    trigger_event: Event | None = None
    booking_subtype: Subtype | None = None
    active: bool | None = None
    conditions: ConditionsInput | None = None
    steps: Steps | None = None

    def change(self) -> SequenceChange:
        conditions, steps = self.conditions, self.steps
        return SequenceChange(
            name=self.name,
            trigger_event=self.trigger_event,
            subtype=self.booking_subtype,
            is_active=self.active,
            conditions=None if conditions is None else conditions_of(conditions.shown()),
            steps=None if steps is None else tuple(each.step() for each in steps),
            named=frozenset({"subtype"} if "booking_subtype" in self.model_fields_set else ()),
        )


class SequencesQuery(PageQuery):
    model_config = CAMEL

    trigger_event: Event | None = None


class ApplyQuery(CamelInput):
    """`apply`: also for those who are enrolled already, and answer what that changes."""

    apply: Annotated[bool, Field(strict=False)] = False


class ContactInput(CamelInput):
    """Somebody whom it concerns, and as what."""

    contact_id: UUID
    role: Role = "guest"


People = Annotated[list[UUID | ContactInput], Field(max_length=PEOPLE_MAX - 1)]


class BookingInput(CamelInput):
    """A booking. `contactId` is the primary contact; `contacts` are further ones."""

    contact_id: UUID
    contacts: Annotated[People, Field(default_factory=list)]
    subtype: Subtype
    event_name: Title
    location: Location | None = None
    start_at: Instant
    end_at: Instant
    timezone: Zone
    status: Literal["created", "confirmed", "checked_in", "completed"] = "created"

    def booking(self) -> NewBooking:
        return NewBooking(
            people=people_of([self.contact_id, *self.contacts]),
            subtype=self.subtype,
            event_name=self.event_name,
            starts_at=self.start_at,
            ends_at=self.end_at,
            timezone=self.timezone,
            location=self.location,
            status=self.status,
        )


class BookingPatch(CamelInput):
    """What is to become different; what is not named stays."""

    contact_id: UUID | None = None
    contacts: People | None = None
    subtype: Subtype | None = None
    event_name: Title | None = None
    location: Location | None = None
    start_at: Instant | None = None
    end_at: Instant | None = None
    timezone: Zone | None = None

    def change(self, booking: Subject) -> BookingChange:
        people = dict(booking.people)
        if self.contacts is not None:
            people = dict([*booking.people[:1], *people_of(self.contacts)])
        if self.contact_id is not None:
            others = booking.people[1:] if self.contacts is None else people_of(self.contacts)
            people = {self.contact_id: people.get(self.contact_id, "guest")}
            people |= {id: role for id, role in others if id != self.contact_id}
        return BookingChange(
            event_name=self.event_name,
            location=self.location,
            starts_at=self.start_at,
            ends_at=self.end_at,
            timezone=self.timezone,
            subtype=self.subtype,
            people=tuple(people.items()),
            named=frozenset({"location"} if "location" in self.model_fields_set else ()),
        )


class BookingsQuery(PageQuery):
    model_config = CAMEL

    status: BookingStatus | None = None
    contact_id: UUID | None = None


class BookingSettingsInput(CamelInput):
    """What bookings do by themselves."""

    check_in_at_start: bool | None = None
    complete_at_end: bool | None = None


class FactsInput(CamelInput):
    """What is so about the subject. Further names are facts of its own, which texts may speak of; null takes one
    back."""

    model_config = ConfigDict(extra="allow")

    start: Instant | None = None
    end: Instant | None = None
    timezone: Zone | None = None
    subtype: Subtype | None = None
    status: Word | None = None
    contacts: Annotated[list[UUID | ContactInput], Field(max_length=PEOPLE_MAX)] | None = None

    @model_validator(mode="after")
    def _short_enough(self) -> FactsInput:
        if len(orjson.dumps(self.model_extra or {})) > FACTS_BYTES_MAX:
            raise ValueError(f"are over {FACTS_BYTES_MAX} bytes; keep the data and say its id")
        return self


class EventInput(CamelInput):
    """Something that happened to a subject of yours, which is whatever you call it."""

    event: Event
    subject: Annotated[str, Field(min_length=1, max_length=SUBJECT_CHARS_MAX)]
    facts: FactsInput = FactsInput()
    entry: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    cancels: bool = False

    def happened(self) -> SubjectEvent:
        facts = self.facts
        return SubjectEvent(
            event=self.event,
            name=self.subject,
            starts_at=facts.start,
            ends_at=facts.end,
            timezone=facts.timezone,
            subtype=facts.subtype,
            status=facts.status,
            people=None if facts.contacts is None else people_of(facts.contacts),
            facts=facts.model_extra or {},
            named=frozenset(facts.model_fields_set),
            entry=self.entry,
            cancels=self.cancels,
        )


class MessagesQuery(PageQuery):
    model_config = CAMEL

    status: MessageStatus | None = None
    contact_id: UUID | None = None
    sequence_id: UUID | None = None


def people_of(given: Sequence[UUID | ContactInput]) -> tuple[tuple[UUID, str], ...]:
    """Each once, as it was named first."""
    people: dict[UUID, str] = {}
    for each in given:
        id, role = (each.contact_id, each.role) if isinstance(each, ContactInput) else (each, "guest")
        people.setdefault(id, role)
    return tuple(people.items())
