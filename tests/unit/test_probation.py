"""Suspects begin one after another, and one that takes long holds up the others for a moment only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from timebell.engine.limits.turnstiles import Probation, Solitude


class Now:
    """A monotonic clock that stands where it is put."""

    seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


def suspect() -> Any:
    return SimpleNamespace(id=uuid4(), pair=("acme", "default"))


def test_one_at_a_time_while_the_newest_is_new(now: Now) -> None:
    probation, first, second = Probation(10, now), suspect(), suspect()
    assert probation.enter(first)
    assert not probation.enter(second)
    probation.leave(first)
    assert probation.enter(second)


def test_one_that_has_run_for_a_while_holds_up_nobody(now: Now) -> None:
    probation, first, second = Probation(10, now), suspect(), suspect()
    for each in (first, second):
        assert probation.enter(each)
        probation.begins(each)
        assert not probation.enter(suspect())
        now.seconds += 0.2
    assert probation.enter(suspect())


def test_one_whose_start_takes_long_to_mark_has_proved_nothing(now: Now) -> None:
    probation, first, second = Probation(10, now), suspect(), suspect()
    assert probation.enter(first)
    now.seconds += 5
    assert not probation.enter(second)
    probation.begins(first)
    assert not probation.enter(second)
    now.seconds += 0.2
    assert probation.enter(second)
    probation.begins(first)
    now.seconds += 0.2
    assert not probation.enter(suspect()), "only the newest is waited for"


def test_no_more_than_there_are_places(now: Now) -> None:
    probation, inside = Probation(2, now), [suspect(), suspect()]
    for each in inside:
        assert probation.enter(each)
        probation.begins(each)
        now.seconds += 0.2
    assert not probation.enter(suspect())
    probation.leave(inside[0])
    assert probation.enter(suspect())


def test_whoever_leaves_without_having_entered_changes_nothing(now: Now) -> None:
    probation = Probation(10, now)
    assert probation.enter(suspect())
    probation.leave(suspect())
    assert not probation.enter(suspect())


@pytest.fixture
def waiting() -> set[UUID]:
    """The jobs that are held in memory and were not chosen yet."""
    return set()


@pytest.fixture
def solitude(now: Now, waiting: set[UUID]) -> Solitude:
    return Solitude(now, waiting.__contains__)


def test_a_node_that_stood_still_has_not_waited_to_be_alone(now: Now, solitude: Solitude) -> None:
    """What ran beside the job stood still as well, and would still run beside it."""
    job = suspect()
    assert not solitude.enter(job, is_quiet=False)
    now.seconds += 3_600
    assert not solitude.enter(job, is_quiet=False)
    assert solitude.holds_back()
    for _ in range(29):
        now.seconds += 1
        is_inside = solitude.enter(job, is_quiet=False)
    assert is_inside, "after half a minute awake it is not kept waiting any longer"


def test_one_that_may_ask_in_few_rounds_only_has_waited_all_the_same(
    now: Now, solitude: Solitude, waiting: set[UUID]
) -> None:
    """The rate of its queue decides when it may start, and so when it asks."""
    job = suspect()
    waiting.add(job.id)
    for _ in range(30):
        assert not solitude.enter(job, is_quiet=False)
        solitude.round_ends()
        for _ in range(7):
            now.seconds += 0.125
            assert solitude.holds_back()
            solitude.round_ends()
        now.seconds += 0.125
    assert solitude.enter(job, is_quiet=False)


def test_one_that_has_not_asked_of_late_keeps_nobody_from_beginning(
    now: Now, solitude: Solitude, waiting: set[UUID]
) -> None:
    job = suspect()
    waiting.add(job.id)
    assert not solitude.enter(job, is_quiet=False)
    now.seconds += 1.1
    assert not solitude.holds_back()


def test_one_that_is_gone_is_not_waited_for(now: Now, solitude: Solitude, waiting: set[UUID]) -> None:
    job = suspect()
    waiting.add(job.id)
    assert not solitude.enter(job, is_quiet=False)
    solitude.round_ends()
    assert solitude.holds_back()
    waiting.remove(job.id)
    solitude.round_ends()
    assert not solitude.holds_back()


def test_nobody_inherits_the_time_that_another_has_waited(now: Now, solitude: Solitude) -> None:
    first, second = suspect(), suspect()
    for _ in range(30):
        assert not solitude.enter(first, is_quiet=False)
        now.seconds += 1
    assert not solitude.enter(second, is_quiet=False)
    assert solitude.enter(first, is_quiet=False)
