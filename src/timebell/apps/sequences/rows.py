"""Between records and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.sequences.models import (
    BOOKING,
    Enrolment,
    KeptMessage,
    Message,
    MessageSequence,
    Person,
    Slip,
    Subject,
    Terms,
)
from timebell.apps.sequences.store import Columns, Row
from timebell.apps.sequences.terms import terms_of
from timebell.notify import Recipient


def sequence_of(row: Row) -> MessageSequence:
    return MessageSequence(
        id=_uuid(row["id"]),
        name=row["name"],
        trigger_event=row["trigger_event"],
        subtype=row["subtype"],
        is_active=row["is_active"],
        version=row["version"],
        terms=terms_of(row["conditions"], row["steps"]),
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
    )


def subject_of(row: Row) -> Subject:
    return Subject(
        subject=row["subject"],
        id=_uuid(row["id"]),
        timezone=row["timezone"],
        starts_at=_utc(row["starts_at"]),
        ends_at=_utc(row["ends_at"]),
        subtype=row["subtype"],
        status=row["status"],
        facts=orjson.loads(row["facts"]),
        people=[
            (_uuid(id), role) for id, role in zip(row["recipient_ids"] or (), row["roles"] or (), strict=True)
        ],
        dates_at=row["dates_at"],
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def enrolment_of(row: Row, terms: Mapping[tuple[UUID, int], Terms]) -> Enrolment:
    sequence_id = _uuid(row["sequence_id"])
    return Enrolment(
        sequence_id=sequence_id,
        entry=row["entry"],
        version=row["version"],
        event_at=row["event_at"],
        terms=terms[sequence_id, row["version"]],
        ended_reason=row["ended_reason"],
    )


def kept_of(row: Row) -> KeptMessage:
    return KeptMessage(
        id=_uuid(row["id"]),
        name=(_uuid(row["sequence_id"]), row["entry"], row["step"], _uuid(row["recipient_id"])),
        status=row["status"],
        reason=row["reason"],
        due_at=_utc(row["due_at"]),
        job_id=None if row["job_id"] is None else _uuid(row["job_id"]),
        is_final=row["is_final"],
    )


def person_of(recipient: Recipient, role: str) -> Person:
    return Person(
        recipient_id=recipient.id,
        role=role,
        language=recipient.language,
        has_phone=any(each.kind == "phone" and each.gone_at is None for each in recipient.addresses),
    )


def subject_columns(subjects: Sequence[Subject]) -> Columns:
    return {
        "subjects": [each.subject for each in subjects],
        "ids": [each.id for each in subjects],
        "bookings": [each.subject.startswith(BOOKING) for each in subjects],
        "statuses": [each.status for each in subjects],
        "subtypes": [each.subtype for each in subjects],
        "starts_ats": [each.starts_at for each in subjects],
        "ends_ats": [each.ends_at for each in subjects],
        "timezones": [each.timezone for each in subjects],
        "facts": [orjson.dumps(each.facts).decode() for each in subjects],
    }


def people_columns(subjects: Sequence[Subject]) -> Columns:
    rows = [
        (each.subject, id, role, ordinal)
        for each in subjects
        for ordinal, (id, role) in enumerate(each.people)
    ]
    names = ("subjects", "recipient_ids", "roles", "ordinals")
    columns: Columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return {"replaced": [each.subject for each in subjects], **columns}


def message_columns(rows: Sequence[tuple[str, KeptMessage, Slip]]) -> Columns:
    """What each slip of a subject came to."""
    return {
        "ids": [kept.id for _, kept, _ in rows],
        "subjects": [subject for subject, _, _ in rows],
        "sequence_ids": [slip.sequence_id for _, _, slip in rows],
        "entries": [slip.entry for _, _, slip in rows],
        "steps": [slip.step.key for _, _, slip in rows],
        "recipient_ids": [slip.recipient_id for _, _, slip in rows],
        "channels": [slip.step.channel for _, _, slip in rows],
        "templates": [slip.step.template for _, _, slip in rows],
        "due_ats": [kept.due_at for _, kept, _ in rows],
        "statuses": [kept.status for _, kept, _ in rows],
        "reasons": [kept.reason for _, kept, _ in rows],
        "job_ids": [kept.job_id for _, kept, _ in rows],
    }


def _uuid(value: Any) -> UUID:
    """The driver's own are slower to compare, and no keys of ours."""
    return UUID(int=value.int)


def _utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


def message_of(row: Row) -> Message:
    return Message(
        id=_uuid(row["id"]),
        subject=row["subject"],
        sequence_id=_uuid(row["sequence_id"]),
        step=row["step"],
        entry=row["entry"],
        recipient_id=_uuid(row["recipient_id"]),
        channel=row["channel"],
        due_at=_utc(row["due_at"]),
        status=row["status"],
        reason=row["reason"],
        template=row["template"],
        sent_at=_utc(row["sent_at"]),
        attempt_count=row["attempt_count"],
        job_id=None if row["job_id"] is None else _uuid(row["job_id"]),
    )
