"""How many places one tenant may take of those that all share."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.engine.ledger.places import Places
from timebell.rules.fairness import FEW, room_for

QUICK = settings(max_examples=60, deadline=None)


def fill(places: Places, *tenants: str) -> dict[str, int]:
    """Each takes one after the other for as long as it may."""
    taken = dict.fromkeys(tenants, 0)
    while hungry := [tenant for tenant in tenants if places.room(tenant)]:
        for tenant in hungry:
            if places.room(tenant):
                places.take(tenant)
                taken[tenant] += 1
    return taken


@pytest.mark.parametrize(
    ("capacity", "alone"), [(1, 1), (3, 3), (4, 3), (6, 5), (8, 7), (10, 9), (100, 90), (1_000, 900)]
)
def test_whoever_is_alone_gets_nearly_everything(capacity: int, alone: int) -> None:
    assert fill(Places(capacity, 0.9), "a") == {"a": alone}


def test_several_get_about_the_same_and_somebody_else_finds_a_place() -> None:
    places = Places(100, 0.9)
    taken = fill(places, "a", "b", "c")
    assert max(taken.values()) - min(taken.values()) <= 1
    assert sum(taken.values()) >= 90
    assert places.room("new") > 0


def test_who_came_first_shrinks_to_its_share() -> None:
    places = Places(100, 0.9)
    held = fill(places, "early")["early"]
    late = fill(places, "late")["late"]
    assert late > 0
    for _ in range(200):
        places.leave("early")
        held -= 1
        late += fill(places, "late")["late"]
        held += fill(places, "early")["early"]
        if abs(held - late) <= 2:
            return
    raise AssertionError(f"{held} and {late} after two hundred jobs")


@QUICK
@given(st.integers(1, 300), st.floats(0.1, 1.0), st.data())
def test_never_more_than_there_are_and_always_one_for_whoever_has_none(
    capacity: int, share: float, data: st.DataObject
) -> None:
    taken = data.draw(st.integers(0, capacity))
    own = data.draw(st.integers(0, taken))
    room = room_for(capacity=capacity, taken=taken, own=own, share=share)
    assert 0 <= room <= capacity - taken
    if not own and taken < capacity:
        assert room > 0


def test_the_last_place_is_for_whoever_has_none() -> None:
    assert room_for(capacity=10, taken=9, own=0, share=0.9) == 1
    assert room_for(capacity=10, taken=9, own=1, share=0.9) == 0


@pytest.mark.parametrize(("capacity", "share"), [(FEW - 1, 0.5), (50, 1.0)])
def test_where_nothing_is_kept_free(capacity: int, share: float) -> None:
    assert fill(Places(capacity, share), "a") == {"a": capacity}
