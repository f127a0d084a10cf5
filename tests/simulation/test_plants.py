"""Every planted bug is caught, and by the invariant that is there for it. Without a bug nothing is."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from tests.daily import daily_seed
from tests.simulation.database import altered
from tests.simulation.parts import parts
from tests.simulation.planting import Planted, answering, instead, several
from tests.simulation.plants import CALM, PLANTS, Plant
from tests.simulation.plants_notes import NOTE_PLANTS
from tests.simulation.plants_operating import OPERATING_PLANTS
from tests.simulation.run import run_seed
from timebell.engine.store import EngineStore
from timebell.engine.worker.executor import Executor
from timebell.kernel.schedules.schedules import Schedules
from timebell.testing.database import TestDatabase

SEEDS_MAX = 20
APP_PLANTS: list[Plant] = [plant for part in parts() for plant in import_module(part.plants).PLANTS]
ALL = [*PLANTS, *NOTE_PLANTS, *OPERATING_PLANTS, *APP_PLANTS]


# They prove that the simulation notices, and not that the product works, so each day a part of them will do.
PARTS = 6


def _often(number: int, plant: Plant) -> object:
    is_seldom = plant.is_slow or (number + daily_seed()) % PARTS
    return pytest.param(plant, marks=pytest.mark.slow if is_seldom else (), id=plant.name)


@pytest.mark.parametrize("plant", [_often(number, plant) for number, plant in enumerate(ALL)])
def test_a_planted_bug_is_caught(plant: Plant, world_database: TestDatabase) -> None:
    """From the seed that is known to show it on; should the world change, another one near it will."""
    unreached: set[str] | None = None
    for seed in range(plant.seed, plant.seed + SEEDS_MAX):
        result = run_seed(
            seed, database=world_database, days=plant.days, scene=plant.scene, planted=plant.planted
        )
        found = {violation.invariant for violation in result.violations}
        unreached = set(result.unreached) if unreached is None else unreached.intersection(result.unreached)
        if found:
            print(f"{plant.name} ({plant.about}): {', '.join(sorted(found))}, seed {seed}")
            assert found & plant.caught_by, "\n".join(str(violation) for violation in result.violations)
            # Or it was caught for another reason, and its own may long be passed unseen.
            assert not result.unreached, f"nobody came by where it is planted: {result.unreached}"
            return
    never = f"; nobody came by where it is planted: {sorted(unreached)}" if unreached else ""
    pytest.fail(f"{plant.name} was not caught in {SEEDS_MAX} seeds{never}")


def test_it_is_known_where_nobody_came_by(world_database: TestDatabase) -> None:
    """Or a plant whose place is passed no more would look like one that no invariant catches."""

    def planted() -> Planted:
        return several(
            instead(Executor, "job", Executor.job),
            answering(Executor, "timeout_seconds", lambda seconds, *_: seconds + 1),
            altered(EngineStore, "finish_jobs", {}),
            # Asked for, but not so; answering what is true; never asked for.
            instead(Executor, "decide", Executor.decide, where=lambda *_: False),
            answering(Executor, "destination", lambda destination, *_: destination),
            instead(Schedules, "override", Schedules.override),
            altered(EngineStore, "lease_starts", {}),
        )

    scene = replace(CALM, enqueues_a_day=60, modes=("plain",))
    result = run_seed(1, database=world_database, days=0.2, scene=scene, planted=planted)
    assert result.violations == []
    assert result.unreached == [
        "timebell.engine.worker.executor.Executor.decide",
        "timebell.engine.worker.executor.Executor.destination",
        "timebell.kernel.schedules.schedules.Schedules.override",
        "lease_starts.sql",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("plant", ALL, ids=lambda plant: plant.name)
def test_its_scene_is_sound_without_it(plant: Plant, world_database: TestDatabase) -> None:
    result = run_seed(plant.seed, database=world_database, days=plant.days, scene=plant.scene)
    assert result.violations == []
