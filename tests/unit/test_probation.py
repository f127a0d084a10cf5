"""Suspects begin one after another, and one that takes long holds up the others for a moment only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from timebell.engine.starter import Probation, Solitude


class Now:
    """A monotonic clock that stands where it is put."""

    seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


def suspect() -> Any:
    return SimpleNamespace(id=uuid4())


def test_one_at_a_time_while_the_newest_is_new(now: Now) -> None:
    probation, first, second = Probation(10, now), suspect(), suspect()
    assert probation.enter(first)
    assert not probation.enter(second)
    probation.leave(first)
    assert probation.enter(second)


def test_one_that_has_run_for_a_while_holds_up_nobody(now: Now) -> None:
    probation = Probation(10, now)
    assert probation.enter(suspect())
    now.seconds += 0.2
    assert probation.enter(suspect())
    assert not probation.enter(suspect())
    now.seconds += 0.2
    assert probation.enter(suspect())


def test_no_more_than_there_are_places(now: Now) -> None:
    probation, inside = Probation(2, now), [suspect(), suspect()]
    for each in inside:
        assert probation.enter(each)
        now.seconds += 0.2
    assert not probation.enter(suspect())
    probation.leave(inside[0])
    assert probation.enter(suspect())


def test_whoever_leaves_without_having_entered_changes_nothing(now: Now) -> None:
    probation = Probation(10, now)
    assert probation.enter(suspect())
    probation.leave(suspect())
    assert not probation.enter(suspect())


def test_a_node_that_stood_still_has_not_waited_to_be_alone(now: Now) -> None:
    """What ran beside the job stood still as well, and would still run beside it."""
    solitude, job = Solitude(now), suspect()
    assert not solitude.enter(job, is_quiet=False)
    now.seconds += 3_600
    assert not solitude.enter(job, is_quiet=False)
    assert solitude.holds_back()
    for _ in range(29):
        now.seconds += 1
        is_inside = solitude.enter(job, is_quiet=False)
    assert is_inside, "after half a minute awake it is not kept waiting any longer"
