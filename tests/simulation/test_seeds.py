"""Whole clusters under virtual time on the real database, one seed after another: no invariant breaks."""

from __future__ import annotations

import pytest

from tests.simulation.run import run_seed
from tests.simulation.world import scene_of
from timebell.testing.database import TestDatabase


def _play(seed: int, days: float, database: TestDatabase) -> None:
    __tracebackhide__ = True
    # Shown only where the test fails, however it does.
    print(f"Play it again: python -m tests.simulation --seed {seed} --days {days:g} --trace")
    result = run_seed(seed, database=database, days=days)
    if result.violations:
        pytest.fail("\n".join(str(violation) for violation in result.violations))
    assert any(record.op == "start" for record in result.history), (
        "a world in which nothing ran proves nothing"
    )
    assert result.counts["arrivals"], "nor does one in which nobody was told"
    if scene_of(seed).meetings_a_day:
        assert result.counts["propose_done"], "nor does one in which nobody asks anybody to meet"


@pytest.mark.req("U-1", "U-2", "U-3", "U-5", "U-14", "U-21", "M-1.5", "M-2.3", "M-4.2", "M-4.5", "M-7.3")
@pytest.mark.parametrize("seed", range(1, 51))
def test_two_days(seed: int, world_database: TestDatabase) -> None:
    _play(seed, 2, world_database)


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2", "U-3", "U-5", "U-14", "U-21")
@pytest.mark.parametrize("seed", range(1001, 1201))
def test_a_week(seed: int, world_database: TestDatabase) -> None:
    _play(seed, 7, world_database)


@pytest.mark.slow
@pytest.mark.req("U-14")
def test_a_year(world_database: TestDatabase) -> None:
    _play(2001, 365, world_database)
