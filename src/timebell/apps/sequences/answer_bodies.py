"""Response bodies about sequences, bookings and messages. The names are the source's own, which clients know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from timebell.apps.sequences.bodies import CAMEL
from timebell.apps.sequences.models import (
    BOOKING,
    OTHER,
    Anchor,
    Application,
    BookingSettings,
    BookingStatus,
    Contacts,
    Message,
    MessageSequence,
    MessageStatus,
    StepChannel,
    Subject,
    booking_id,
)
from timebell.apps.sequences.terms import conditions_json, step_json
from timebell.kernel import Page
from timebell.web import Instant, Output, listed, show_instant


class CamelOutput(Output):
    model_config = CAMEL


class ConditionsRow(CamelOutput):
    min_days_out: int | None = None
    max_days_out: int | None = None
    booking_subtype: str | list[str] | None = None
    language: str | list[str] | None = None
    has_phone: bool | None = None
    status: str | list[str] | None = None


class StepRow(CamelOutput):
    key: str
    anchor: Anchor
    offset: str
    at: str | None
    channel: StepChannel
    template_id: str
    contacts: Contacts
    conditions: ConditionsRow


class SequenceRow(CamelOutput):
    """A sequence as whoever enters it now begins with it."""

    id: UUID
    name: str
    trigger_event: str
    booking_subtype: str | None
    active: bool
    version: int
    conditions: ConditionsRow
    steps: list[StepRow]
    created_at: Instant
    updated_at: Instant


class DiffRow(Output):
    """What was changed about what is owed: so many messages."""

    kept: int = 0
    moved: int = 0
    added: int = 0
    withdrawn: int = 0


class ApplicationRow(CamelOutput):
    """A version that is applied to all who are enrolled; `version` null is the end of the sequence. Of `enrolledCount`
    subjects `doneCount` have had their turn, and `diff` is what that has changed. `refused` of them cannot have the
    version, as it would be too many messages for them, and keep theirs."""

    id: UUID
    version: int | None
    enrolled_count: int
    done_count: int
    refused: int
    diff: DiffRow
    created_at: Instant
    finished_at: Instant | None


class ChangedSequenceRow(SequenceRow):
    """With `apply`, what came of that: `diff` is what is changed by now, and the rest is done in the background."""

    diff: DiffRow | None = None
    application: ApplicationRow | None = None


class FunnelRow(CamelOutput):
    step_key: str
    enrolled: int
    scheduled: int
    sent: int
    skipped: int
    failed: int
    cancelled: int


class Funnel(CamelOutput):
    """How many messages of each step stand how."""

    steps: list[FunnelRow]


class ContactRow(CamelOutput):
    contact_id: UUID
    role: str


class BookingRow(CamelOutput):
    id: UUID
    contact_id: UUID | None
    contacts: list[ContactRow]
    subtype: str
    event_name: str
    location: str | None
    start_at: Instant
    end_at: Instant
    timezone: str
    status: BookingStatus
    created_at: Instant
    updated_at: Instant


class ChangedBookingRow(BookingRow):
    """`enrolled`: how many messages this scheduled. `diff`: what it changed about those that were pending."""

    enrolled: int
    diff: DiffRow


class HappenedRow(CamelOutput):
    """What came of an event: how many messages it scheduled, and what it changed about those that were pending."""

    subject: str
    enrolled: int
    diff: DiffRow


class MessageRow(CamelOutput):
    """A message and how it stands. `channel` is the one used; before sending, the one that would be chosen now."""

    id: UUID
    sequence_id: UUID
    step_key: str
    booking_id: UUID | None
    subject: str
    contact_id: UUID
    channel: str
    scheduled_for: Instant | None
    status: MessageStatus
    reason: str | None
    template_id: str
    sent_at: Instant | None
    attempts: int


class BookingSettingsRow(CamelOutput):
    check_in_at_start: bool
    complete_at_end: bool


def sequence_row(sequence: MessageSequence) -> dict[str, Any]:
    return {
        "id": sequence.id,
        "name": sequence.name,
        "triggerEvent": sequence.trigger_event,
        "bookingSubtype": sequence.subtype,
        "active": sequence.is_active,
        "version": sequence.version,
        "conditions": conditions_json(sequence.terms.conditions),
        "steps": [step_json(step) for step in sequence.terms.steps],
        "createdAt": show_instant(sequence.created_at),
        "updatedAt": show_instant(sequence.updated_at),
    }


def sequence_rows(page: Page[MessageSequence]) -> dict[str, Any]:
    return listed(page, sequence_row)


def application_row(application: Application) -> dict[str, Any]:
    return {
        "id": application.id,
        "version": application.version,
        "enrolledCount": application.enrolled_count,
        "doneCount": application.done_count,
        "refused": application.counts.get("refused", 0),
        "diff": diff_row(application.counts),
        "createdAt": show_instant(application.created_at),
        "finishedAt": None if application.finished_at is None else show_instant(application.finished_at),
    }


def diff_row(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in DiffRow.model_fields}


def booking_row(booking: Subject) -> dict[str, Any]:
    assert booking.starts_at is not None
    assert booking.ends_at is not None
    people = [{"contactId": id, "role": role} for id, role in booking.people]
    return {
        "id": booking.id,
        "contactId": people[0]["contactId"] if people else None,
        "contacts": people,
        "subtype": booking.subtype,
        "eventName": booking.facts["eventName"],
        "location": booking.facts.get("location"),
        "startAt": show_instant(booking.starts_at),
        "endAt": show_instant(booking.ends_at),
        "timezone": booking.timezone,
        "status": booking.status,
        "createdAt": show_instant(booking.created_at),
        "updatedAt": show_instant(booking.updated_at),
    }


def message_row(message: Message) -> dict[str, Any]:
    is_booking = message.subject.startswith(BOOKING)
    return {
        "id": message.id,
        "sequenceId": message.sequence_id,
        "stepKey": message.step,
        "bookingId": booking_id(message.subject) if is_booking else None,
        "subject": message.subject if is_booking else message.subject.removeprefix(OTHER),
        "contactId": message.recipient_id,
        "channel": message.channel,
        "scheduledFor": None if message.due_at is None else show_instant(message.due_at),
        "status": message.status,
        "reason": message.reason,
        "templateId": message.template,
        "sentAt": None if message.sent_at is None else show_instant(message.sent_at),
        "attempts": message.attempt_count,
    }


def settings_row(settings: BookingSettings) -> dict[str, bool]:
    return {
        "checkInAtStart": settings.checks_in_at_start,
        "completeAtEnd": settings.completes_at_end,
    }
