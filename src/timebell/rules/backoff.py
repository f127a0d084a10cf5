"""When a failed job is tried again, and when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeVar, assert_never, get_args

from timebell.errors import InvalidInput

ErrorClass = Literal["transient", "permanent", "rate_limited", "unavailable"]
Jitter = Literal["none", "full", "half"]

DELAYS_MAX = 100
DELAY_MAX = timedelta(days=30)
FACTOR_MAX = 10.0
ATTEMPTS_MAX = 100
WINDOW_MAX = timedelta(days=366)

RETRY_AFTER_MAX = timedelta(hours=24)
SPREAD_MAX = timedelta(minutes=1)

# A failure that costs no attempt must cost time, or a job could spin for ever against a closed door.
UNCOUNTED_DELAY_MIN = timedelta(seconds=1)
UNCOUNTED_WINDOW = timedelta(days=30)

_Bounded = TypeVar("_Bounded", int, float, timedelta)


def check_range(field: str, value: _Bounded, low: _Bounded, high: _Bounded) -> None:
    """Raise InvalidInput unless `value` lies between two limits, both included."""
    if not low <= value <= high:
        raise InvalidInput(f"{value} is out of range; give a value from {low} to {high}", field=field)


def check_fraction(fraction: float) -> None:
    """Raise InvalidInput unless `fraction` is what a source of chance gives: a number in [0, 1)."""
    if not 0 <= fraction < 1:
        raise InvalidInput(f"{fraction} is out of range; give a number in [0, 1)", field="fraction")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait after each failed attempt, and how often to try.

    The delays are either a list, for people who promise "after 1, 5 and 15 minutes" and mean exactly that,
    or a curve that starts at `base` and grows by `factor` up to `ceiling`. `max_attempts` counts every
    attempt, the first too. `max_window` is measured from where the caller starts counting `elapsed`.
    """

    delays: tuple[timedelta, ...] | None = None
    base: timedelta | None = None
    factor: float = 2.0
    ceiling: timedelta | None = None
    jitter: Jitter = "none"
    max_attempts: int = 3
    max_window: timedelta | None = None

    def __post_init__(self) -> None:
        if (self.delays is None) == (self.base is None):
            raise InvalidInput("give either a list of delays or a base for a curve", field="delays")
        if self.delays is not None:
            _check_delays(self.delays)
        if self.base is not None:
            _check_curve(self.base, self.factor, self.ceiling)
        if self.jitter not in get_args(Jitter):
            raise InvalidInput(f"{self.jitter!r} is unknown; use none, full or half", field="jitter")
        check_range("max_attempts", self.max_attempts, 1, ATTEMPTS_MAX)
        if self.max_window is not None:
            check_range("max_window", self.max_window, timedelta(0), WINDOW_MAX)

    @classmethod
    def of_delays(
        cls,
        delays: Sequence[timedelta | float],
        *,
        jitter: Jitter = "none",
        max_attempts: int = 3,
        max_window: timedelta | None = None,
    ) -> RetryPolicy:
        """A policy from a list, plain numbers being seconds; the last delay repeats for further attempts."""
        return cls(
            delays=tuple(_as_delay(delay) for delay in delays),
            jitter=jitter,
            max_attempts=max_attempts,
            max_window=max_window,
        )

    @classmethod
    def exponential(
        cls,
        *,
        base: timedelta,
        ceiling: timedelta,
        factor: float = 2.0,
        jitter: Jitter = "half",
        max_attempts: int = 5,
        max_window: timedelta | None = None,
    ) -> RetryPolicy:
        """A policy from a curve, jittered unless told otherwise: what failed together must not return so."""
        return cls(
            base=base,
            factor=factor,
            ceiling=ceiling,
            jitter=jitter,
            max_attempts=max_attempts,
            max_window=max_window,
        )

    def delay_after(self, attempt: int) -> timedelta:
        """The delay that follows this attempt, before any jitter."""
        if attempt < 1:
            raise InvalidInput(f"{attempt} is not an attempt; they are numbered from 1", field="attempt")
        if self.delays is not None:
            return self.delays[min(attempt, len(self.delays)) - 1]
        assert self.base is not None
        assert self.ceiling is not None
        growth = self.factor ** (min(attempt, ATTEMPTS_MAX) - 1)
        # Compared as a ratio first, because the product itself may be longer than a timedelta can be.
        return self.ceiling if growth >= self.ceiling / self.base else self.base * growth


