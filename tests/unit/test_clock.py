"""Time, chance and ids, as production has them and as a test can have them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from timebell.clock import Chance, Ids, ManualClock, SandboxClock, SystemClock
from timebell.errors import InvalidInput, NaiveInstant

MILLISECONDS = 1_803_891_600_123


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The wall clock of the process, in milliseconds, for a test to move."""
    now = [MILLISECONDS]
    monkeypatch.setattr("timebell.clock.time.time_ns", lambda: now[0] * 1_000_000 + 999_999)
    return now


def milliseconds(id: UUID) -> int:
    return id.int >> 80


def counter(id: UUID) -> int:
    return id.int >> 64 & 0xFFF


def test_an_id_is_a_uuid_of_version_7(stopped: list[int]) -> None:
    for id in (Ids(Chance(seed)).new() for seed in range(50)):
        assert id.version == 7
        assert id.int >> 62 & 0b11 == 0b10
        assert milliseconds(id) == MILLISECONDS
        assert counter(id) < 2_048, "half of the numbers are kept for what follows"


def test_an_id_carries_the_time_of_its_making() -> None:
    before = time.time_ns() // 1_000_000
    id = Ids(Chance()).new()
    assert before <= milliseconds(id) <= time.time_ns() // 1_000_000


def test_ids_rise_within_a_millisecond_and_beyond_its_numbers(stopped: list[int]) -> None:
    ids = Ids(Chance(1))
    made = [ids.new() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert milliseconds(made[-1]) > MILLISECONDS, "a full millisecond borrows from the next"
    assert {id.version for id in made} == {7}


def test_many_ids_at_once_are_as_good_as_one_by_one(stopped: list[int]) -> None:
    ids = Ids(Chance(1))
    made = [ids.new(), *ids.many(10_000), ids.new()]
    assert made == sorted(made)
    assert len({id.int & (1 << 62) - 1 for id in made}) == len(made), "each has a tail of its own"
    assert {id.version for id in made} == {7}
    assert {id.int >> 62 & 0b11 for id in made} == {0b10}
    assert ids.many(0) == []
    assert Ids(Chance(5)).many(3) == Ids(Chance(5)).many(3)


def test_ids_rise_when_the_clock_is_put_back(stopped: list[int]) -> None:
    ids = Ids(Chance(1))
    made = []
    for step in (0, 5, -60_000, -60_000, 1):
        stopped[0] += step
        made += [ids.new() for _ in range(3)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_that_borrowed_wait_for_the_clock_to_catch_up(stopped: list[int]) -> None:
    ids = Ids(Chance(1))
    made = [ids.new() for _ in range(20_000)]
    stopped[0] += 1
    made.append(ids.new())
    stopped[0] += 1_000
    made.append(ids.new())
    assert made == sorted(made)
    assert milliseconds(made[-1]) == MILLISECONDS + 1_001


def test_a_seed_makes_a_run_repeatable(stopped: list[int]) -> None:
    one, same, other = (Ids(Chance(seed)) for seed in (1, 1, 2))
    run = [one.new() for _ in range(100)]
    assert [same.new() for _ in range(100)] == run
    assert other.new() not in run


def test_without_a_seed_no_two_processes_agree(stopped: list[int]) -> None:
    assert len({Ids(Chance()).new() for _ in range(100)}) == 100


def test_chance_keeps_to_its_bounds() -> None:
    chance = Chance(7)
    assert all(0 <= chance.fraction() < 1 for _ in range(1_000))
    assert {chance.bits(2) for _ in range(200)} == {0, 1, 2, 3}
    assert [Chance(7).fraction() for _ in range(3)] == [Chance(7).fraction()] * 3


async def test_in_production_the_database_is_the_only_clock() -> None:
    clock = SystemClock()
    assert clock.sql_now() is None
    assert clock.lease_now() is None
    began = clock.monotonic()
    await clock.sleep(0)
    assert began <= clock.monotonic() <= time.monotonic()


@pytest.mark.parametrize("kind", [ManualClock, SandboxClock])
def test_a_clock_that_is_moved_goes_forward_only(kind: type[ManualClock]) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    clock = kind(start)
    assert clock.sql_now() == start
    assert clock.lease_now() is None, "a lease guards a real process"
    clock.move(timedelta(hours=1))
    clock.move_to(clock.now)
    assert clock.now == clock.sql_now() == start + timedelta(hours=1)
    with pytest.raises(InvalidInput, match="forward only"):
        clock.move_to(start)
    with pytest.raises(NaiveInstant):
        clock.move_to(datetime(2027, 1, 1))
    with pytest.raises(InvalidInput, match="not a datetime"):
        clock.move_to("tomorrow")  # type: ignore[arg-type]
    assert clock.now == start + timedelta(hours=1)
    with pytest.raises(NaiveInstant):
        kind(datetime(2026, 3, 1))


def test_only_the_clock_of_a_test_counts_time_outs_by_what_it_shows() -> None:
    manual, sandbox = ManualClock(), SandboxClock()
    before = sandbox.monotonic()
    for clock in (manual, sandbox):
        clock.move(timedelta(days=365))
    assert manual.monotonic() == 365 * 86_400
    assert sandbox.monotonic() - before < 60
