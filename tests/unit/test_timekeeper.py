"""The estimate of the database's time: a lower bound, as tight as the last answers allow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from timebell.db.pool import Row
from timebell.db.queries import Query
from timebell.engine.timekeeper import Timekeeper

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Wire:
    """A clock and a session: the database's time goes on with this clock's, and answers take their time."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.step = timedelta(0)
        self.delay = 0.0

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
        answer = {"now": self.true_now}
        self.elapsed += self.delay
        return [answer]

    async def execute(self, statement: str, /) -> str:
        raise AssertionError(statement)

    def is_in_transaction(self) -> bool:
        return False

    def is_lost(self) -> bool:
        return False


async def test_a_slow_answer_does_not_spoil_a_quick_one_and_never_runs_ahead() -> None:
    wire = Wire()
    timekeeper = Timekeeper(wire)
    wire.delay = 0.001
    await timekeeper.anchor(wire)
    wire.elapsed += 0.5
    wire.delay = 0.2
    await timekeeper.anchor(wire)
    lag = wire.true_now - timekeeper.now()
    assert timedelta(0) <= lag <= timedelta(milliseconds=2)


async def test_what_was_said_long_ago_is_forgotten() -> None:
    """Two clocks that drift apart must not stay anchored at the moment they were closest."""
    wire = Wire()
    timekeeper = Timekeeper(wire)
    await timekeeper.anchor(wire)
    wire.step = -timedelta(milliseconds=300)
    wire.elapsed += 6.0
    await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now


async def test_a_clock_that_was_set_back_is_followed_at_once() -> None:
    wire = Wire()
    timekeeper = Timekeeper(wire)
    await timekeeper.anchor(wire)
    wire.step = -timedelta(hours=1)
    wire.elapsed += 0.5
    await timekeeper.anchor(wire)
    assert timekeeper.now() == wire.true_now


async def test_an_answer_in_passing_counts_only_where_the_clock_was_set_back() -> None:
    """Ahead it may be by the way that the anchors took; behind by more than any way takes, it is the truth."""
    wire = Wire()
    timekeeper = Timekeeper(wire)
    await timekeeper.anchor(wire)
    estimate = timekeeper.now()
    assert not timekeeper.is_set_back(wire.true_now + timedelta(hours=1))
    assert not timekeeper.is_set_back(wire.true_now - timedelta(milliseconds=500))
    assert timekeeper.now() == estimate
    wire.step = -timedelta(hours=1)
    assert timekeeper.is_set_back(wire.true_now)
    assert timekeeper.now() == wire.true_now
