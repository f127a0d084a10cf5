"""Types of the keyword arguments of the verbs of notify. The records say the same, and check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from timebell.notify.models import Cap, Digest, OnQuiet, QuietHours, Route, Urgency
from timebell.notify.provider import Channel


class TellOptions(TypedDict, total=False):
    """What `tell` takes besides a recipient and a template: the other fields of `Tell`."""

    context: Mapping[str, Any]
    context_from: str | None
    channels: Route | Sequence[Channel] | Literal["preferred"]
    urgency: Urgency
    topic: str | None
    subject: str | None
    key: str | None
    due_at: datetime | None
    expires_at: datetime | None
    guard: str | None
    digest: Digest | None
    on_quiet: OnQuiet | None
    template_version: int | None
    attempts_max: int | None
    correlation_id: str | None


class PolicyOptions(TypedDict, total=False):
    """What a tenant decides: the fields of `Policy`, and None for the default."""

    default_language: str | None
    default_timezone: str | None
    on_missing: Literal["hold", "skip"] | None
    on_quiet: Mapping[Urgency, OnQuiet] | None
    caps: Sequence[Cap | Mapping[str, Any]] | None
    providers: Mapping[Channel, Sequence[str]] | None
    sender: Mapping[str, str] | None
    attempts_max: int | None
    retry_delays_seconds: Sequence[float] | None
    report_wait_seconds: float | None


class RecipientOptions(TypedDict, total=False):
    """What is changed about a recipient: what `add` takes, but for its addresses."""

    name: str
    external_id: str | None
    email: str | None
    phone: str | None
    language: str
    timezone: str
    channel_preference: Channel | None
    whatsapp_opt_in: bool
    quiet_hours: QuietHours | Mapping[str, Any] | None
