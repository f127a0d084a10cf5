"""The nouns of templates: what is saved, and what is asked for and answered when one is rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from timebell.notify.models import MessageClass
from timebell.notify.provider import Channel, Content
from timebell.notify.rules.sms_length import SmsLength

MissingPolicy = Literal["required", "default", "block"]
TextFormat = Literal["text", "html"]
Context = Mapping[str, Any]
UnrenderedReason = Literal["template_missing", "template_incomplete", "template_failed"]

# What every text may use without declaring it; the delivery gives it.
GIVEN = frozenset(
    {
        "due_at",
        "expires_at",
        "recipient.email",
        "recipient.language",
        "recipient.name",
        "recipient.phone",
        "recipient.timezone",
        "unsubscribe_url",
    }
)
GIVEN_ROOTS = frozenset(path.partition(".")[0] for path in GIVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One thing that the texts of a template speak of, by its path in the context: `name`, `booking.location`.

    What a missing one does is its `policy`. `required`: the notification is held for a person to mend it, or skipped
    where the tenant prefers that. `block`: it is skipped at once, for it would be of no use later. `default`: the
    `default` stands in; null has the passages that ask for it with `{% if %}` left out. A declared path covers what
    lies under it.
    """

    name: str
    policy: MissingPolicy = "required"
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What is said on one channel in one language. Only mail may be HTML; its text part is made from it."""

    channel: Channel
    language: str
    body: str
    subject: str | None = None
    format: TextFormat = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateDraft:
    """A template as it is to be saved: every text of it, in every language. The `topic` is what opt-outs speak of."""

    key: str
    texts: Sequence[Text]
    variables: Sequence[Variable] = ()
    topic: str | None = None
    message_class: MessageClass = "transactional"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One version of a template. A version never changes; a change is a new version."""

    key: str
    version: int
    topic: str
    message_class: MessageClass
    variables: Sequence[Variable]
    texts: Sequence[Text]
    is_shipped: bool
    is_locked: bool
    actor: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLine:
    """A template in a list, without its texts."""

    key: str
    version: int
    topic: str
    message_class: MessageClass
    is_shipped: bool
    is_locked: bool
    is_current: bool
    actor: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Whom a text is rendered for: it decides the language, and in which zone instants are shown."""

    language: str = "en"
    timezone: str = "UTC"
    name: str | None = None
    email: str | None = None
    phone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What will be sent, and the language that it is in."""

    content: Content
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrendered:
    """Why there is nothing to send. `names` are the variables that are missing; `is_final`: do not wait for them."""

    reason: UnrenderedReason
    detail: str
    names: tuple[str, ...] = ()
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A text as a reader would get it, or why they would not. `sms` counts what an SMS of it would take."""

    channel: Channel
    rendered: Rendered | None
    unrendered: Unrendered | None
    languages: tuple[str, ...]
    variables: Sequence[Variable] = field(default=())
    sms: SmsLength | None = None
