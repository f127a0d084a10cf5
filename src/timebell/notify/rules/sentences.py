"""Explanations: what was considered about a notification, as sentences. Pure wording, from what was stored.

Instants are told as the recipient's clock shows them, because that is what quiet hours and digests go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from timebell.notify.models import Check, Delivery, Notification
from timebell.notify.reasons import REASONS
from timebell.rules.localtime import zone

Say = Callable[[Check, str], str]

_CHANNELS: Final[Mapping[str, str]] = {
    "email": "by email",
    "sms": "by SMS",
    "whatsapp": "by WhatsApp",
    "push": "by push",
    "inbox": "in the inbox",
    "webhook": "by webhook",
}
_REPORTED: Final[Mapping[str, str]] = {
    "sent": "that it was sent on",
    "delivered": "that it was delivered",
    "failed": "that it could not be delivered",
    "bounced": "that the address refused it",
    "complained": "that the recipient called it unwanted",
    "unsubscribed": "that the recipient wants no more of it",
}
_REMEDIES: Final[Mapping[str, str]] = {
    "again": "it is sent again",
    "look_up": "the provider is asked what became of it",
    "wait": "its report is waited for",
    "leave": "nothing can settle that, so it is left at that",
}
_PASSES: Final[Mapping[str, str]] = {
    "critical": "it is critical",
    "time_bound": "it is time-bound",
    "digest": "it is a digest, whose time was chosen",
}
_ON_QUIET: Final[Mapping[str, str]] = {
    "early": "only the inbox is left",
    "inbox_only": "only the inbox is left",
    "other_channel": "another channel is looked for",
    "drop": "it is dropped",
}


def sentence(check: Check, timezone: str = "UTC") -> str:
    """What one check came to. One that nobody has words for is told by its reason, never left out."""
    say = _SAY.get((check.name, check.verdict))
    return _plainly(check) if say is None else say(check, timezone)


def sentences(checks: Iterable[Check], timezone: str = "UTC") -> list[tuple[str, Check]]:
    """Each thing once: a run that falls back considers what was ruled out before again."""
    said: dict[str, Check] = {}
    for check in checks:
        said.setdefault(sentence(check, timezone), check)
    return list(said.items())


def summary(notification: Notification, deliveries: Iterable[Delivery] = (), timezone: str = "UTC") -> str:
    """What became of a notification, in one sentence."""
    state, reason = notification.state, notification.reason
    why = REASONS.get(reason or "", reason or "")
    if reason == "withdrawn":
        # Where it was told in part, or may have been, that is its state.
        why = "what was still to be told was taken back"
    until = None if notification.held_until is None else instant(notification.held_until, timezone)
    is_held = until is not None and notification.settled_at is None
    where = _where(each.channel for each in deliveries if each.state == state)
    match state:
        case "pending":
            return f"It has not been told yet; it is due at {instant(notification.due_at, timezone)}."
        case "held":
            return f"It is held until {until}: {why}."
        case "skipped" if is_held:
            return f"It is held until {until} for somebody to mend it: {why}."
        case "uncertain" if is_held:
            return f"It may have been told already. Until {until}, {why}."
        case "skipped":
            return f"It was not told: {why}."
        case "sent" | "delivered":
            said = f"It was {state}{where}"
            return f"{said}: {why}." if why and state == "sent" else f"{said}."
        case "suppressed":
            return f"It did not leave{where}: {why}."
        case "uncertain":
            return f"It may or may not have been told{where}: {why}."
        case "failed":
            return f"It could not be told{where}: {why}."
        case "withdrawn":
            return "It was withdrawn before it was told."


def instant(at: datetime | str, timezone: str = "UTC") -> str:
    """An instant to the second, as a clock in the timezone shows it."""
    given = datetime.fromisoformat(at) if isinstance(at, str) else at
    try:
        local = given.astimezone(zone(timezone))
    except OverflowError:
        # At the end of time there are instants which only some clocks can show.
        timezone, local = "UTC", given
    shown = local.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")
    return f"{shown} {timezone}"


def _where(channels: Iterable[str]) -> str:
    named = list(dict.fromkeys(_CHANNELS.get(channel, channel) for channel in channels))
    return f" {' and '.join(named)}" if named else ""


def _plainly(check: Check) -> str:
    why = REASONS.get(check.reason or "", check.reason or check.verdict)
    channel = check.detail.get("channel")
    return f"Not {_CHANNELS.get(channel, channel)}: {why}." if channel else f"{why[:1].upper()}{why[1:]}."


def _opted_out(check: Check, timezone: str) -> str:
    topic, channel = check.detail.get("opt_out_topic"), check.detail.get("opt_out_channel")
    what = f"of {topic!r}" if topic else "of everything"
    where = _CHANNELS.get(channel, "") if channel else "on every channel"
    return f"{_not(check)}: the recipient opted out {what} {where}."


def _suppressed(check: Check, timezone: str) -> str:
    only = check.detail.get("class")
    return f"{_not(check)}: the address is on the suppression list{f' for what is {only}' if only else ''}."


def _quiet_passed(check: Check, timezone: str) -> str:
    because = _PASSES.get(check.detail["passes_as"], check.detail["passes_as"])
    return f"Quiet hours last until {_at(check, 'ends_at', timezone)}; it passes them because {because}."


def _quiet_refused(check: Check, timezone: str) -> str:
    then = _ON_QUIET.get(check.detail["on_quiet"], check.detail["on_quiet"])
    ends = _at(check, "ends_at", timezone)
    return f"{_not(check)}: quiet hours last until {ends}, when it would be too late; {then}."


def _chosen(check: Check, timezone: str) -> str:
    channel = check.detail["channel"]
    return f"It is told {_CHANNELS.get(channel, channel)}."


def _provider_held(check: Check, timezone: str) -> str:
    until = _at(check, "until", timezone)
    match check.reason:
        case "held_breaker":
            return f"The provider keeps failing or asked for a rest; it is tried again at {until}."
        case "held_rate":
            return f"The provider's rate limit has room for it at about {until}."
        case _:
            return f"The next attempt is made at {until}."


def _provider_passed(check: Check, timezone: str) -> str:
    name = check.detail.get("provider", "The provider")
    if check.reason == "demo":
        return f"{name} kept it, as demo mode has it; the outbox shows it."
    return f"{name} took it."


def _provider_refused(check: Check, timezone: str) -> str:
    if check.reason == "rate_limited":
        return "It would expire before the provider's rate limit has room for it."
    if "answer" not in check.detail:
        return "It would expire before a provider can be tried again."
    name, said = check.detail.get("provider", "The provider"), check.detail.get("said")
    words = {
        "rejected": f"{name} refused it for good",
        "unavailable": f"{name} did not take it",
        "uncertain": f"{name} was called and did not answer, so it may or may not have been told",
    }.get(check.detail["answer"], f"{name} did not take it")
    return f"{words}: {said}." if said and said != check.reason else f"{words}."


def _doubt(check: Check, timezone: str) -> str:
    name = check.detail.get("provider", "the provider")
    remedy = _REMEDIES.get(check.detail["remedy"], check.detail["remedy"])
    return f"Nobody knows whether {name} took the last attempt; {remedy}."


def _template(check: Check, timezone: str) -> str:
    names: Iterable[Any] = check.detail.get("names", ())
    missing = ", ".join(map(str, names))
    if check.reason == "template_incomplete" and missing:
        return f"{_not(check)} as it is: no value was given for {missing}."
    why = check.detail.get("detail") or REASONS.get(check.reason or "", "")
    return f"{_not(check)}: {why}."


def _guard_refused(check: Check, timezone: str) -> str:
    words = f"The guard {check.detail['guard']!r} said that it is no longer wanted"
    why = check.detail.get("why")
    return f"{words}: {why.removesuffix('.')}." if why else f"{words}."


def _report(check: Check, timezone: str) -> str:
    kind = check.detail["kind"]
    news = "" if check.detail.get("is_news") else ", which was no news"
    return f"{check.detail['provider']} reported {_REPORTED.get(kind, kind)}{news}."


def _not(check: Check) -> str:
    channel = check.detail.get("channel", "")
    return f"Not {_CHANNELS.get(channel, channel)}"


def _at(check: Check, name: str, timezone: str) -> str:
    return instant(check.detail[name], timezone)


_SAY: Final[Mapping[tuple[str, str], Say]] = {
    ("sender", "refused"): lambda check, timezone: (
        f"The tenant's sender ({', '.join(check.detail['parts'])}) is not approved, so the provider's own is used."
    ),
    ("cap", "held"): lambda check, timezone: (
        f"The recipient has had as many as the cap allows; there is room again at {_at(check, 'until', timezone)}."
    ),
    ("channel", "chosen"): _chosen,
    ("consent", "refused"): _opted_out,
    ("context", "passed"): lambda check, _: (
        f"What it says was read from {check.detail['context_from']!r} as it was told."
    ),
    ("context", "refused"): lambda check, _: (
        f"What it says could not be read from {check.detail['context_from']!r}: {check.detail['why']}."
    ),
    ("digest", "held"): lambda check, timezone: (
        f"It joined a digest, which closes at {_at(check, 'closes_at', timezone)}."
    ),
    ("due", "held"): lambda check, timezone: f"It is to be told at {_at(check, 'until', timezone)}.",
    ("expiry", "refused"): lambda check, timezone: f"It expired at {_at(check, 'expires_at', timezone)}.",
    ("guard", "passed"): lambda check, _: (
        f"The guard {check.detail['guard']!r} said that it is still wanted."
    ),
    ("guard", "refused"): _guard_refused,
    ("left_digest", "passed"): lambda check, _: (
        "The job of its digest was given up before it closed, so this is told by itself."
    ),
    ("provider", "held"): _provider_held,
    ("provider", "passed"): _provider_passed,
    ("provider", "refused"): _provider_refused,
    ("quiet_hours", "held"): lambda check, timezone: (
        f"Quiet hours last until {_at(check, 'until', timezone)}; it waits for their end."
    ),
    ("quiet_hours", "passed"): _quiet_passed,
    ("quiet_hours", "refused"): _quiet_refused,
    ("report", "passed"): _report,
    ("report", "refused"): _report,
    ("suppression", "refused"): _suppressed,
    ("template", "refused"): _template,
    ("uncertain", "passed"): _doubt,
}
