"""Inbox entries: what is shown to a recipient in the application, on its way into the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.notify.models import Urgency
from timebell.notify.planning.notes import content_json
from timebell.notify.provider import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """One notification for the inbox: its subject is the title there, its text the description."""

    tenant: str
    notification_id: UUID
    job_version: int
    recipient_id: UUID
    content: Content
    language: str
    type: str
    priority: Urgency
    payload: Mapping[str, Any]
    subject: str | None
    due_at: datetime
    expires_at: datetime | None = None

    @property
    def run(self) -> tuple[UUID, int]:
        return self.notification_id, self.job_version


def entry_columns(entries: Sequence[InboxEntry], delivery_ids: Sequence[UUID]) -> dict[str, list[Any]]:
    """The columns of `show_entries.sql`; each entry has a delivery of its own."""
    return {
        "tenants": [entry.tenant for entry in entries],
        "ids": [entry.notification_id for entry in entries],
        "delivery_ids": list(delivery_ids),
        "recipient_ids": [entry.recipient_id for entry in entries],
        "types": [entry.type for entry in entries],
        "titles": [entry.content.subject or "" for entry in entries],
        "descriptions": [entry.content.text for entry in entries],
        "priorities": [entry.priority for entry in entries],
        "payloads": [orjson.dumps(dict(entry.payload)).decode() for entry in entries],
        "subjects": [entry.subject for entry in entries],
        "due_ats": [entry.due_at for entry in entries],
        "languages": [entry.language for entry in entries],
        "contents": [content_json(entry.content) for entry in entries],
        "expires_ats": [entry.expires_at for entry in entries],
    }
