"""Intents: what is to be told, as the job that tells it carries it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from uuid import UUID

from timebell.errors import InvalidInput
from timebell.kernel.models import check_instant, check_name, check_urgency, check_whole
from timebell.notify.models import Digest, MessageClass, OnQuiet, Route, Tell, Urgency
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.rules.recipient_checks import check_recipient_id
from timebell.notify.rules.windows import check_closes

KEY_MAX = 100
VERSION_MAX = 2**31 - 1
ATTEMPTS_MAX = 20
# What a schedule says of the occurrence that a step is of.
_OCCURRENCE = ("schedule_id", "occurrence_id", "original_local", "occurs_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A `Tell` as it was planned: with the version of its template, and what that says of its topic and class.

    A step that has no instant yet has `expires_after`, counted from when it is due. `move` tells whether a later
    decision about the version concerns it. With a `digest` it joins that; with a `digest_id` it is what tells the
    digest when that closes.
    """

    recipient: UUID
    template: str
    template_version: int
    topic: str
    message_class: MessageClass
    route: Route
    context: Mapping[str, Any] = field(default_factory=dict)
    context_from: str | None = None
    urgency: Urgency = "normal"
    guard: str | None = None
    expires_at: datetime | None = None
    expires_after: timedelta | None = None
    on_quiet: OnQuiet | None = None
    digest: Digest | None = None
    digest_id: UUID | None = None
    attempts_max: int | None = None
    move: int = 0

    def payload(self) -> dict[str, Any]:
        """As JSON, without what is at its default: a payload is read again for every attempt."""
        whole: dict[str, Any] = {
            "recipient": str(self.recipient),
            "template": self.template,
            "template_version": self.template_version,
            "topic": self.topic,
            "class": self.message_class,
            "first": self.route.first if isinstance(self.route.first, str) else list(self.route.first),
        }
        if self.route.also:
            whole["also"] = list(self.route.also)
        if self.context:
            whole["context"] = self.context
        if self.urgency != "normal":
            whole["urgency"] = self.urgency
        for name in ("context_from", "guard", "on_quiet", "attempts_max"):
            if getattr(self, name) is not None:
                whole[name] = getattr(self, name)
        if self.expires_at is not None:
            whole["expires_at"] = self.expires_at.isoformat()
        if self.expires_after is not None:
            whole["expires_after"] = self.expires_after.total_seconds()
        if self.digest is not None:
            whole["digest"] = digest_json(self.digest)
        if self.digest_id is not None:
            whole["digest_id"] = str(self.digest_id)
        if self.move:
            whole["move"] = self.move
        return whole


def intent_of(payload: Mapping[str, Any]) -> Intent:
    """The other way round. Whoever wrote the payload by hand is told what is wrong with it."""
    try:
        expires_at = payload.get("expires_at")
        expires_after = payload.get("expires_after")
        digest = payload.get("digest")
        digest_id = payload.get("digest_id")
        return Intent(
            recipient=UUID(payload["recipient"]),
            template=payload["template"],
            template_version=payload["template_version"],
            topic=payload["topic"],
            message_class=payload["class"],
            route=route_from(payload),
            context=_context_of(payload),
            context_from=payload.get("context_from"),
            urgency=payload.get("urgency", "normal"),
            guard=payload.get("guard"),
            expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
            expires_after=None if expires_after is None else timedelta(seconds=expires_after),
            on_quiet=payload.get("on_quiet"),
            digest=None if digest is None else Digest(**digest),
            digest_id=None if digest_id is None else UUID(digest_id),
            attempts_max=payload.get("attempts_max"),
            move=payload.get("move", 0),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"is not what Notify.tell() or Notify.step() writes ({type(error).__name__}: {error}); use those",
            field="payload",
        ) from error


