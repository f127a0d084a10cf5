"""Every planted bug is caught, and by the invariant that is there for it. Without a bug nothing is."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.simulation.parts import parts
from tests.simulation.plants import PLANTS, Plant
from tests.simulation.plants_notes import NOTE_PLANTS
from tests.simulation.plants_operating import OPERATING_PLANTS
from tests.simulation.run import run_seed
from timebell.testing.database import TestDatabase

SEEDS_MAX = 20
APP_PLANTS: list[Plant] = [plant for part in parts() for plant in import_module(part.plants).PLANTS]
ALL = [*PLANTS, *NOTE_PLANTS, *OPERATING_PLANTS, *APP_PLANTS]


def _often(plant: Plant) -> object:
    return pytest.param(plant, marks=pytest.mark.slow if plant.is_slow else (), id=plant.name)


@pytest.mark.parametrize("plant", [_often(plant) for plant in ALL])
def test_a_planted_bug_is_caught(plant: Plant, world_database: TestDatabase) -> None:
    """From the seed that is known to show it on; should the world change, another one near it will."""
    for seed in range(plant.seed, plant.seed + SEEDS_MAX):
        result = run_seed(
            seed, database=world_database, days=plant.days, scene=plant.scene, planted=plant.planted
        )
        found = {violation.invariant for violation in result.violations}
        if found:
            print(f"{plant.name} ({plant.about}): {', '.join(sorted(found))}, seed {seed}")
            assert found & plant.caught_by, "\n".join(str(violation) for violation in result.violations)
            return
    pytest.fail(f"{plant.name} was not caught in {SEEDS_MAX} seeds")


@pytest.mark.slow
@pytest.mark.parametrize("plant", ALL, ids=lambda plant: plant.name)
def test_its_scene_is_sound_without_it(plant: Plant, world_database: TestDatabase) -> None:
    result = run_seed(plant.seed, database=world_database, days=plant.days, scene=plant.scene)
    assert result.violations == []
