"""When an alert opens and closes: at its bound it does not, beyond it once, and what was seen may be over before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.rules.alerting import Bounds, Decision, Figure, Standing, decide, is_within, last_of

NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HERE = ("default", "")


def decided(bounds: Bounds, value: float | None, standing: Standing | None = None, **figure: Any) -> Decision:
    found = {} if value is None else {HERE: Figure(value=value, **figure)}
    return decide(bounds, found, {} if standing is None else {HERE: standing}, NOW)


def words(decision: Decision) -> list[str]:
    return [
        name
        for name in ("seen", "opened", "ripe", "worded", "closed", "forgotten")
        if getattr(decision, name)
    ]


OPEN = Standing(seen_at=NOW - MINUTE, is_open=True)


@pytest.mark.req("J-12.2", "J-12.3")
@pytest.mark.parametrize(
    ("bounds", "value", "samples", "is_opened"),
    [
        (Bounds(opens_at=100), 100, 1, False),
        (Bounds(opens_at=100), 101, 1, True),
        (Bounds(opens_at=300), 300.0, 1, False),
        (Bounds(opens_at=300), 301.0, 1, True),
        (Bounds(opens_at=0.05, samples_min=20), 5 / 100, 100, False),
        (Bounds(opens_at=0.05, samples_min=20), 6 / 100, 100, True),
        (Bounds(opens_at=0.2, samples_min=20), 20 / 100, 100, False),
        (Bounds(opens_at=0.2, samples_min=20), 21 / 100, 100, True),
        (Bounds(opens_at=0.05, samples_min=20), 1.0, 19, False),
        (Bounds(opens_at=0.05, samples_min=20), 1.0, 20, True),
        (Bounds(side="below", opens_at=2), 2, 1, False),
        (Bounds(side="below", opens_at=2), 1, 1, True),
        (Bounds(), 0, 1, False),
        (Bounds(), 1, 1, True),
    ],
)
def test_it_opens_beyond_its_bound_and_not_at_it(
    bounds: Bounds, value: float, samples: int, is_opened: bool
) -> None:
    assert words(decided(bounds, value, samples=samples)) == (["opened"] if is_opened else [])


def test_what_is_open_opens_no_second_time_and_is_said_as_it_is_now() -> None:
    assert words(decided(Bounds(), 7, OPEN)) == []
    assert words(decided(Bounds(), 7, OPEN, detail="7 of them")) == ["worded"]


@pytest.mark.parametrize("value", [None, 100, 0])
def test_it_closes_where_it_is_not_so_any_more(value: float | None) -> None:
    assert words(decided(Bounds(opens_at=100), value, OPEN)) == ["closed"]


def test_it_closes_later_than_it_opened_where_the_bounds_say_so() -> None:
    bounds = Bounds(side="below", opens_at=1.0, closes_at=1.5)
    assert words(decided(bounds, 1.2)) == []
    assert words(decided(bounds, 1.2, OPEN)) == []
    assert words(decided(bounds, 1.5, OPEN)) == ["closed"]


def test_too_few_samples_say_nothing_of_an_end() -> None:
    bounds = Bounds(opens_at=0.05, samples_min=20)
    assert words(decided(bounds, 0.5, OPEN, samples=2)) == []
    assert words(decided(bounds, 0.05, OPEN, samples=2)) == ["closed"]


@pytest.mark.parametrize(
    ("since", "value", "expected"),
    [
        (None, 1, ["seen"]),
        (2 * MINUTE - timedelta(microseconds=1), 1, []),
        (2 * MINUTE, 1, ["ripe"]),
        (2 * MINUTE, 0, ["forgotten"]),
        (MINUTE, None, ["forgotten"]),
    ],
)
def test_what_has_to_last_opens_when_it_has_lasted(
    since: timedelta | None, value: float | None, expected: list[str]
) -> None:
    standing = None if since is None else Standing(seen_at=NOW - since, is_open=False)
    assert words(decided(Bounds(holds_for=2 * MINUTE), value, standing)) == expected


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=2)
_PLACES = st.tuples(_TEXTS, _TEXTS)


@given(
    st.dictionaries(_PLACES, st.integers(0, 2), max_size=8),
    st.dictionaries(_PLACES, st.booleans(), max_size=8),
)
def test_each_place_comes_to_one_thing(found: dict[Any, int], standing: dict[Any, bool]) -> None:
    decision = decide(
        Bounds(opens_at=1),
        {place: Figure(value=value) for place, value in found.items()},
        {place: Standing(seen_at=NOW, is_open=is_open) for place, is_open in standing.items()},
        NOW,
    )
    every = [place for name in Decision.__slots__ for place in getattr(decision, name)]
    assert len(every) == len(set(every))
    after = {place for place, is_open in standing.items() if is_open}
    after = (after | set(decision.opened) | set(decision.ripe)) - set(decision.closed)
    assert after == {place for place, value in found.items() if value > 1}


@given(st.lists(_PLACES, unique=True, max_size=12), st.integers(1, 4))
def test_a_long_answer_is_looked_at_in_parts_that_leave_nothing_out(places: list[Any], size: int) -> None:
    """PostgreSQL answers in the order of bytes, where Python's own order of texts is another one."""
    ordered = sorted(places, key=lambda place: (place[0].encode(), place[1].encode()))
    after, seen = None, []
    for start in range(0, len(ordered), size):
        part = ordered[start : start + size]
        until = last_of(part)
        seen += [place for place in places if is_within(place, after, until)]
        after = until
    assert sorted(seen) == sorted(places)
    assert not [place for place in places if is_within(place, after, None)]
