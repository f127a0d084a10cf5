"""Whatever one tenant does, the others do not wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.neighbourhood import Neighbourhood, Ways, neighbourhood
from tests.acceptance.processes import Process

# On a machine that has nothing else to do.
BOUND_SECONDS = 2.0
# Whatever else a machine does comes and goes; what one tenant does to another shows each time.
TIMES = 3
_WORK_SECONDS = 0.2

Way = Callable[[], Awaitable[None]]


async def watch(here: Neighbourhood, loud: Way, after: float) -> dict[str, float]:
    """The other tenant's worst waits while the loud one is at it, and for some seconds after."""
    async with here.watchful.watching():
        await loud()
        await asyncio.sleep(after)
    return here.watchful.worst()


async def nothing() -> None:
    """On a busy machine everything takes a little, also where nobody else asks for anything."""


def stretch() -> float:
    """How many times as long as on a machine of its own something takes that does nothing but compute."""
    began, worked = time.monotonic(), time.thread_time()
    while time.thread_time() - worked < _WORK_SECONDS:
        pass
    return max(1.0, (time.monotonic() - began) / _WORK_SECONDS)


async def bound(here: Neighbourhood, after: float) -> float:
    """How long anybody may wait here, as busy as the machine is with other things just now.

    Mail waits for the rate of its own provider anyway, so it is not what says how long things take alone.
    """
    busy = await asyncio.to_thread(stretch)
    waits = await watch(here, nothing, after)
    alone = max(wait for name, wait in waits.items() if name != "critical mail")
    return BOUND_SECONDS * busy + 2 * alone


async def late(here: Neighbourhood, loud: Way, after: float) -> dict[str, str]:
    """What took too long, each time that it was tried."""
    seen: dict[str, list[str]] = {}
    for tried in range(1, TIMES + 1):
        most = await bound(here, 1.0)
        worst = await watch(here, loud, after)
        print({name: round(wait, 2) for name, wait in worst.items()}, f"at most {most:.2f}")
        for name, wait in worst.items():
            if wait > most:
                seen.setdefault(name, []).append(f"{wait:.2f} s, at most {most:.2f}")
        if all(len(each) < tried for each in seen.values()):
            return {}
    return {name: "; ".join(each) for name, each in seen.items() if len(each) == TIMES}


async def test_all_at_once(used_folder: Path, place: Path, processes: list[Process]) -> None:
    async with neighbourhood(place, used_folder, processes, scale=0.05) as here:
        assert await late(here, partial(here.loud.act, *Ways.NAMES), 2.0) == {}


@pytest.mark.slow
async def test_one_after_the_other_and_all_at_once(
    used_folder: Path, place: Path, processes: list[Process]
) -> None:
    async with neighbourhood(place, used_folder, processes, scale=1.0) as here:
        ways = {name: (name,) for name in Ways.NAMES} | {"all at once": Ways.NAMES}
        held_up: dict[str, dict[str, str]] = {}
        for name, several in ways.items():
            print(name)
            held_up[name] = await late(here, partial(here.loud.act, *several), 5.0)
        assert {name: each for name, each in held_up.items() if each} == {}