def counts_as_attempt(error_class: ErrorClass, *, retry_after: timedelta | None = None) -> bool:
    """Whether a failure uses up one of the policy's attempts.

    Attempts ration what the job itself may get wrong. A destination that is down says nothing about the
    job, and one that names the instant to come back has promised to take it then; charging either would
    bury good jobs in every long outage. A rate limit without Retry-After promises nothing and is charged.
    """
    if error_class == "rate_limited":
        return retry_after is None
    return error_class != "unavailable"


def decide_retry(
    policy: RetryPolicy,
    *,
    attempt: int,
    error_class: ErrorClass,
    retry_after: timedelta | None,
    elapsed: timedelta,
    fraction: float,
) -> timedelta | None:
    """The delay before the next attempt, or None when there is none and the job is dead.

    `attempt` is the number of the attempt that failed, from 1. `elapsed` is how long the job has been at
    it; the next attempt must still begin within the policy's window. A destination's own word is a lower
    bound where an attempt is at stake, and takes the place of the policy's delay where none is.
    """
    if error_class == "permanent":
        return None
    window = policy.max_window
    planned = jittered(policy.delay_after(attempt), policy.jitter, fraction)
    asked = _asked_delay(retry_after, policy.jitter, fraction)
    if counts_as_attempt(error_class, retry_after=retry_after):
        if attempt >= policy.max_attempts:
            return None
        delay = max(planned, asked or planned)
    else:
        delay = asked or max(planned, UNCOUNTED_DELAY_MIN)
        window = window if window is not None else UNCOUNTED_WINDOW
    return delay if window is None or elapsed + delay <= window else None


def jittered(delay: timedelta, jitter: Jitter, fraction: float) -> timedelta:
    """Spread a delay: `full` over [0, 1) of it, `half` over [0.5, 1.5).

    The ceiling of a curve is applied before this and not after: clipping afterwards would gather half of
    all jobs at the ceiling, which is the crowd that jitter is there to break up.
    """
    check_fraction(fraction)
    match jitter:
        case "none":
            return delay
        case "full":
            return delay * fraction
        case "half":
            return delay * (0.5 + fraction)
        case _:
            assert_never(jitter)


def _asked_delay(retry_after: timedelta | None, jitter: Jitter, fraction: float) -> timedelta | None:
    """What the destination asked for, within reason and never sooner.

    All whom it refused at one moment were told the same instant, so jitter comes on top, at most a minute.
    """
    if retry_after is None:
        return None
    asked = min(max(retry_after, UNCOUNTED_DELAY_MIN), RETRY_AFTER_MAX)
    return asked if jitter == "none" else asked + min(asked, SPREAD_MAX) * fraction


def _as_delay(value: timedelta | float) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{value!r} is not a delay; give seconds or a timedelta", field="delays"
        ) from error


def _check_delays(delays: tuple[timedelta, ...]) -> None:
    if not 1 <= len(delays) <= DELAYS_MAX:
        raise InvalidInput(f"{len(delays)} delays; give between 1 and {DELAYS_MAX}", field="delays")
    for delay in delays:
        check_range("delays", delay, timedelta(0), DELAY_MAX)


def _check_curve(base: timedelta, factor: float, ceiling: timedelta | None) -> None:
    if ceiling is None:
        raise InvalidInput("a curve without an end is refused; give the longest delay", field="ceiling")
    check_range("base", base, timedelta(milliseconds=1), DELAY_MAX)
    check_range("factor", factor, 1.0, FACTOR_MAX)
    check_range("ceiling", ceiling, base, DELAY_MAX)
