"""Why a message is sent then, or is not, in plain sentences: pure wording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from timebell.apps.sequences.models import Conditions, Message, Offset, Person, SequenceStep, Subject
from timebell.apps.sequences.rules import ENDS, REFUSALS, days_out, refusal
from timebell.apps.sequences.terms import CONDITIONS, conditions_json
from timebell.notify import Explanation
from timebell.rules.localtime import zone

# Those who are not told, by the status of the message.
NOT_SENT: Final = ("skipped", "failed", "cancelled")
_ANCHORS: Final[Mapping[str, str]] = {
    "event_time": "the event",
    "booking_start": "the start",
    "booking_end": "the end",
}
_CHANNELS: Final[Mapping[str, str]] = {"email": "email", "sms": "SMS", "whatsapp": "WhatsApp"}
_DAYS: Final = frozenset({"days_out_min", "days_out_max"})
# A notification in one of these has come to nothing yet, or to nothing by itself.
_NOT_RUN: Final = frozenset({"pending", "withdrawn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A condition of the sequence or of the step, what it asks for, and what was found. `is_met` is None where there is
    nobody to ask it of any more."""

    of: Literal["sequence", "step"]
    name: str
    wanted: Any
    found: Any
    is_met: bool | None


def measured(
    of: Literal["sequence", "step"],
    conditions: Conditions,
    subject: Subject,
    person: Person | None,
    measured_at: datetime,
) -> Iterator[Measured]:
    """Each condition by itself, by the same rule that decides."""
    for name, wanted in conditions_json(conditions).items():
        ours = CONDITIONS[name]
        found: Any = None
        if ours in _DAYS and subject.starts_at is not None:
            found = days_out(subject.starts_at, measured_at, subject.timezone)
        elif ours in ("languages", "has_phone"):
            found = getattr(person, "language" if ours == "languages" else "has_phone", None)
        elif ours in ("subtypes", "statuses"):
            found = subject.subtype if ours == "subtypes" else subject.status
        is_met = None
        if person is not None:
            alone = Conditions(**{ours: getattr(conditions, ours)})
            is_met = refusal(alone, subject, person, measured_at) is None
        yield Measured(of=of, name=name, wanted=wanted, found=found, is_met=is_met)


def say_condition(one: Measured) -> str:
    wanted = " or ".join(map(str, one.wanted)) if isinstance(one.wanted, list) else str(one.wanted)
    if isinstance(one.wanted, bool):
        wanted = "yes" if one.wanted else "no"
    words = {True: "met", False: "not met", None: "not asked any more"}[one.is_met]
    return f"The condition {one.name} ({wanted}) of the {one.of} is {words}: {_found(one)}."


def _found(one: Measured) -> str:
    if one.name == "hasPhone" and one.found is not None:
        return f"the contact has {'a' if one.found else 'no'} phone"
    if one.name in ("language", "hasPhone"):
        return "the contact is gone" if one.found is None else f"the contact's language is {one.found}"
    if one.name in ("minDaysOut", "maxDaysOut"):
        if one.found is None:
            return "there is no start"
        return f"the start was {_many(one.found, 'day')} away when that was measured"
    word = "subtype" if one.name == "bookingSubtype" else "status"
    return f"there is no {word}" if one.found is None else f"the {word} is {one.found}"


def say_timing(step: SequenceStep, anchor: datetime | None, timezone: str) -> str:
    """What it is counted from, and how far from that it is."""
    name = _ANCHORS[step.anchor]
    if anchor is None:
        return f"It is counted from {name}, which has no instant."
    parts = list(_distance(step.offset))
    if step.at is not None:
        parts = [*(parts or ["on that day"]), f"at {step.at:%H:%M} there"]
    return f"It is counted from {name}, {instant(anchor, timezone)}: {', '.join(parts) or 'at that instant'}."


def _distance(offset: Offset) -> Iterator[str]:
    side = "before" if offset.is_before else "after"
    minutes, seconds = divmod(int(abs(offset.elapsed).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    amounts = ((abs(offset.days), "day"), (hours, "hour"), (minutes, "minute"), (seconds, "second"))
    said = [_many(amount, unit) for amount, unit in amounts if amount]
    if said:
        yield f"{' and '.join(said)} {side}"


def summary(message: Message, explained: Explanation | None, timezone: str = "UTC") -> str:
    """How a message stands, in one sentence. What notify was asked and has answered is in its words."""
    has_run = (
        explained is not None
        and explained.notification is not None
        and explained.notification.state not in _NOT_RUN
    )
    if message.status == "sent":
        when = "" if message.sent_at is None else f" at {instant(message.sent_at, timezone)}"
        return f"It was sent by {_CHANNELS.get(message.channel, message.channel)}{when}."
    if message.status == "sending":
        return "It is being sent right now."
    if explained is not None and has_run:
        return _guard_said(explained) or explained.summary
    if message.status == "scheduled" and message.due_at is not None:
        return f"It is to be sent at {instant(message.due_at, timezone)}."
    words = plan_words(message)
    if words is not None:
        return f"It is not sent{' any more' if message.status == 'cancelled' else ''}: {words}."
    if explained is not None:
        return explained.summary
    return f"It was not sent: {message.reason or message.status}."


def plan_words(message: Message) -> str | None:
    """Why the plan has not, or no longer, a message that is to be sent."""
    words = ENDS if message.status == "cancelled" else REFUSALS
    return words.get(message.reason or "")


def _guard_said(explained: Explanation) -> str | None:
    """What was asked just before sending says more than that it was refused."""
    if explained.notification is None or explained.notification.reason != "guard_refused":
        return None
    said = [
        line.text
        for line in explained.story
        if line.check is not None and line.check.reason == "guard_refused"
    ]
    return said[-1] if said else None


def instant(at: datetime, timezone: str) -> str:
    """As a clock there shows it, to the minute, or to the second where that matters."""
    try:
        local = at.astimezone(zone(timezone))
    except OverflowError:
        timezone, local = "UTC", at
    return f"{local.strftime('%Y-%m-%d %H:%M:%S').removesuffix(':00')} {timezone}"


def _many(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if abs(count) == 1 else 's'}"
