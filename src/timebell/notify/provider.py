"""The contract of a provider: it carries content to an address on one channel, and says truthfully what came of it.

A provider never retries, never chooses and never stores; that is the delivery's work. It must answer within its
deadline, and it must tell the three ways of not succeeding apart: `Rejected` will never succeed like this,
`Unavailable` certainly did not happen and may be tried again, `Uncertain` may or may not have happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from timebell.rules.backoff import ErrorClass

Channel = Literal["email", "sms", "whatsapp", "push", "inbox", "webhook"]
CHANNELS: tuple[Channel, ...] = ("email", "sms", "whatsapp", "push", "inbox", "webhook")

Blame = Literal["address", "content", "account"]
About = Literal["provider", "parcel", "nobody"]
ReportKind = Literal["sent", "delivered", "failed", "bounced", "complained", "unsubscribed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was rendered for one channel. `html` is for mail alone; `data` is for push, webhook and inbox.

    `calendar` is for mail too: an iCalendar object with a METHOD, which calendar programs act on (RFC 6047).
    """

    text: str
    subject: str | None = None
    html: str | None = None
    calendar: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class Handover:
    """The moment from which on a parcel may have been taken. Until then, whatever cuts the call off, it certainly was
    not, and nobody is left in doubt."""

    __slots__ = ("has_begun",)

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self) -> None:
        """Said by the provider just before it writes what the service can act upon."""
        self.has_begun = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Everything a provider needs for one attempt.

    `key` is the same for every attempt at one delivery and for no other, so that a provider which takes keys sends
    once. `detail` belongs to the address: the keys of a push subscription, the secret of a webhook. `unsubscribe_url`
    is given where the message must carry a way out of it. `attempted_at` is when this attempt began by the database's
    clock, for what must carry a date or a signature of it; `first_tried_at` is that of the first attempt. `sender` says
    who it comes from, by channel: `email`, with `email_name` and `reply_to` beside it, `sms`, `whatsapp`. `is_urgent`:
    somebody is waiting for it, so that it may wake a device. `handover` is for the provider to mark, if its traits say
    that it does.
    """

    delivery_id: UUID
    tenant: str
    key: str
    channel: Channel
    address: str
    content: Content
    detail: Mapping[str, Any] = field(default_factory=dict)
    sender: Mapping[str, str] = field(default_factory=dict)
    recipient_name: str | None = None
    unsubscribe_url: str | None = None
    attempted_at: datetime | None = None
    first_tried_at: datetime | None = None
    expires_at: datetime | None = None
    is_urgent: bool = False
    handover: Handover = field(default_factory=Handover, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The provider took it. `is_captured`: it is one that lets nothing leave."""

    provider_id: str | None = None
    is_captured: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """It will never be taken like this. Where the address is to blame, `is_gone` says that it is no more."""

    reason: str
    blame: Blame = "content"
    is_gone: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """It certainly was not taken; it may be later, or by another provider.

    `about` says of whom this tells: of the `provider`, whose breaker opens if it goes on; only of this `parcel`, which
    is its recipient, its sender and its content; or of `nobody`, where the provider was not asked at all, which costs
    no attempt. Nor does a rate limit that says, in `retry_after`, when to come back.
    """

    reason: str
    error_class: ErrorClass = "transient"
    about: About = "provider"
    retry_after: timedelta | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """Nobody knows whether it was taken: it had been handed over, and no answer came. `about` as in `Unavailable`."""

    reason: str
    about: About = "provider"
    detail: Mapping[str, Any] = field(default_factory=dict)


Answer = Sent | Rejected | Unavailable | Uncertain


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a provider can do, by its own documentation.

    `key_lifetime` is for how long it knows a key again; None: it takes none. `can_look_up`: it can be asked what became
    of a parcel. `reports`: it tells afterwards, by webhook, what became of it. `when_uncertain` is what to do where
    neither a key nor a look-up can settle it: `wait` for a report and then give up, `retry` and risk a second copy, or
    do `nothing`; a critical notification is retried unless it says `nothing`. `is_per_host`: its addresses are URLs of
    many hosts, each of which fails on its own and so has a breaker of its own. `marks_handover`: it calls
    `parcel.handover.begin()` before the parcel can be taken, so that what is cut off before is known not to be sent.
    """

    channels: frozenset[Channel]
    key_lifetime: timedelta | None = None
    can_look_up: bool = False
    reports: bool = False
    when_uncertain: Literal["wait", "retry", "nothing"] = "wait"
    rate_per_second: float | None = None
    is_per_host: bool = False
    marks_handover: bool = False
    timeout: timedelta = timedelta(seconds=30)


class Provider(Protocol):
    """One service, or one account at it, by the name under which the settings list it."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    async def send(self, parcel: Parcel) -> Answer: ...

    async def look_up(self, parcel: Parcel) -> Answer:
        """What became of a parcel that may have been taken; `Unavailable` where it was not. Asked only of those that
        can."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a provider told afterwards about one delivery, which it names by our id or by its own."""

    report_id: str
    kind: ReportKind
    provider_id: str | None = None
    delivery_id: UUID | None = None
    address: str | None = None
    is_permanent: bool = True
    reason: str | None = None
    occurred_at: datetime | None = None


@runtime_checkable
class Reporter(Protocol):
    """A provider that reports by webhook. It verifies the raw bytes before it reads them."""

    def read_reports(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Sequence[Report]: ...
