"""Request and response bodies about the preview of a sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from timebell.apps.sequences.answer_bodies import (
    CamelOutput,
)
from timebell.apps.sequences.bodies import (
    CamelInput,
    FactsInput,
    Key,
    Location,
    Role,
    Subtype,
    Title,
    Zone,
)
from timebell.apps.sequences.models import BOOKING, OTHER, PEOPLE_MAX, BookingStatus, Subject
from timebell.apps.sequences.previewing import ENTERS_NOT, Preview, PreviewedMessage, Question
from timebell.errors import UnknownTimezone
from timebell.notify import Address, Channel, Recipient
from timebell.rules.localtime import zone
from timebell.web import Instant, show_instant

_NOBODY: Final = UUID(int=0)


def _known(timezone: str) -> str:
    try:
        zone(timezone)
    except UnknownTimezone as error:
        raise ValueError(str(error).removeprefix("timezone: ")) from None
    return timezone


def _check_order(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and end < start:
        raise ValueError("the end must not be before the start")


_Zone = Annotated[Zone, AfterValidator(_known)]
_Language = Annotated[
    str, Field(max_length=20, pattern=r"^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$")
]
_Email = Annotated[str, Field(max_length=254, pattern=r"^[^@\s]+@[^@\s]+$")]
_Phone = Annotated[str, Field(pattern=r"^\+[1-9][0-9]{6,14}$", examples=["+4915112345678"])]


class PreviewContactInput(CamelInput):
    """Somebody whom it would concern: a contact that is there, by `contactId`, or one that is invented, by a `name` and
    what decides how they are reached."""

    contact_id: UUID | None = None
    role: Role = "guest"
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")] | None = None
    language: _Language = "en"
    timezone: _Zone | None = None
    email: _Email | None = None
    phone: _Phone | None = None
    channel_preference: Channel | None = None
    whatsapp_opt_in: bool = False

    @model_validator(mode="after")
    def _one_or_the_other(self) -> PreviewContactInput:
        if (self.contact_id is None) == (self.name is None):
            raise ValueError("give the contactId of a contact, or the name of an invented one")
        about = self.model_fields_set - {"contact_id", "role"}
        if self.contact_id is not None and about:
            raise ValueError(
                "what is so about a contact that is there is known; give the contactId and a role"
            )
        return self

    def recipient(self, id: UUID, tenant: str, timezone: str) -> Recipient:
        kinds: tuple[tuple[Literal["email", "phone"], str | None], ...] = (
            ("email", self.email),
            ("phone", self.phone),
        )
        return Recipient(
            id=id,
            tenant=tenant,
            name=self.name or "",
            language=self.language,
            timezone=self.timezone or timezone,
            channel_preference=self.channel_preference,
            whatsapp_opt_in=self.whatsapp_opt_in,
            addresses=[Address(kind=kind, value=value) for kind, value in kinds if value is not None],
        )


_Contacts = list[UUID | PreviewContactInput]


class PreviewBookingInput(CamelInput):
    """A booking that need not be there. Without a `status` it has the one that the sequence's event gives it."""

    contact_id: UUID | None = None
    contact: PreviewContactInput | None = None
    contacts: Annotated[_Contacts, Field(default_factory=list, max_length=PEOPLE_MAX - 1)]
    subtype: Subtype
    event_name: Title
    location: Location | None = None
    start_at: Instant
    end_at: Instant
    timezone: _Zone
    status: BookingStatus | None = None

    @model_validator(mode="after")
    def _one_primary(self) -> PreviewBookingInput:
        if (self.contact_id is None) == (self.contact is None):
            raise ValueError("give a contactId, or a contact that is invented")
        _check_order(self.start_at, self.end_at)
        return self


class PreviewSubjectInput(FactsInput):
    """What would be so about a subject of yours, as an event says it. Its contacts may be invented too."""

    timezone: _Zone | None = None
    contacts: Annotated[_Contacts, Field(max_length=PEOPLE_MAX)] | None = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _in_order(self) -> PreviewSubjectInput:
        _check_order(self.start, self.end)
        return self


