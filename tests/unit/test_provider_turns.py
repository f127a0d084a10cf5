"""Turns at a provider: fair between tenants, critical first, and never more than the rate."""

from __future__ import annotations

from datetime import timedelta

import pytest

from timebell.rules.provider_turns import Line, Pace, choose


def line(tenant: str, *, last_turn: int = 0, critical: int = 0, others: int = 0) -> Line[str]:
    return Line(
        tenant=tenant,
        last_turn=last_turn,
        critical=[f"{tenant}!{number}" for number in range(critical)],
        others=[f"{tenant}{number}" for number in range(others)],
    )


def chosen(*lines: Line[str], count: int, turn: int = 0) -> list[str]:
    return [one.id for one in choose(lines, count=count, turn=turn)]


def test_tenants_take_turns() -> None:
    assert chosen(line("a", others=9), line("b", others=2), count=6) == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_whoever_had_no_turn_for_longest_is_next() -> None:
    lines = line("a", others=9, last_turn=7), line("b", others=9, last_turn=6), line("c", others=9)
    assert chosen(*lines, count=3, turn=7) == ["c0", "b0", "a0"]


def test_what_is_critical_goes_before_what_is_not() -> None:
    assert chosen(line("a", others=9, critical=1), count=3) == ["a!0", "a0", "a1"]
    assert "b!0" in chosen(line("a", others=99), line("b", critical=1, last_turn=50), count=2, turn=50)


def test_a_flood_of_critical_ones_holds_up_no_other_tenant() -> None:
    """Neither what is critical there, nor what is not."""
    lines = line("a", critical=99), line("b", critical=1), line("c", others=1)
    first = chosen(*lines, count=4)
    assert {"b!0", "c0"} <= set(first)


def test_nobody_waits() -> None:
    assert chosen(count=5) == []
    assert chosen(line("a", others=1), count=5) == ["a0"]


@pytest.mark.parametrize("per_second", [0.1, 1, 2, 9, 10, 25, 100, 1_000])
def test_in_no_second_are_there_more_than_the_rate(per_second: float) -> None:
    """The worst case: everything that was kept back at once, and then at full speed."""
    pace = Pace.of(per_second)
    free, starts, now = timedelta(0), [], pace.slack
    while now <= pace.slack + timedelta(seconds=max(1, 2 / per_second)):
        free = max(free, now - pace.slack)
        while free <= now:
            starts.append(now)
            free += pace.spacing
        now = free
    for at, start in enumerate(starts):
        within = [one for one in starts[at:] if one - start < timedelta(seconds=1)]
        assert len(within) <= max(1, per_second)
    assert pace.starts_within(timedelta(milliseconds=200)) >= 1
