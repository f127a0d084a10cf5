"""Leased instants: who may begin when, and what is lost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

from timebell.engine.limits.pace import Pace

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
TENTH = timedelta(milliseconds=100)


def paced(count: int = 5, spacing: timedelta = TENTH) -> Pace:
    pace = Pace()
    pace.take(NOW, spacing, count, NOW)
    return pace


def spend(pace: Pace, after: timedelta, uncertainty: timedelta = timedelta(0)) -> bool:
    at = NOW + after
    return pace.spend(UUID(int=1), at, at + uncertainty)


def test_an_instant_is_used_once_and_not_before_it_comes() -> None:
    pace = paced()
    assert spend(pace, timedelta(0))
    assert not spend(pace, timedelta(milliseconds=99))
    assert spend(pace, TENTH)
    assert not spend(pace, TENTH)


def test_what_may_be_too_late_by_the_database_is_lost() -> None:
    pace = paced(1)
    assert not spend(pace, timedelta(milliseconds=30), uncertainty=timedelta(milliseconds=25))
    assert not pace.starts


def test_after_standing_still_what_was_missed_is_not_made_up_for() -> None:
    pace = paced(10)
    assert [spend(pace, timedelta(milliseconds=520)) for _ in range(3)] == [True, False, False]


def test_instants_far_apart_may_be_met_less_exactly() -> None:
    pace = paced(1, timedelta(seconds=63.6))
    assert spend(pace, timedelta(seconds=2.9))


def test_what_was_saved_up_means_at_once() -> None:
    pace = Pace()
    pace.take(NOW - timedelta(seconds=5), TENTH, 3, NOW)
    assert list(pace.starts) == [NOW] * 3


def test_whoever_is_chosen_takes_the_room_of_the_next() -> None:
    pace = paced()
    assert pace.count(NOW + TENTH) == 2
    pace.reserved.add(UUID(int=1))
    assert pace.count(NOW + TENTH) == 1
    assert spend(pace, timedelta(0))
    assert pace.count(NOW + TENTH) == 1


async def test_as_many_are_woken_as_there_are_instants_and_others_give_up_in_time() -> None:
    pace = paced()
    waiters = [asyncio.get_running_loop().create_future() for _ in range(4)]
    pace.waiters.extend((float(number), waiter) for number, waiter in enumerate(waiters, start=5))
    pace.wake(NOW + TENTH, NOW + TENTH, 0.0)
    # The first instant is lost by then.
    assert [waiter.done() for waiter in waiters] == [True, False, False, False]
    pace.starts.clear()
    pace.wake(NOW + TENTH, NOW + TENTH, 6.5)
    assert [waiter.done() for waiter in waiters] == [True, True, False, False]
    pace.wake_all()
    assert all(waiter.done() for waiter in waiters)
