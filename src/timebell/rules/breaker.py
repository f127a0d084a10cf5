"""A circuit breaker for one destination: stop calling what does not answer, and ask now and then.

Closed, every call passes. After enough failures in a row it opens and holds all calls for a while. When
that time is over it is half-open: a probe or two may pass, one answer closes it, one failure opens it again
for longer. A destination that asks to be left alone for so long is, by everybody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from timebell.errors import NaiveInstant
from timebell.rules.backoff import ErrorClass, check_fraction, check_range

Passage = Literal["pass", "probe", "hold"]

FAILURES_MAX = 1_000
PROBES_MAX = 100
OPEN_MIN = timedelta(milliseconds=1)
OPEN_MAX = timedelta(days=1)
GROWTH_MAX = 10.0
ASKED_MIN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When to open, for how long, and how many probes one half-open spell lets through."""

    failures: int = 5
    open_for: timedelta = timedelta(seconds=30)
    open_for_max: timedelta = timedelta(minutes=5)
    growth: float = 2.0
    probes: int = 1

    def __post_init__(self) -> None:
        check_range("failures", self.failures, 1, FAILURES_MAX)
        check_range("open_for", self.open_for, OPEN_MIN, OPEN_MAX)
        check_range("open_for_max", self.open_for_max, self.open_for, OPEN_MAX)
        check_range("growth", self.growth, 1.0, GROWTH_MAX)
        check_range("probes", self.probes, 1, PROBES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSpell:
    """One stretch of being open: how long calls are held, and how many probes have set out since."""

    length: timedelta
    until: datetime
    probes_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """What is remembered of a destination; without a spell the breaker is closed."""

    failures: int = 0
    spell: OpenSpell | None = None


CLOSED = BreakerState()


def may_pass(state: BreakerState, now: datetime) -> Passage:
    """Whether a call may be made now. Whoever takes a probe must say so with `on_probe` before calling."""
    if state.spell is None:
        return "pass"
    return "hold" if now < state.spell.until else "probe"


def on_probe(state: BreakerState, *, now: datetime, policy: BreakerPolicy) -> BreakerState:
    """A probe sets out. The last one that the policy allows begins another hold of the same length.

    So nobody waits for a probe to report: one that is lost with its node delays the next by one spell and
    no more.
    """
    spell = state.spell
    if spell is None:
        return state
    probes_out = spell.probes_out + 1 if spell.probes_out < policy.probes else 1
    until = _aware(now) + spell.length if probes_out == policy.probes else spell.until
    return replace(state, spell=replace(spell, until=until, probes_out=probes_out))


def on_success(state: BreakerState, *, probe: bool = False) -> BreakerState:
    """The destination answered. Only a probe closes an open breaker: other calls set out before it opened."""
    return CLOSED if probe or state.spell is None else state


def on_failure(
    state: BreakerState,
    error_class: ErrorClass,
    *,
    now: datetime,
    policy: BreakerPolicy,
    fraction: float,
    probe: bool = False,
    retry_after: timedelta | None = None,
) -> BreakerState:
    """A call failed. `probe` repeats what `may_pass` had answered for that call.

    Refusals and rate limits prove that the destination is there, so they count as answers; where a rate limit
    comes with what to wait, in `retry_after`, all wait as long. A call that set out before the breaker opened
    and fails afterwards tells nothing new, nor does the second of two probes; were they counted, one outage
    under load would reach the longest spell at once.
    """
    asked = retry_after if error_class == "rate_limited" else None
    if error_class not in ("transient", "unavailable") and asked is None:
        return on_success(state, probe=probe)
    if state.spell is not None and (not probe or state.spell.probes_out == 0):
        return state
    if asked is not None:
        return _left_alone(asked, now=now, policy=policy)
    if state.spell is not None:
        longer = min(max(state.spell.length * policy.growth, policy.open_for), policy.open_for_max)
        return _opened(state, length=longer, now=now, fraction=fraction)
    failed = replace(state, failures=state.failures + 1)
    if failed.failures < policy.failures:
        return failed
    return _opened(failed, length=policy.open_for, now=now, fraction=fraction)


def _opened(state: BreakerState, *, length: timedelta, now: datetime, fraction: float) -> BreakerState:
    """Hold for half to all of `length`, so that nodes which saw one outage do not probe at one instant."""
    check_fraction(fraction)
    until = _aware(now) + length * (1 - fraction / 2)
    return replace(state, spell=OpenSpell(length=length, until=until))


def _left_alone(asked: timedelta, *, now: datetime, policy: BreakerPolicy) -> BreakerState:
    """Hold for as long as was asked, and no longer than for any outage: what was said to one call need not be
    true of all, and a probe finds out."""
    length = min(max(asked, ASKED_MIN), policy.open_for_max)
    return BreakerState(spell=OpenSpell(length=length, until=_aware(now) + length))


def _aware(now: datetime) -> datetime:
    if now.tzinfo is None:
        raise NaiveInstant("has no offset; give an aware datetime", field="now")
    return now
