"""Start instants leased from a limit that all nodes share, as the statement is compared with them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.starts_oracle import SECOND_US, StartLease, lease_starts, spacing_us

QUICK = settings(max_examples=30, deadline=None)
NOW = 1_800_000_000 * SECOND_US
WINDOW = 200_000

rates = st.one_of(st.floats(0.2, 500), st.integers(1, 500).map(float))
asks = st.lists(
    st.tuples(st.integers(0, 2 * SECOND_US), st.integers(0, 200), st.integers(0, SECOND_US)),
    min_size=1,
    max_size=25,
)


def lease(
    *,
    now_us: int = NOW,
    next_free_us: int = 0,
    per_second: float = 50,
    burst: int = 1,
    wanted: int = 10,
    window_us: int = WINDOW,
) -> StartLease:
    return lease_starts(
        now_us=now_us,
        next_free_us=next_free_us,
        per_second=per_second,
        burst=burst,
        wanted=wanted,
        window_us=window_us,
    )


def busiest_second(instants: Iterable[int]) -> int:
    """The most instants in any half-open second; looking at those that begin at an instant is enough."""
    ordered = sorted(instants)
    return max(
        (bisect_left(ordered, start + SECOND_US) - rank for rank, start in enumerate(ordered)), default=0
    )


def granted(
    steps: Sequence[tuple[int, int, int]], *, per_second: float, burst: int, first_free_us: int = 0
) -> list[tuple[int, StartLease]]:
    """What a run of callers is granted, each a while after the last; one row remembers for all of them."""
    now_us, next_free_us = NOW, first_free_us
    leases = []
    for step, wanted, window_us in steps:
        now_us += step
        given_now = lease(
            now_us=now_us,
            next_free_us=next_free_us,
            per_second=per_second,
            burst=burst,
            wanted=wanted,
            window_us=window_us,
        )
        next_free_us = given_now.next_free_us
        leases.append((now_us, given_now))
    return leases


@pytest.mark.req("U-8")
@pytest.mark.parametrize(
    ("asked", "offsets", "next_free_offset"),
    [
        ({}, [0, 20, 40, 60, 80, 100, 120, 140, 160, 180], 200),
        ({"wanted": 3}, [0, 20, 40], 60),
        ({"wanted": 100}, [0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200], 220),
        ({"wanted": 4, "burst": 3}, [-40, -20, 0, 20], 40),
        ({"wanted": 2, "next_free_us": NOW + 90_000}, [90, 110], 130),
        ({"wanted": 2, "next_free_us": NOW + 190_000}, [190], 210),
        ({"wanted": 2, "next_free_us": NOW + 200_001}, [], 200.001),
        ({"wanted": 2, "window_us": 0}, [0], 20),
        ({"wanted": 0, "next_free_us": NOW - 5_000}, [], -5),
        ({"wanted": 2, "next_free_us": NOW - 30_000, "burst": 9}, [-30, -10], 10),
    ],
)
def test_what_one_caller_is_granted(
    asked: dict[str, int], offsets: list[int], next_free_offset: float
) -> None:
    given_now = lease(**asked)
    assert [(instant - NOW) / 1000 for instant in given_now.instants_us()] == offsets
    assert (given_now.next_free_us - NOW) / 1000 == next_free_offset
    assert given_now.count == len(offsets)


@pytest.mark.parametrize(
    ("per_second", "spacing"), [(50, 20_000), (3, 333_334), (0.5, 2_000_000), (999_999, 2), (1_000_000, 1)]
)
def test_the_spacing_is_rounded_to_the_slow_side(per_second: float, spacing: int) -> None:
    assert spacing_us(per_second) == spacing


@pytest.mark.req("U-8")
@QUICK
@given(steps=asks, per_second=rates, burst=st.integers(1, 20))
def test_no_second_holds_more_starts_than_the_limit(
    steps: list[tuple[int, int, int]], per_second: float, burst: int
) -> None:
    leases = granted(steps, per_second=per_second, burst=burst)
    promised = [instant for _, given_now in leases for instant in given_now.instants_us()]
    acted_on = [max(instant, now) for now, given_now in leases for instant in given_now.instants_us()]
    assert busiest_second(promised) <= math.ceil(per_second)
    assert busiest_second(acted_on) <= math.ceil(per_second) + burst - 1


@QUICK
@given(steps=asks, per_second=rates, burst=st.integers(1, 20))
def test_every_instant_is_given_once_and_lies_within_its_bounds(
    steps: list[tuple[int, int, int]], per_second: float, burst: int
) -> None:
    latest = -1
    leases = granted(steps, per_second=per_second, burst=burst)
    for (now_us, given_now), (_, wanted, window_us) in zip(leases, steps, strict=True):
        assert given_now.count <= wanted
        for instant in given_now.instants_us():
            assert instant >= latest + (given_now.spacing_us if latest >= 0 else 0)
            assert now_us - (burst - 1) * given_now.spacing_us <= instant <= now_us + window_us
            latest = instant


@pytest.mark.req("U-8")
@QUICK
@given(
    steps=st.lists(st.integers(0, WINDOW), min_size=1, max_size=40), per_second=rates, burst=st.integers(1, 5)
)
def test_a_caller_that_always_wants_gets_the_full_rate(
    steps: list[int], per_second: float, burst: int
) -> None:
    asked = [(step, 1_000_000, WINDOW) for step in steps]
    leases = granted(asked, per_second=per_second, burst=burst, first_free_us=NOW)
    instants = [instant for _, given_now in leases for instant in given_now.instants_us()]
    spacing = spacing_us(per_second)
    began = max(NOW, leases[0][0] - (burst - 1) * spacing)
    ended = leases[-1][0] + WINDOW
    assert instants == list(range(began, ended + 1, spacing))


@pytest.mark.req("J-0.2")
def test_three_thousand_due_at_once_start_at_fifty_a_second_for_a_minute() -> None:
    nodes_asking_in_turn = [(50_000, 40, WINDOW)] * 1_200
    leases = granted(nodes_asking_in_turn, per_second=50, burst=1)
    starts = [instant for _, given_now in leases for instant in given_now.instants_us()][:3_000]
    assert len(starts) == 3_000
    assert busiest_second(starts) == 50
    assert starts[-1] - starts[0] == 2_999 * 20_000


def test_a_clock_that_steps_back_grants_nothing_twice() -> None:
    before = lease(wanted=5)
    after = lease(wanted=5, now_us=NOW - 10 * SECOND_US, next_free_us=before.next_free_us)
    assert (after.count, after.next_free_us) == (0, before.next_free_us)
