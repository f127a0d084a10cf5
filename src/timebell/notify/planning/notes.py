"""Notifications and their contents, as the statements take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.kernel import Job
from timebell.notify.provider import Content
from timebell.notify.rules.intents import Intent, digest_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A notification before anything became of it. `is_noted`: it has a row already."""

    tenant: str
    id: UUID
    intent: Intent
    due_at: datetime | None
    subject: str | None = None
    key: str | None = None
    correlation_id: str | None = None
    is_noted: bool = False


def note_of(job: Job, intent: Intent, *, is_noted: bool) -> Note:
    return Note(
        tenant=job.tenant,
        id=job.id,
        intent=intent,
        due_at=job.due_at,
        subject=job.subject,
        key=job.key,
        correlation_id=job.correlation_id,
        is_noted=is_noted,
    )


def note_columns(notes: Sequence[Note]) -> dict[str, list[Any]]:
    intents = [note.intent for note in notes]
    return {
        "tenants": [note.tenant for note in notes],
        "ids": [note.id for note in notes],
        "recipient_ids": [intent.recipient for intent in intents],
        "templates": [intent.template for intent in intents],
        "template_versions": [intent.template_version for intent in intents],
        "moves": [intent.move for intent in intents],
        "topics": [intent.topic for intent in intents],
        "classes": [intent.message_class for intent in intents],
        "urgencies": [intent.urgency for intent in intents],
        "routes": [_route_json(intent) for intent in intents],
        "guards": [intent.guard for intent in intents],
        # What is no JSON was refused with the payload of the job; left are the driver's own ids.
        "contexts": [orjson.dumps(intent.context, default=str).decode() for intent in intents],
        "subjects": [note.subject for note in notes],
        "keys": [note.key for note in notes],
        "digests": [_digest_json(intent) for intent in intents],
        "on_quiets": [intent.on_quiet for intent in intents],
        "due_ats": [note.due_at for note in notes],
        "expires_ats": [intent.expires_at for intent in intents],
        "correlation_ids": [note.correlation_id for note in notes],
    }


def content_json(content: Content) -> str:
    whole: dict[str, Any] = {
        "subject": content.subject,
        "text": content.text,
        "html": content.html,
        "data": dict(content.data),
    }
    if content.calendar is not None:
        whole["calendar"] = content.calendar
    return orjson.dumps(whole).decode()


def _route_json(intent: Intent) -> str:
    first = intent.route.first
    return orjson.dumps(
        {"first": first if isinstance(first, str) else list(first), "also": list(intent.route.also)}
    ).decode()


def _digest_json(intent: Intent) -> str | None:
    return None if intent.digest is None else orjson.dumps(digest_json(intent.digest)).decode()
