"""Delays between attempts: the list, the curve, the jitter, and when to stop."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import InvalidInput
from timebell.rules.backoff import (
    RETRY_AFTER_MAX,
    SPREAD_MAX,
    UNCOUNTED_DELAY_MIN,
    UNCOUNTED_WINDOW,
    ErrorClass,
    Jitter,
    RetryPolicy,
    counts_as_attempt,
    decide_retry,
)

QUICK = settings(max_examples=25, deadline=None)
NOTHING = timedelta(0)
LIST = RetryPolicy.of_delays([60, 300, 900], max_attempts=3)
CURVE = RetryPolicy.exponential(base=timedelta(seconds=10), ceiling=timedelta(hours=1), max_attempts=5)
PLAIN_CURVE = RetryPolicy.exponential(
    base=timedelta(seconds=10), ceiling=timedelta(hours=1), max_attempts=100, jitter="none"
)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def decide(
    policy: RetryPolicy,
    attempt: int,
    error_class: ErrorClass = "transient",
    *,
    retry_after: timedelta | None = None,
    elapsed: timedelta = NOTHING,
    fraction: float = 0.0,
) -> timedelta | None:
    return decide_retry(
        policy,
        attempt=attempt,
        error_class=error_class,
        retry_after=retry_after,
        elapsed=elapsed,
        fraction=fraction,
    )


@pytest.mark.req("U-6", "M-5.4", "M-5.5")
@pytest.mark.parametrize(
    ("max_attempts", "delays"),
    [
        (1, [None]),
        (2, [60, None]),
        (3, [60, 300, None]),
        (4, [60, 300, 900, None]),
        (6, [60, 300, 900, 900, 900, None]),
    ],
)
def test_a_list_is_followed_to_the_letter(max_attempts: int, delays: list[int | None]) -> None:
    policy = RetryPolicy.of_delays([60, 300, 900], max_attempts=max_attempts)
    decided = [decide(policy, attempt, fraction=0.9) for attempt in range(1, max_attempts + 1)]
    assert decided == [None if delay is None else seconds(delay) for delay in delays]


@pytest.mark.req("U-6")
@pytest.mark.parametrize(("attempt", "delay"), [(1, 10), (2, 20), (3, 40), (9, 2560), (10, 3600), (99, 3600)])
def test_a_curve_doubles_up_to_its_ceiling(attempt: int, delay: int) -> None:
    assert decide(PLAIN_CURVE, attempt) == seconds(delay)


def test_the_steepest_curve_cannot_overflow() -> None:
    day = timedelta(days=1)
    policy = RetryPolicy.exponential(base=day, ceiling=30 * day, factor=10.0, jitter="none", max_attempts=100)
    assert policy.delay_after(100) == policy.delay_after(1_000_000) == 30 * day


@pytest.mark.req("U-6", "J-13.1")
@QUICK
@given(attempt=st.integers(1, 4), fraction=st.floats(0, 1, exclude_max=True))
def test_half_jitter_stays_within_half_of_the_curve(attempt: int, fraction: float) -> None:
    delay = decide(CURVE, attempt, fraction=fraction)
    middle = seconds(10) * 2 ** (attempt - 1)
    assert delay is not None
    assert middle / 2 <= delay <= middle * 1.5


@QUICK
@given(attempt=st.integers(1, 4), fraction=st.floats(0, 1, exclude_max=True))
def test_full_jitter_never_exceeds_the_curve(attempt: int, fraction: float) -> None:
    policy = RetryPolicy.exponential(base=seconds(10), ceiling=seconds(40), jitter="full")
    delay = decide(policy, attempt, fraction=fraction)
    assert delay is not None
    assert NOTHING <= delay <= min(seconds(10) * 2 ** (attempt - 1), seconds(40))


@pytest.mark.req("J-13.1")
@pytest.mark.parametrize("attempt", [1, 2, 4])
@pytest.mark.parametrize("retry_after", [None, seconds(30)])
@pytest.mark.parametrize("error_class", ["transient", "rate_limited", "unavailable"])
def test_a_hundred_jobs_that_fail_together_return_apart(
    attempt: int, error_class: ErrorClass, retry_after: timedelta | None
) -> None:
    chance = random.Random(attempt)
    delays = [
        decide(CURVE, attempt, error_class, retry_after=retry_after, fraction=chance.random())
        for _ in range(100)
    ]
    known = sorted(delay for delay in delays if delay is not None)
    assert len(set(known)) == 100
    assert known[-1] - known[0] > known[0] / 4


@pytest.mark.req("J-13.1")
def test_jobs_at_the_ceiling_are_still_spread() -> None:
    policy = RetryPolicy.exponential(base=seconds(10), ceiling=seconds(20), max_attempts=50)
    delays = {decide(policy, 40, fraction=step / 100) for step in range(100)}
    assert len(delays) == 100


@pytest.mark.req("U-6")
@pytest.mark.parametrize("policy", [LIST, CURVE])
def test_a_permanent_error_ends_the_job_at_once(policy: RetryPolicy) -> None:
    assert decide(policy, 1, "permanent") is None
    assert decide(policy, 1, "permanent", retry_after=seconds(5)) is None


@pytest.mark.req("U-6")
@pytest.mark.parametrize(
    ("error_class", "retry_after", "counts"),
    [
        ("transient", None, True),
        ("transient", seconds(5), True),
        ("permanent", None, True),
        ("rate_limited", None, True),
        ("rate_limited", seconds(5), False),
        ("unavailable", None, False),
        ("unavailable", seconds(5), False),
    ],
)
def test_which_failures_use_up_an_attempt(
    error_class: ErrorClass, retry_after: timedelta | None, counts: bool
) -> None:
    assert counts_as_attempt(error_class, retry_after=retry_after) is counts
    survives = decide(LIST, LIST.max_attempts, error_class, retry_after=retry_after) is not None
    assert survives is not counts


@pytest.mark.req("U-6")
@pytest.mark.parametrize(
    ("error_class", "retry_after", "delay"),
    [
        ("rate_limited", None, 60),
        ("rate_limited", 7, 7),
        ("rate_limited", 1000, 1000),
        ("rate_limited", 0, 1),
        ("rate_limited", -30, 1),
        ("rate_limited", 48 * 3600, 24 * 3600),
        ("unavailable", None, 60),
        ("unavailable", 7, 7),
        ("transient", 7, 60),
        ("transient", 1000, 1000),
    ],
)
def test_retry_after_is_honoured_within_reason(
    error_class: ErrorClass, retry_after: int | None, delay: int
) -> None:
    asked = None if retry_after is None else seconds(retry_after)
    assert decide(LIST, 1, error_class, retry_after=asked) == seconds(delay)


@pytest.mark.req("U-6")
@QUICK
@given(
    asked=st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=3)),
    fraction=st.floats(0, 1, exclude_max=True),
    jitter=st.sampled_from(["none", "full", "half"]),
    error_class=st.sampled_from(["transient", "rate_limited", "unavailable"]),
)
def test_jitter_never_comes_before_retry_after(
    asked: timedelta, fraction: float, jitter: Jitter, error_class: ErrorClass
) -> None:
    policy = RetryPolicy.of_delays([5], jitter=jitter)
    delay = decide(policy, 1, error_class, retry_after=asked, fraction=fraction)
    assert delay is not None
    assert min(asked, RETRY_AFTER_MAX) <= delay <= RETRY_AFTER_MAX + SPREAD_MAX


def test_a_failure_that_costs_no_attempt_costs_time() -> None:
    eager = RetryPolicy.of_delays([0])
    assert decide(eager, 1, "transient") == NOTHING
    assert decide(eager, 1, "unavailable") == UNCOUNTED_DELAY_MIN


@pytest.mark.req("U-6")
@pytest.mark.parametrize("error_class", ["transient", "unavailable"])
def test_the_next_attempt_must_begin_within_the_window(error_class: ErrorClass) -> None:
    policy = RetryPolicy.of_delays([60], max_attempts=9, max_window=seconds(600))
    assert decide(policy, 2, error_class, elapsed=seconds(540)) == seconds(60)
    assert decide(policy, 2, error_class, elapsed=seconds(540.001)) is None


def test_without_a_window_only_uncounted_failures_get_one() -> None:
    late = UNCOUNTED_WINDOW
    assert decide(LIST, 1, "unavailable", elapsed=late - seconds(60)) == seconds(60)
    assert decide(LIST, 1, "unavailable", elapsed=late) is None
    assert decide(LIST, 1, "transient", elapsed=late * 10) == seconds(60)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "delays"),
        ({"delays": (seconds(1),), "base": seconds(1), "ceiling": seconds(2)}, "delays"),
        ({"delays": ()}, "delays"),
        ({"delays": (seconds(1),) * 101}, "delays"),
        ({"delays": (seconds(-1),)}, "delays"),
        ({"delays": (timedelta(days=31),)}, "delays"),
        ({"base": seconds(1)}, "ceiling"),
        ({"base": NOTHING, "ceiling": seconds(1)}, "base"),
        ({"base": seconds(2), "ceiling": seconds(1)}, "ceiling"),
        ({"base": seconds(2), "ceiling": timedelta(days=31)}, "ceiling"),
        ({"base": seconds(1), "ceiling": seconds(2), "factor": 0.5}, "factor"),
        ({"base": seconds(1), "ceiling": seconds(2), "factor": float("nan")}, "factor"),
        ({"delays": (seconds(1),), "max_attempts": 0}, "max_attempts"),
        ({"delays": (seconds(1),), "max_attempts": 101}, "max_attempts"),
        ({"delays": (seconds(1),), "max_window": seconds(-1)}, "max_window"),
        ({"delays": (seconds(1),), "max_window": timedelta(days=367)}, "max_window"),
        ({"delays": (seconds(1),), "jitter": "some"}, "jitter"),
    ],
)
def test_a_policy_without_sense_or_limit_is_refused_by_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: ") as refused:
        RetryPolicy(**fields)
    assert refused.value.field == field


@pytest.mark.parametrize("delay", [float("nan"), float("inf"), -1, "60"])
def test_a_list_of_anything_but_delays_is_refused(delay: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^delays: "):
        RetryPolicy.of_delays([60, delay])


def test_attempts_and_fractions_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^attempt: "):
        decide(LIST, 0)
    for fraction in (-0.1, 1.0, float("nan")):
        with pytest.raises(InvalidInput, match=r"^fraction: "):
            decide(LIST, 1, fraction=fraction)
