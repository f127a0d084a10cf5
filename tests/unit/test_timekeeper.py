"""The estimate of the database's time: a lower bound, as tight as the last answers allow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from timebell.db.pool import Row
from timebell.db.queries import Query
from timebell.engine.node.timekeeper import Timekeeper

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Wire:
    """A clock and a session: the database's time goes on with this clock's; question and answer take their time."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.step = timedelta(0)
        self.way_there = 0.0
        self.way_back = 0.0

    def sql_now(self) -> datetime | None:
        return None

    def lease_now(self) -> datetime | None:
        return None

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.elapsed += seconds

    @property
    def true_now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed) + self.step

    async def run(self, query: Query, /, **arguments: object) -> Sequence[Row]:
        self.elapsed += self.way_there
        answer = {"now": self.true_now}
        self.elapsed += self.way_back
        return [answer]

    async def execute(self, statement: str, /) -> str:
        raise AssertionError(statement)

    def is_in_transaction(self) -> bool:
        return False

    def is_lost(self) -> bool:
        return False


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def timekeeper(wire: Wire) -> Timekeeper:
    """Anchored by an answer that took no time."""
    timekeeper = Timekeeper(wire)
    await timekeeper.anchor(wire)
    return timekeeper


async def test_a_slow_answer_does_not_spoil_a_quick_one_and_never_runs_ahead(wire: Wire) -> None:
    timekeeper = Timekeeper(wire)
    wire.way_back = 0.001
    await timekeeper.anchor(wire)
    wire.elapsed += 0.5
    wire.way_back = 0.2
    await timekeeper.anchor(wire)
    lag = wire.true_now - timekeeper.now()
    assert timedelta(0) <= lag <= timedelta(milliseconds=2)


@pytest.mark.parametrize("seconds", [1.5, 20.0])
async def test_an_answer_that_takes_long_is_no_clock_that_was_set_back(
    wire: Wire, timekeeper: Timekeeper, seconds: float
) -> None:
    """What becomes due meanwhile would be late by as much as the answer, until the next one comes."""
    wire.elapsed += 0.5
    wire.way_back = seconds
    await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now
    asked, told = wire.elapsed, wire.true_now
    wire.elapsed += seconds
    assert not timekeeper.is_set_back(told, asked)
    assert timekeeper.now() == wire.true_now


async def test_what_was_said_long_ago_is_forgotten(wire: Wire, timekeeper: Timekeeper) -> None:
    """Two clocks that drift apart must not stay anchored at the moment they were closest."""
    wire.step = -timedelta(milliseconds=300)
    # The question took so long that the answer to it proves nothing about the clock.
    wire.way_there = 0.4
    for _ in range(3):
        wire.elapsed += 0.5
        await timekeeper.anchor(wire)
    assert timekeeper.now() > wire.true_now
    wire.elapsed += 4.0
    await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now


@pytest.mark.parametrize(
    "step", [timedelta(milliseconds=20), timedelta(milliseconds=900), timedelta(hours=1)]
)
async def test_a_clock_that_was_set_back_is_followed_at_once(
    wire: Wire, timekeeper: Timekeeper, step: timedelta
) -> None:
    """However little it was: until it is noticed, plain jobs begin as much too early."""
    wire.step = -step
    wire.elapsed += 0.5
    wire.way_there = 0.01
    await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now


async def test_a_drift_of_microseconds_is_not_a_step(wire: Wire, timekeeper: Timekeeper) -> None:
    """Else the estimate would lag by the way back of whatever told the time."""
    wire.step = -timedelta(microseconds=300)
    wire.way_back = 0.2
    await timekeeper.anchor(wire)
    assert timedelta(0) < timekeeper.now() - wire.true_now < timedelta(milliseconds=1)


async def test_an_answer_in_passing_counts_only_where_the_clock_was_set_back(
    wire: Wire, timekeeper: Timekeeper
) -> None:
    estimate = timekeeper.now()
    assert not timekeeper.is_set_back(wire.true_now + timedelta(hours=1), wire.elapsed)
    assert not timekeeper.is_set_back(wire.true_now - timedelta(milliseconds=500), wire.elapsed - 0.5)
    assert timekeeper.now() == estimate
    wire.step = -timedelta(milliseconds=500)
    assert timekeeper.is_set_back(wire.true_now, wire.elapsed)
    assert timekeeper.now() == wire.true_now


async def test_what_was_said_before_the_clock_was_set_back_and_heard_after_is_void(
    wire: Wire, timekeeper: Timekeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two questions are under way at once, and the answer that is older comes second."""

    async def overtaken(query: Query, /, **arguments: object) -> Sequence[Row]:
        said = wire.true_now
        wire.step = -timedelta(hours=1)
        wire.elapsed += 0.01
        asked = wire.elapsed
        wire.elapsed += 0.01
        assert timekeeper.is_set_back(wire.true_now, asked)
        return [{"now": said}]

    with monkeypatch.context() as patched:
        patched.setattr(wire, "run", overtaken)
        await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now
    wire.elapsed += 0.5
    wire.step = timedelta(0)
    await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now, "set right again, it is believed again"
