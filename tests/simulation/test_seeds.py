"""Whole clusters under virtual time on the real database, one seed after another: no invariant breaks."""

from __future__ import annotations

import pytest

from tests.daily import daily_seed
from tests.simulation.run import run_seed
from tests.simulation.scene import Scene
from tests.simulation.scenes import YEAR, scene_of
from timebell.testing.database import TestDatabase

ALWAYS = range(1, 8)
NEW_EACH_DAY = 3
# Whatever a world has in it has to come about, or its invariant proves nothing there.
_IN_IT = {
    "enqueues_a_day": "starts",
    "tells_a_day": "arrivals",
    "meetings_a_day": "propose_done",
    "bookings_a_day": "book_done",
    "schedules_a_day": "schedules",
    "orders_a_day": "orders_answered",
    "requests_a_day": "dues",
    "staffings_a_day": "staffing_charge_succeeded",
}


def _play(seed: int, days: float, database: TestDatabase, scene: Scene | None = None) -> None:
    __tracebackhide__ = True
    # Shown only where the test fails, however it does.
    print(f"Play it again: python -m tests.simulation --seed {seed} --days {days:g} --trace")
    result = run_seed(seed, database=database, days=days, scene=scene)
    if result.violations:
        pytest.fail("\n".join(str(violation) for violation in result.violations))
    figures = result.figures()
    for rate, figure in _IN_IT.items():
        if getattr(scene or scene_of(seed), rate):
            assert figures.get(figure), f"a world without {figure} proves little"


@pytest.mark.req("U-1", "U-2", "U-3", "U-5", "U-14", "U-21", "M-1.5", "M-2.3", "M-4.2", "M-4.5", "M-7.3")
@pytest.mark.parametrize("seed", ALWAYS)
def test_a_day(seed: int, world_database: TestDatabase) -> None:
    _play(seed, 1, world_database)


@pytest.mark.parametrize("number", range(NEW_EACH_DAY))
def test_a_day_that_nobody_has_seen(number: int, world_database: TestDatabase) -> None:
    """Other seeds each day; they follow each other, so that they are of three kinds, and of others each day. Some take
    more than one day."""
    _play(daily_seed() * NEW_EACH_DAY + number, 1, world_database)


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2", "U-3", "U-5", "U-14", "U-21", "M-1.5", "M-2.3", "M-4.2", "M-4.5", "M-7.3")
@pytest.mark.parametrize("seed", range(ALWAYS.stop, 61))
def test_two_days(seed: int, world_database: TestDatabase) -> None:
    _play(seed, 2, world_database)


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2", "U-3", "U-5", "U-14", "U-21")
@pytest.mark.parametrize("seed", range(1001, 1061))
def test_a_week(seed: int, world_database: TestDatabase) -> None:
    _play(seed, 7, world_database)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(63, 223, 8))
def test_weeks_of_a_marketplace(seed: int, world_database: TestDatabase) -> None:
    """Of those of `test_two_days` that are such worlds there are six more."""
    if not scene_of(seed).staffings_a_day:
        pytest.skip("nobody is lent where the app is taken away")
    _play(seed, 2, world_database)


@pytest.mark.slow
@pytest.mark.req("U-14")
def test_a_year(world_database: TestDatabase) -> None:
    _play(2001, 365, world_database, YEAR)
