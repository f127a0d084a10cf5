"""The circuit breaker of one destination."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import InvalidInput, NaiveInstant
from timebell.rules.backoff import ErrorClass
from timebell.rules.breaker import (
    CLOSED,
    BreakerPolicy,
    BreakerState,
    may_pass,
    on_failure,
    on_probe,
    on_success,
)

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
POLICY = BreakerPolicy()


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def fail(
    state: BreakerState,
    now: datetime = NOON,
    *,
    error_class: ErrorClass = "transient",
    policy: BreakerPolicy = POLICY,
    fraction: float = 0.0,
    probe: bool = False,
    retry_after: timedelta | None = None,
) -> BreakerState:
    return on_failure(
        state,
        error_class,
        now=now,
        policy=policy,
        fraction=fraction,
        probe=probe,
        retry_after=retry_after,
    )


def opened(
    policy: BreakerPolicy = POLICY, fraction: float = 0.0, *, state: BreakerState = CLOSED
) -> BreakerState:
    for _ in range(policy.failures):
        state = fail(state, policy=policy, fraction=fraction)
    return state


def probe_failed(state: BreakerState, policy: BreakerPolicy = POLICY) -> BreakerState:
    assert state.spell is not None
    instant = state.spell.until
    return fail(on_probe(state, now=instant, policy=policy), instant, policy=policy, probe=True)


@pytest.mark.req("U-17", "J-13.2")
def test_it_opens_at_the_fifth_failure_in_a_row_and_not_before() -> None:
    state = CLOSED
    for _ in range(4):
        state = fail(state)
        assert may_pass(state, NOON) == "pass"
    state = fail(state)
    assert may_pass(state, NOON) == "hold"


def answered(state: BreakerState, error_class: ErrorClass | None, *, probe: bool = False) -> BreakerState:
    """The destination spoke, be it to refuse."""
    if error_class is None:
        return on_success(state, probe=probe)
    return fail(state, after(31), error_class=error_class, probe=probe)


@pytest.mark.parametrize("answer", [None, "permanent", "rate_limited"])
def test_any_answer_breaks_the_row_of_failures(answer: ErrorClass | None) -> None:
    state = CLOSED
    for _ in range(4):
        state = fail(state)
    state = answered(state, answer)
    for _ in range(4):
        state = fail(state)
    assert may_pass(state, NOON) == "pass"


@pytest.mark.req("U-17")
@pytest.mark.parametrize(
    ("error_class", "passage"),
    [("transient", "hold"), ("unavailable", "hold"), ("permanent", "pass"), ("rate_limited", "pass")],
)
def test_only_silence_counts_as_failure(error_class: ErrorClass, passage: str) -> None:
    state = CLOSED
    for _ in range(POLICY.failures):
        state = fail(state, error_class=error_class)
    assert may_pass(state, NOON) == passage


@pytest.mark.req("U-17", "J-13.2")
def test_after_the_hold_one_probe_passes_and_the_rest_wait_for_it() -> None:
    state = opened()
    assert may_pass(state, after(29.999)) == "hold"
    assert may_pass(state, after(30)) == "probe"
    probing = on_probe(state, now=after(30), policy=POLICY)
    assert may_pass(probing, after(30)) == "hold"


@pytest.mark.req("U-17", "J-13.2")
@pytest.mark.parametrize("answer", [None, "permanent", "rate_limited"])
def test_a_probe_that_is_answered_closes_it(answer: ErrorClass | None) -> None:
    probing = on_probe(opened(), now=after(30), policy=POLICY)
    assert answered(probing, answer, probe=True) == CLOSED


def limited(state: BreakerState, asked: float, now: datetime = NOON, *, probe: bool = False) -> BreakerState:
    """It is there, and says when to come back."""
    asked_for = timedelta(seconds=asked)
    return fail(state, now, error_class="rate_limited", probe=probe, retry_after=asked_for, fraction=0.9)


@pytest.mark.req("U-17", "A-6.4")
@pytest.mark.parametrize(("asked", "held"), [(40, 40), (1_000_000, 300), (0, 1), (-5, 1)])
def test_who_asks_to_be_left_alone_is_by_everybody(asked: float, held: float) -> None:
    """As long as it asks, however chance falls; for what is longer than any outage, a probe finds out."""
    state = limited(CLOSED, asked)
    assert may_pass(state, after(held - 0.001)) == "hold"
    assert may_pass(state, after(held)) == "probe"
    assert on_success(on_probe(state, now=after(held), policy=POLICY), probe=True) == CLOSED


def test_who_asks_again_is_left_alone_again_and_who_fails_after_it_for_longer() -> None:
    probing = on_probe(limited(CLOSED, 2), now=after(2), policy=POLICY)
    again = limited(probing, 40, after(2), probe=True)
    assert may_pass(again, after(41)) == "hold"
    assert may_pass(again, after(42)) == "probe"
    failed = fail(probing, after(2), probe=True)
    assert may_pass(failed, after(31)) == "hold", "half a minute, as at the fifth failure in a row"
    assert may_pass(failed, after(32)) == "probe"


def test_what_others_are_asked_while_all_wait_changes_nothing() -> None:
    state = opened()
    assert limited(state, 200, after(3)) == state
    assert fail(state, error_class="unavailable", retry_after=timedelta(hours=1)) == state
    four = CLOSED
    for _ in range(4):
        four = fail(four, retry_after=timedelta(hours=1))
    assert may_pass(four, NOON) == "pass", "only a rate limit is an answer"


@pytest.mark.req("U-17")
def test_each_failed_probe_doubles_the_hold_up_to_five_minutes() -> None:
    state = opened()
    lengths = []
    for _ in range(6):
        assert state.spell is not None
        lengths.append(state.spell.length.total_seconds())
        state = probe_failed(state)
    assert lengths == [30, 60, 120, 240, 300, 300]


def test_after_closing_the_holds_begin_short_again() -> None:
    long_held = probe_failed(probe_failed(opened()))
    closed = on_success(long_held, probe=True)
    assert opened(state=closed) == opened()


def test_a_probe_lost_with_its_node_delays_the_next_by_one_spell() -> None:
    lost = on_probe(opened(), now=after(30), policy=POLICY)
    assert may_pass(lost, after(59.999)) == "hold"
    assert may_pass(lost, after(60)) == "probe"
    again = on_probe(lost, now=after(60), policy=POLICY)
    assert may_pass(again, after(60)) == "hold"


def test_calls_that_set_out_before_it_opened_change_nothing() -> None:
    state = opened()
    assert fail(state, after(3)) == state
    assert on_success(state) == state
    probing = on_probe(state, now=after(30), policy=POLICY)
    assert fail(probing, after(31)) == probing
    assert on_success(probing) == probing


def test_several_probes_pass_and_only_the_first_failure_counts() -> None:
    policy = BreakerPolicy(probes=3)
    state = opened(policy)
    for _ in range(3):
        assert may_pass(state, after(30)) == "probe"
        state = on_probe(state, now=after(30), policy=policy)
    assert may_pass(state, after(30)) == "hold"
    first = fail(state, after(31), policy=policy, probe=True)
    assert first.spell is not None
    assert first.spell.length == timedelta(seconds=60)
    assert fail(first, after(32), policy=policy, probe=True) == first
    assert on_success(first, probe=True) == CLOSED


@settings(max_examples=25, deadline=None)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_the_hold_is_spread_but_never_longer_than_promised(fraction: float) -> None:
    spell = opened(fraction=fraction).spell
    assert spell is not None
    assert after(15) <= spell.until <= after(30)


@pytest.mark.req("U-17", "J-13.2")
def test_a_thousand_due_jobs_make_a_handful_of_calls_until_it_recovers() -> None:
    state, calls, waiting, second = CLOSED, 0, 1_000, 0
    recovers_at = 600
    while waiting:
        for _ in range(waiting):
            passage = may_pass(state, after(second))
            if passage == "hold":
                break
            if passage == "probe":
                state = on_probe(state, now=after(second), policy=POLICY)
            if second >= recovers_at:
                state = on_success(state, probe=passage == "probe")
                waiting -= 1
            else:
                calls += 1
                state = fail(state, after(second), probe=passage == "probe")
        second += 1
        assert second < 2 * recovers_at
    assert calls == POLICY.failures + 4
    assert recovers_at <= second <= recovers_at + 300
    assert state == CLOSED


def test_a_probe_of_a_closed_breaker_is_nothing() -> None:
    assert on_probe(CLOSED, now=NOON, policy=POLICY) == CLOSED


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"failures": 0}, "failures"),
        ({"failures": 1_001}, "failures"),
        ({"open_for": timedelta(0)}, "open_for"),
        ({"open_for_max": timedelta(seconds=29)}, "open_for_max"),
        ({"open_for_max": timedelta(days=2)}, "open_for_max"),
        ({"growth": 0.9}, "growth"),
        ({"probes": 0}, "probes"),
    ],
)
def test_a_policy_out_of_range_is_refused_by_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        BreakerPolicy(**fields)


def test_a_naive_instant_and_a_bad_fraction_are_refused() -> None:
    last_straw = BreakerState(failures=POLICY.failures - 1)
    with pytest.raises(NaiveInstant, match=r"^now: "):
        fail(last_straw, datetime(2030, 6, 1))
    with pytest.raises(InvalidInput, match=r"^fraction: "):
        fail(last_straw, fraction=1.0)
