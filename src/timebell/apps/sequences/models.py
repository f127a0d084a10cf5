"""The nouns of sequences, as frozen records. Whoever takes one checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, Final, Literal
from uuid import UUID

Anchor = Literal["event_time", "booking_start", "booking_end"]
StepChannel = Literal["preferred", "email", "sms", "whatsapp"]
Contacts = Literal["primary", "all"]
BookingStatus = Literal["created", "confirmed", "checked_in", "completed", "cancelled"]
Transition = Literal["confirm", "check-in", "complete", "cancel"]
MessageStatus = Literal["scheduled", "sending", "sent", "failed", "cancelled", "skipped"]

BOOKING: Final = "booking:"
OTHER: Final = "sequence:"
NAME_CHARS_MAX: Final = 200
EVENT_CHARS_MAX: Final = 100
SUBJECT_CHARS_MAX: Final = 150
STEPS_MAX: Final = 50
PEOPLE_MAX: Final = 20
FACTS_BYTES_MAX: Final = 16_384
# A message may still be sent so long after its time has passed, as it is planned.
GRACE: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How far from its anchor a step is: days by the subject's wall clock, and then elapsed time."""

    days: int = 0
    elapsed: timedelta = timedelta(0)

    @property
    def is_before(self) -> bool:
        return self.days < 0 or self.elapsed < timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What must be so for a message to be sent. What is not named does not matter; of several words one must fit."""

    days_out_min: int | None = None
    days_out_max: int | None = None
    subtypes: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    statuses: tuple[str, ...] | None = None
    has_phone: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStep:
    """One message of a sequence. With `at`, it comes at that wall time of the day that the offset leads to."""

    key: str
    template: str
    anchor: Anchor = "booking_start"
    offset: Offset = field(default_factory=Offset)
    at: time | None = None
    channel: StepChannel = "preferred"
    contacts: Contacts = "primary"
    conditions: Conditions = field(default_factory=Conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a version of a sequence says. A version never changes; a change is a new version."""

    steps: tuple[SequenceStep, ...]
    conditions: Conditions = field(default_factory=Conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSequence:
    """A sequence as it is to be saved."""

    name: str
    trigger_event: str
    terms: Terms
    subtype: str | None = None
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceChange:
    """What is to become different about a sequence; None leaves it as it is, unless `subtype` is among `named`."""

    name: str | None = None
    trigger_event: str | None = None
    subtype: str | None = None
    is_active: bool | None = None
    conditions: Conditions | None = None
    steps: tuple[SequenceStep, ...] | None = None
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSequence:
    """Messages that an event starts. `subtype`: only for subjects of that subtype."""

    id: UUID
    name: str
    trigger_event: str
    subtype: str | None
    is_active: bool
    version: int
    terms: Terms
    revision: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody whom a subject concerns, as far as it decides what they are told. The first of them is the primary."""

    recipient_id: UUID
    role: str = "guest"
    language: str = "en"
    has_phone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What messages are about: a booking, or whatever a stranger's system has.

    `dates_at` is when its dates were last changed; by then it is measured how many days they are out.
    """

    subject: str
    id: UUID
    timezone: str
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    subtype: str | None = None
    status: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    people: Sequence[tuple[UUID, str]] = ()
    dates_at: datetime
    revision: int = 1
    created_at: datetime
    updated_at: datetime

    @property
    def is_booking(self) -> bool:
        return self.subject.startswith(BOOKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """A subject that entered a sequence, with the version that it began with. `entry` counts how often it did."""

    sequence_id: UUID
    entry: int
    version: int
    event_at: datetime
    terms: Terms
    ended_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """One message as it is planned: for one step, one person and one entry of a subject into a sequence.

    `due_at` is None where it has no instant, since its anchor has none. `refusal` is why it is not to be sent.
    """

    sequence_id: UUID
    entry: int
    step: SequenceStep
    recipient_id: UUID
    due_at: datetime | None
    expires_at: datetime | None = None
    refusal: str | None = None

    @property
    def name(self) -> SlipName:
        return (self.sequence_id, self.entry, self.step.key, self.recipient_id)

    def is_past(self, now: datetime) -> bool:
        """Whether it is too late to schedule it only now: its time has passed, or it is of no use any more."""
        is_useless = self.expires_at is not None and self.expires_at <= now
        return is_useless or (self.due_at is not None and self.due_at < now - GRACE)


SlipName = tuple[UUID, int, str, UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMessage:
    """A message as its row has it: `scheduled` until it is known what became of it."""

    id: UUID
    name: SlipName
    status: MessageStatus
    reason: str | None
    due_at: datetime | None
    job_id: UUID | None
    is_final: bool

    @property
    def is_open(self) -> bool:
        """Whether it was still to be sent as it was read."""
        return self.status == "scheduled" and not self.is_final


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it is shown, with what became of it by now."""

    id: UUID
    subject: str
    sequence_id: UUID
    step: str
    entry: int
    recipient_id: UUID
    channel: str
    due_at: datetime | None
    status: MessageStatus
    reason: str | None
    template: str
    sent_at: datetime | None
    attempt_count: int
    job_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who does something."""

    name: str | None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What came of an event about a subject: how many messages it scheduled, and what it changed about all of them."""

    subject: Subject
    enrolled: int = 0
    diff: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingSettings:
    """What bookings of a tenant do by themselves."""

    checks_in_at_start: bool = False
    completes_at_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A version that is applied to all who are enrolled, some at a time; without one, the end of the sequence is.

    `counts` is what that has changed so far.
    """

    id: UUID
    sequence_id: UUID
    version: int | None
    enrolled_count: int
    done_count: int
    counts: Mapping[str, int]
    created_at: datetime
    finished_at: datetime | None


def booking_subject(id: UUID) -> str:
    return f"{BOOKING}{id}"


def booking_id(subject: str) -> UUID:
    return UUID(subject.removeprefix(BOOKING))
