"""Whatever one tenant does, the others do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.neighbourhood import Neighbourhood, neighbourhood
from tests.acceptance.processes import Process

BOUND_SECONDS = 2.0


async def watch(here: Neighbourhood, loud: Callable[[], Awaitable[Any]], after: float) -> dict[str, float]:
    """The other tenant's worst waits while the loud one is at it, and for some seconds after."""
    async with here.watchful.watching():
        await loud()
        await asyncio.sleep(after)
    return here.watchful.worst()


async def nothing() -> None:
    """On a busy machine everything takes a little, also where nobody else asks for anything."""


def all_at_once(here: Neighbourhood) -> Callable[[], Awaitable[Any]]:
    return lambda: asyncio.gather(*(way() for way in here.loud.ways.values()))


def assert_unharmed(seen: dict[str, dict[str, float]]) -> None:
    """Mail waits for the rate of its own provider anyway, so it is not what says how busy the machine is."""
    alone = max(wait for name, wait in seen["alone"].items() if name != "critical mail")
    late = {
        f"{name} beside {way}": round(wait, 2)
        for way, worst in seen.items()
        for name, wait in worst.items()
        if wait > BOUND_SECONDS + 2 * alone
    }
    assert not late, f"seconds waited, alone {alone:.2f}: {late}"


async def test_all_at_once(used_folder: Path, place: Path, processes: list[Process]) -> None:
    async with neighbourhood(place, used_folder, processes, scale=0.05) as here:
        alone = await watch(here, nothing, 1.0)
        assert_unharmed({"alone": alone, "all at once": await watch(here, all_at_once(here), 2.0)})


@pytest.mark.slow
async def test_one_after_the_other_and_all_at_once(
    used_folder: Path, place: Path, processes: list[Process]
) -> None:
    async with neighbourhood(place, used_folder, processes, scale=1.0) as here:
        ways = {"alone": nothing, **here.loud.ways, "all at once": all_at_once(here)}
        seen: dict[str, dict[str, float]] = {}
        for name, way in ways.items():
            seen[name] = await watch(here, way, 5.0)
            print(name, {each: round(wait, 2) for each, wait in seen[name].items()})
        assert_unharmed(seen)