def _context_of(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The context as it was planned; where a schedule planned it, with the occurrence, for texts and in `data`."""
    context: Mapping[str, Any] = payload.get("context", {})
    about = {name: payload[name] for name in _OCCURRENCE if name in payload}
    if not about:
        return context
    data = context.get("data", {})
    return {**about, **context, "data": {**about, **data} if isinstance(data, Mapping) else data}


def as_due(intent: Intent, due_at: datetime, expires_at: datetime | None) -> Intent:
    """What is to be told now that it is due: by when is known, and it may be that its job expires before."""
    ends = [at for at in (intent.expires_at, expires_at) if at is not None]
    if intent.expires_after is not None:
        ends.append(due_at + intent.expires_after)
    return replace(intent, expires_at=min(ends), expires_after=None) if ends else intent


def digest_json(digest: Digest) -> dict[str, Any]:
    return {
        "key": digest.key,
        "closes": digest.closes,
        "template": digest.template,
        "is_sent_empty": digest.is_sent_empty,
    }


def route_from(stored: Mapping[str, Any]) -> Route:
    """A route as JSON has it, in a payload or by itself."""
    first = stored["first"]
    return Route(first=first if first == "preferred" else tuple(first), also=tuple(stored.get("also", ())))


def route_of(channels: Route | Sequence[Channel] | Literal["preferred"]) -> Route:
    """A list or `preferred` is a route with nothing besides."""
    route = channels if isinstance(channels, Route) else Route(first=channels)
    parts: tuple[object, ...] = (route.first, route.also)
    if not all(isinstance(part, Sequence) for part in parts):
        raise InvalidInput("is no list; give ['email'] or 'preferred'", field="channels")
    if isinstance(route.first, str):
        if route.first != "preferred":
            raise InvalidInput(
                f"{route.first!r:.100} is no list; give ['email'] or 'preferred'", field="channels"
            )
        named: list[Channel] = list(route.also)
    else:
        named = [*route.first, *route.also]
        if not named:
            raise InvalidInput("is empty; name at least one, or 'preferred'", field="channels")
    for channel in named:
        if channel not in CHANNELS:
            raise InvalidInput(
                f"{channel!r:.100} is no channel; choose of {', '.join(CHANNELS)}", field="channels"
            )
    if len(set(named)) < len(named):
        raise InvalidInput("names a channel twice; name each once", field="channels")
    return route


def check_tell(tell: Tell) -> None:
    """Everything that can be refused without asking the database."""
    check_recipient_id(tell.recipient, "recipient")
    check_name("template", tell.template, longest=KEY_MAX, required=True)
    check_name("topic", tell.topic, longest=KEY_MAX)
    check_name("subject", tell.subject)
    check_name("key", tell.key)
    check_name("context_from", tell.context_from)
    check_name("guard", tell.guard)
    check_name("correlation_id", tell.correlation_id)
    check_instant("due_at", tell.due_at)
    check_instant("expires_at", tell.expires_at)
    check_urgency(tell.urgency)
    check_whole("template_version", tell.template_version, 1, VERSION_MAX)
    check_whole("attempts_max", tell.attempts_max, 1, ATTEMPTS_MAX)
    if not isinstance(tell.context, Mapping):
        raise InvalidInput("must be a mapping of names to values", field="context")
    if tell.on_quiet is not None and tell.on_quiet not in get_args(OnQuiet):
        raise InvalidInput(f"must be one of {', '.join(get_args(OnQuiet))}", field="on_quiet")
    route_of(tell.channels)
    if tell.digest is not None:
        check_digest(tell.digest)


def check_digest(digest: object) -> None:
    if not isinstance(digest, Digest):
        raise InvalidInput("must be a Digest; give Digest(key=..., closes=..., template=...)", field="digest")
    check_name("digest.key", digest.key, longest=KEY_MAX, required=True)
    check_name("digest.template", digest.template, longest=KEY_MAX, required=True)
    check_name("digest.closes", digest.closes, longest=200, required=True)
    check_closes(digest.closes)
