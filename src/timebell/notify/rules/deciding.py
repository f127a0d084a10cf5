"""Whether, when and on which channel to tell: a pure answer to what is known, with everything that was considered.

What cannot be known without asking, such as a guard, a cap or a provider, is not decided here. Whoever asks it puts the
answer into the facts and decides again.

Checks name what stood in the way, and what would have on another day. What is chosen was refused by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from timebell.notify.models import Check, OnQuiet, Policy, Recipient
from timebell.notify.provider import Channel
from timebell.notify.rules.consent import Suppressed, opt_out_against, suppression_against
from timebell.notify.rules.intents import Intent
from timebell.notify.rules.routing import Candidate, Leg, legs_of
from timebell.rules.localtime import zone
from timebell.rules.quiet_hours import Window, window_at

# How long before quiet hours begin something is told that would be too late after them.
EARLY: Final = timedelta(minutes=1)

# What only happens to something that was tried.
FAILURES: Final = frozenset({"rejected", "bounced", "complained", "exhausted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that decides about a notification.

    `ruled_out` holds what turned out not to work, with its reason, by channel and address; the address None stands for
    each of the channel. `is_in_inbox`: it is there already. A digest `is_digest` when it is told, and comes at an
    instant that was chosen for it, so that no quiet hours hold it.
    """

    now: datetime
    intent: Intent
    due_at: datetime
    recipient: Recipient | None
    policy: Policy
    suppressed: Sequence[Suppressed] = ()
    ruled_out: Mapping[tuple[Channel, str | None], str] = field(default_factory=dict)
    is_in_inbox: bool = False
    is_digest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Tell now, in this way."""

    candidate: Candidate
    checks: Sequence[Check] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Ask again at `until`; it may be told then."""

    until: datetime
    reason: str
    checks: Sequence[Check] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """There is no way left. It `failed` if one was tried, and was `skipped` if none was."""

    reason: str
    state: Literal["skipped", "failed"] = "skipped"
    checks: Sequence[Check] = ()


