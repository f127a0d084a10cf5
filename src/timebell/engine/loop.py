"""The one runner of all loops: it ticks, waits, is woken, outlives the database's absences, and stops when told."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

from timebell.clock import Chance
from timebell.db.failures import DATABASE_ERRORS
from timebell.engine.node.outages import Outages
from timebell.logs import Logger

log = Logger("timebell.loop")

_AWAY_SECONDS_MIN = 0.1
_AWAY_SECONDS_MAX = 1.0


class Loop:
    """Repeats one bounded `tick`, which answers in how many seconds it wants to be called again."""

    def __init__(
        self,
        name: str,
        tick: Callable[[], Awaitable[float]],
        *,
        chance: Chance,
        outages: Outages,
        woken: asyncio.Event | None = None,
        grid_seconds: float = 0.001,
    ) -> None:
        self.name = name
        self.tick_count = 0
        self.is_well = True
        # When the last pass ended, in the time of the event loop; None before it goes on by itself.
        self.passed: float | None = None
        self._tick = tick
        self._chance = chance
        self._outages = outages
        self._woken = woken or asyncio.Event()
        self._grid_seconds = grid_seconds
        self._is_stopping = False

    async def run(self) -> None:
        away_seconds = _AWAY_SECONDS_MIN
        elapsed = asyncio.get_running_loop().time
        self.passed = elapsed()
        while not self._is_stopping:
            self._woken.clear()
            try:
                wait = await self._tick()
                self.tick_count += 1
                self.passed = elapsed()
                if not self.is_well:
                    self._outages.back()
                    self.is_well, away_seconds = True, _AWAY_SECONDS_MIN
            except DATABASE_ERRORS as error:
                self.is_well = False
                self._outages.away(error, doing=self.name)
                # Jittered, so that the nodes of a cluster do not all come back at one instant.
                wait = away_seconds * (0.5 + self._chance.fraction())
                away_seconds = min(2 * away_seconds, _AWAY_SECONDS_MAX)
            except Exception:
                # Inside somebody's own program nobody waits for the loop, and this is all that they hear.
                log.exception("a loop failed, and has ended", loop=self.name)
                raise
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        # Handlers get their turn even where the loop itself would never pause.
        await asyncio.sleep(0)
        if seconds <= 0 or self._woken.is_set():
            return
        # Waking for every job alone costs more than running it: wake-ups share a grid.
        seconds = math.ceil(seconds / self._grid_seconds) * self._grid_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    def stop(self) -> None:
        self._is_stopping = True
        self._woken.set()
