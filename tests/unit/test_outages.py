"""An outage is told when it begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

import asyncio
import logging

import pytest

from timebell.clock import Chance, ManualClock
from timebell.engine.loop import Loop
from timebell.engine.node.outages import Outages
from timebell.engine.worker.background import Background

AWAY = "the database is away"


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "timebell")
    return caplog


async def test_a_loop_tells_of_an_outage_and_of_its_end_and_not_of_every_try(
    told: pytest.LogCaptureFixture,
) -> None:
    now, tries = 0.0, 0

    async def tick() -> float:
        nonlocal now, tries
        now, tries = now + 1.0, tries + 1
        if tries <= 25:
            raise ConnectionRefusedError("nobody listens")
        loop.stop()
        return 0.0

    # Whoever is woken does not wait.
    woken = asyncio.Event()
    loop = Loop("sweep", tick, chance=Chance(), outages=Outages(lambda: now), woken=woken)
    running = asyncio.create_task(loop.run())
    while not running.done():
        woken.set()
        await asyncio.sleep(0)
    assert loop.is_well
    away = [words for words in told.messages if AWAY in words]
    assert away == [f"{AWAY} doing=sweep error='nobody listens'"] * 3
    assert told.messages[-1] == "the database answers again"
    assert len(told.messages) == 4


async def test_each_activity_tells_of_it_by_itself(told: pytest.LogCaptureFixture) -> None:
    background = Background(ManualClock(), asyncio.Event())

    async def fail() -> None:
        raise TimeoutError

    for _ in range(5):
        for activity in ("read", "settle"):
            background.begin(activity, fail)
        await asyncio.gather(*background.going_on)
    assert told.messages == [f"{AWAY} doing={activity} error=TimeoutError" for activity in ("read", "settle")]


def test_the_next_outage_is_told_at_once(told: pytest.LogCaptureFixture) -> None:
    outages = Outages(lambda: 0.0)
    for _ in range(2):
        outages.away(OSError("gone"), doing="node")
        outages.back()
        outages.back()
    assert len(told.messages) == 4