class SequencePreviewInput(CamelInput):
    """What it would be about: a booking that is there, one that is invented, or any other subject. `eventAt` is when
    the event would happen, now if it is not given; `stepKey` asks for one step alone."""

    booking_id: UUID | None = None
    booking: PreviewBookingInput | None = None
    subject: PreviewSubjectInput | None = None
    event_at: Instant | None = None
    step_key: Key | None = None

    @model_validator(mode="after")
    def _about_one(self) -> SequencePreviewInput:
        given = [each for each in (self.booking_id, self.booking, self.subject) if each is not None]
        if len(given) != 1:
            raise ValueError("give one of bookingId, booking and subject")
        return self

    def question(self, found: Subject | None, tenant: str, now: datetime) -> Question:
        """`found` is the booking that is there, if it is about one."""
        if found is not None:
            return Question(subject=found, event_at=self.event_at, step=self.step_key)
        if self.booking is not None:
            return self._of_booking(self.booking, tenant, now)
        assert self.subject is not None
        return self._of_subject(self.subject, tenant, now)

    def _of_booking(self, booking: PreviewBookingInput, tenant: str, now: datetime) -> Question:
        primary = booking.contact_id or booking.contact
        assert primary is not None
        people, invented = _people([primary, *booking.contacts], tenant, booking.timezone)
        facts = {"eventName": booking.event_name, "location": booking.location}
        subject = Subject(
            subject=f"{BOOKING}{_NOBODY}",
            id=_NOBODY,
            timezone=booking.timezone,
            starts_at=booking.start_at,
            ends_at=booking.end_at,
            subtype=booking.subtype,
            status=booking.status or "created",
            facts={name: value for name, value in facts.items() if value is not None},
            people=people,
            dates_at=now,
            created_at=now,
            updated_at=now,
        )
        return Question(
            subject=subject,
            invented=invented,
            event_at=self.event_at,
            step=self.step_key,
            keeps_status=booking.status is not None,
        )

    def _of_subject(self, facts: PreviewSubjectInput, tenant: str, now: datetime) -> Question:
        timezone = facts.timezone or "UTC"
        people, invented = _people(facts.contacts or [], tenant, timezone)
        own = facts.model_extra or {}
        subject = Subject(
            # No event names a subject of no name, so it is nobody's.
            subject=OTHER,
            id=_NOBODY,
            timezone=timezone,
            starts_at=facts.start,
            ends_at=facts.end,
            subtype=facts.subtype,
            status=facts.status,
            facts={name: value for name, value in own.items() if value is not None},
            people=people,
            dates_at=now,
            created_at=now,
            updated_at=now,
        )
        return Question(subject=subject, invented=invented, event_at=self.event_at, step=self.step_key)


class PreviewTextRow(CamelOutput):
    """A text as the contact would get it. `html` is the other form of a mail that has one."""

    language: str
    subject: str | None
    body: str
    html: str | None


class PreviewMessageRow(CamelOutput):
    """A message that would be made. One that would be `skipped` has a `reason`, and `why` says it in words.

    `contactId` is null for a contact who is invented. `localTime` is `scheduledFor` on the subject's wall clock.
    `textLeftOut`: there was no room for the text; ask for the step alone.
    """

    step_key: str
    contact_id: UUID | None
    contact_name: str
    role: str
    channel: str | None
    scheduled_for: Instant | None
    local_time: str | None
    status: Literal["scheduled", "skipped"]
    reason: str | None
    why: str | None
    template_id: str
    text: PreviewTextRow | None
    text_left_out: bool


class PreviewRow(CamelOutput):
    """What a sequence would tell. Where `enters` is false, `reason` and `why` say why its event would not start it for
    this subject, and the messages are those that it would make if it did."""

    sequence_id: UUID
    version: int
    event_at: Instant
    timezone: str
    enters: bool
    reason: str | None
    why: str | None
    messages: list[PreviewMessageRow]


def preview_row(preview: Preview) -> dict[str, Any]:
    return {
        "sequenceId": preview.sequence.id,
        "version": preview.sequence.version,
        "eventAt": show_instant(preview.event_at),
        "timezone": preview.subject.timezone,
        "enters": preview.enters_not is None,
        "reason": preview.enters_not,
        "why": None if preview.enters_not is None else ENTERS_NOT[preview.enters_not],
        "messages": [_message_row(each, preview.subject.timezone) for each in preview.messages],
    }


def local_time(at: datetime | None, timezone: str) -> str | None:
    """As the wall clock there shows it, with its offset; None also where only some clocks can show it."""
    if at is None:
        return None
    try:
        return at.astimezone(zone(timezone)).isoformat()
    except OverflowError:
        return None


def _message_row(message: PreviewedMessage, timezone: str) -> dict[str, Any]:
    text = message.text
    return {
        "stepKey": message.step.key,
        "contactId": None if message.is_invented else message.recipient.id,
        "contactName": message.recipient.name,
        "role": message.role,
        "channel": message.channel,
        "scheduledFor": None if message.due_at is None else show_instant(message.due_at),
        "localTime": local_time(message.due_at, timezone),
        "status": message.status,
        "reason": message.reason,
        "why": message.why,
        "templateId": message.step.template,
        "text": None
        if text is None
        else {
            "language": text.language,
            "subject": text.content.subject,
            "body": text.content.text,
            "html": text.content.html,
        },
        "textLeftOut": message.is_text_left_out,
    }


def _people(
    given: Sequence[UUID | PreviewContactInput], tenant: str, timezone: str
) -> tuple[tuple[tuple[UUID, str], ...], Mapping[UUID, Recipient]]:
    """Each once, as it was named first; those who are invented under ids that nobody has."""
    people: dict[UUID, str] = {}
    invented: dict[UUID, Recipient] = {}
    for place, each in enumerate(given, start=1):
        if isinstance(each, UUID):
            people.setdefault(each, "guest")
        elif each.contact_id is not None:
            people.setdefault(each.contact_id, each.role)
        else:
            id = UUID(int=place)
            people[id] = each.role
            invented[id] = each.recipient(id, tenant, timezone)
    return tuple(people.items()), invented