Verdict = Send | Hold | Skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided: about the `whole`, or else about each leg by its name."""

    whole: Hold | Skip | None
    legs: Mapping[str, Verdict] = field(default_factory=dict)


def decide(facts: Facts) -> Decision:
    """The answer for a notification of which nothing has been told yet."""
    whole = decide_whole(facts)
    if whole is not None or facts.recipient is None:
        return Decision(whole=whole)
    verdicts: dict[str, Verdict] = {}
    for leg in legs_of(facts.intent.route, facts.recipient):
        verdict = verdicts[leg.name] = decide_leg(facts, leg)
        if isinstance(verdict, Send) and verdict.candidate.channel == "inbox":
            facts = replace(facts, is_in_inbox=True)
    return Decision(whole=None, legs=verdicts)


def decide_whole(facts: Facts) -> Hold | Skip | None:
    """What stops all legs at once: nobody to tell, too late, or too soon."""
    if facts.recipient is None or facts.recipient.erased_at is not None:
        return _skipped("recipient", "no_recipient")
    expires_at = facts.intent.expires_at
    if expires_at is not None and facts.now >= expires_at:
        return _skipped("expiry", "expired", {"expires_at": expires_at.isoformat()})
    planned_at = plan(facts)
    if facts.now < planned_at:
        return _held("due", "held_due", planned_at)
    return None


def decide_leg(facts: Facts, leg: Leg) -> Verdict:
    """How to go on along one leg of the route."""
    checks = list(leg.checks)
    refusals: list[str] = []
    for candidate in leg.candidates:
        refused = refusal(facts, candidate)
        if refused is None:
            verdict = _at_this_hour(facts, leg, candidate)
            if isinstance(verdict, Send | Hold):
                return replace(verdict, checks=(*checks, *verdict.checks)) if checks else verdict
            refused = verdict
        checks.append(refused)
        refusals.append(refused.reason or "no_channel")
        if refused.name == "quiet_hours" and _on_quiet(facts) != "other_channel":
            break
    failures = [reason for reason in refusals if reason in FAILURES]
    if failures:
        return Skip(reason=failures[0], state="failed", checks=tuple(checks))
    return Skip(reason=refusals[0] if refusals else "no_channel", checks=tuple(checks))


def plan(facts: Facts) -> datetime:
    """When to tell: at the instant it is due, or just before quiet hours that would make it too late.

    Once those have begun it stays due when it is, and the quiet hours are met then.
    """
    if facts.recipient is None or _on_quiet(facts) != "early":
        return facts.due_at
    for leg in legs_of(facts.intent.route, facts.recipient):
        usable = (candidate for candidate in leg.candidates if refusal(facts, candidate) is None)
        window = _window(facts, next(usable, None), facts.due_at)
        if window is not None and not _passes_as(facts) and _is_too_late(facts, window.ends_at):
            early_at = max(window.begins_at - EARLY, facts.now)
            return early_at if early_at < window.begins_at else facts.due_at
    return facts.due_at


def wait(facts: Facts, until: datetime, *, name: str, held: str, skipped: str) -> Hold | Skip:
    """Wait for a cap, a rate, a breaker or the next attempt, unless it would expire meanwhile."""
    return _skipped(name, skipped) if _is_too_late(facts, until) else _held(name, held, until)


def refusal(facts: Facts, candidate: Candidate) -> Check | None:
    """Why a candidate cannot be used at any hour, if so."""
    intent, channel = facts.intent, candidate.channel
    for address in (None, candidate.value):
        reason = facts.ruled_out.get((channel, address))
        if reason is not None:
            return _refused("route", reason, candidate)
    assert facts.recipient is not None
    opt_out = opt_out_against(
        facts.recipient.opt_outs, topic=intent.topic, channel=channel, urgency=intent.urgency
    )
    if opt_out is not None:
        found = {"opt_out_topic": opt_out.topic, "opt_out_channel": opt_out.channel}
        return _refused("consent", "opted_out", candidate, found)
    suppression = suppression_against(
        facts.suppressed, channel=channel, address=candidate.value, message_class=intent.message_class
    )
    if suppression is not None:
        return _refused("suppression", "suppressed", candidate, {"class": suppression.message_class})
    return None


def _at_this_hour(facts: Facts, leg: Leg, candidate: Candidate) -> Send | Hold | Check:
    """What quiet hours make of a candidate that could be used; a check if they refuse it."""
    window = _window(facts, candidate, facts.now)
    if window is None:
        return _chosen(candidate)
    passes_as = _passes_as(facts)
    if passes_as is not None:
        detail = {**candidate.detail(), "passes_as": passes_as, "ends_at": window.ends_at.isoformat()}
        return _chosen(candidate, Check(name="quiet_hours", verdict="passed", detail=detail))
    if not _is_too_late(facts, window.ends_at):
        return _held("quiet_hours", "held_quiet_hours", window.ends_at, candidate.detail())
    on_quiet = _on_quiet(facts)
    found = {"ends_at": window.ends_at.isoformat(), "on_quiet": on_quiet}
    refused = _refused("quiet_hours", "quiet_hours", candidate, found)
    inbox = Candidate(channel="inbox")
    if (
        on_quiet in ("early", "inbox_only")
        and not _is_told_in_inbox(facts, leg)
        and not refusal(facts, inbox)
    ):
        return _chosen(inbox, refused)
    return refused


def _is_told_in_inbox(facts: Facts, leg: Leg) -> bool:
    """Whether the inbox is, or is going to be, taken care of by another leg."""
    return facts.is_in_inbox or (leg.name != "inbox" and "inbox" in facts.intent.route.also)


def _window(facts: Facts, candidate: Candidate | None, at: datetime) -> Window | None:
    """The recipient's quiet hours at an instant, if they are kept on the channel."""
    recipient = facts.recipient
    quiet = None if recipient is None else recipient.quiet_hours
    if recipient is None or quiet is None or candidate is None or candidate.channel not in quiet.channels:
        return None
    return window_at(at, quiet.start, quiet.end, zone(recipient.timezone), quiet.days)


def _passes_as(facts: Facts) -> str | None:
    """What makes a notification pass quiet hours, if something does; whoever was woken may ask."""
    if facts.is_digest:
        return "digest"
    if facts.intent.urgency == "critical":
        return "critical"
    quiet = None if facts.recipient is None else facts.recipient.quiet_hours
    is_held = quiet is not None and quiet.time_bound == "hold"
    return "time_bound" if facts.intent.urgency == "time_bound" and not is_held else None


def _on_quiet(facts: Facts) -> OnQuiet:
    return facts.intent.on_quiet or facts.policy.on_quiet.get(facts.intent.urgency, "inbox_only")


def _is_too_late(facts: Facts, until: datetime) -> bool:
    """Whether nothing would be left to tell at an instant: the one it expires at is too late already."""
    return facts.intent.expires_at is not None and until >= facts.intent.expires_at


def _chosen(candidate: Candidate, *before: Check) -> Send:
    chosen = Check(name="channel", verdict="chosen", detail=candidate.detail())
    return Send(candidate=candidate, checks=(*before, chosen))


def _refused(name: str, reason: str, candidate: Candidate, found: Mapping[str, Any] | None = None) -> Check:
    detail = {**candidate.detail(), **(found or {})}
    return Check(name=name, verdict="refused", reason=reason, detail=detail)


def _skipped(name: str, reason: str, detail: Mapping[str, Any] | None = None) -> Skip:
    check = Check(name=name, verdict="refused", reason=reason, detail=detail or {})
    return Skip(reason=reason, checks=(check,))


def _held(name: str, reason: str, until: datetime, found: Mapping[str, Any] | None = None) -> Hold:
    detail = {**(found or {}), "until": until.isoformat()}
    check = Check(name=name, verdict="held", reason=reason, detail=detail)
    return Hold(until=until, reason=reason, checks=(check,))
