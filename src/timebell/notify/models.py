"""The nouns of notify, as frozen records. Whoever takes one checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, Literal
from uuid import UUID

from timebell.notify.provider import Channel
from timebell.notify.reasons import DeliveryState, NotificationState

AddressKind = Literal["email", "phone", "push", "webhook"]
MessageClass = Literal["transactional", "marketing"]
OnQuiet = Literal["early", "other_channel", "inbox_only", "drop"]
Urgency = Literal["normal", "time_bound", "critical"]
InboxStatus = Literal["unseen", "seen", "dismissed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """When a recipient wants peace, in its own timezone: from `start`, inclusive, to `end`, exclusive.

    An `end` before the `start` is on the next day; where both are the same there is none. `days` are the weekdays on
    which it begins, Monday is 0. `time_bound` says whether what cannot wait may pass. Only the `channels` that disturb
    are quiet.
    """

    start: time
    end: time
    days: frozenset[int] = frozenset(range(7))
    time_bound: Literal["pass", "hold"] = "pass"
    channels: frozenset[Channel] = frozenset({"email", "sms", "whatsapp", "push"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One way to reach a recipient."""

    kind: AddressKind
    value: str
    id: UUID | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    verified_at: datetime | None = None
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptOut:
    """What a recipient does not want; None stands for every topic or every channel."""

    topic: str | None = None
    channel: Channel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A person or endpoint that can be told things."""

    id: UUID
    tenant: str
    name: str
    external_id: str | None = None
    language: str = "en"
    timezone: str = "UTC"
    channel_preference: Channel | None = None
    whatsapp_opt_in: bool = False
    quiet_hours: QuietHours | None = None
    addresses: Sequence[Address] = ()
    opt_outs: Sequence[OptOut] = ()
    revision: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None
    erased_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """On which channels to tell: on the `first` that works, and besides on each of `also`."""

    first: Sequence[Channel] | Literal["preferred"] = "preferred"
    also: Sequence[Channel] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """At most `count` in any `per`, to one recipient on one channel (None: on all of them together)."""

    count: int
    per: timedelta
    channel: Channel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Told together with others of the same key, when the window closes.

    `closes` is a recurrence in the recipient's timezone: `FREQ=DAILY;BYHOUR=8;BYMINUTE=0`. `template` is what the
    digest is told with; it is given `entries`. `is_sent_empty` has it told even if nothing joined.
    """

    key: str
    closes: str
    template: str
    is_sent_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a tenant decides about its notifications.

    `providers` lists for each channel the providers to try, in order; without it, those of the process in the order of
    its settings. `on_missing` is what a missing required variable does: `hold` for a person to mend it, or `skip`.
    `on_quiet` is what happens to a notification that would expire before quiet hours end. `revision` counts the
    tenant's decisions.
    """

    default_language: str = "en"
    default_timezone: str = "UTC"
    on_missing: Literal["hold", "skip"] = "hold"
    on_quiet: Mapping[Urgency, OnQuiet] = field(
        default_factory=lambda: {"normal": "inbox_only", "time_bound": "early"}
    )
    caps: Sequence[Cap] = ()
    providers: Mapping[Channel, Sequence[str]] = field(default_factory=dict)
    sender: Mapping[str, str] = field(default_factory=dict)
    attempts_max: int = 4
    retry_delays_seconds: Sequence[float] = (60.0, 300.0, 900.0)
    report_wait_seconds: float = 3_600.0
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """What is asked for when somebody is to be told something.

    `context_from` names what reads more of the context when it is told; that goes over what is planned here.
    `channels` is a list, of which the first that works is taken, or `preferred`, or a `Route`. `key` makes it told
    once, however often it is asked for. `expires_at` is when it would be of no more use. `on_quiet` and `attempts_max`
    override the tenant's policy.
    """

    recipient: UUID
    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    context_from: str | None = None
    channels: Route | Sequence[Channel] | Literal["preferred"] = "preferred"
    urgency: Urgency = "normal"
    topic: str | None = None
    subject: str | None = None
    key: str | None = None
    due_at: datetime | None = None
    expires_at: datetime | None = None
    guard: str | None = None
    digest: Digest | None = None
    on_quiet: OnQuiet | None = None
    template_version: int | None = None
    attempts_max: int | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was considered, and what it came to: `passed`, `refused`, `held` or `chosen`."""

    name: str
    verdict: Literal["passed", "refused", "held", "chosen"]
    reason: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One call of a provider."""

    number: int
    started_at: datetime
    answered_at: datetime | None
    answer: Literal["sent", "rejected", "unavailable", "uncertain"] | None
    reason: str | None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One notification on one channel through one provider."""

    id: UUID
    tenant: str
    notification_id: UUID
    recipient_id: UUID
    channel: Channel
    provider: str
    address: str
    state: DeliveryState
    reason: str | None = None
    language: str | None = None
    content: Mapping[str, Any] | None = None
    provider_id: str | None = None
    attempt_count: int = 0
    sent_at: datetime | None = None
    delivered_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    attempts: Sequence[Attempt] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One thing to tell one recipient, and what came of it."""

    id: UUID
    tenant: str
    recipient_id: UUID
    template: str
    template_version: int | None
    topic: str
    message_class: MessageClass
    urgency: Urgency
    route: Route
    context: Mapping[str, Any]
    due_at: datetime
    state: NotificationState
    reason: str | None = None
    subject: str | None = None
    key: str | None = None
    digest_id: UUID | None = None
    expires_at: datetime | None = None
    held_until: datetime | None = None
    correlation_id: str | None = None
    created_at: datetime | None = None
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxLine:
    """What a recipient sees in the application. `seq` rises by one with each entry of a recipient."""

    id: UUID
    seq: int
    recipient_id: UUID
    type: str
    title: str
    description: str
    status: InboxStatus
    priority: Urgency
    payload: Mapping[str, Any]
    subject: str | None
    due_at: datetime
    created_at: datetime
    updated_at: datetime
