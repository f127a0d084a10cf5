"""The activities that go on beside a tick, each listed and bounded, so that nothing runs unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from timebell.clock import Clock
from timebell.db.failures import DATABASE_ERRORS
from timebell.engine.node.outages import Outages
from timebell.logs import Logger

log = Logger("timebell.engine")

_PAUSE_SECONDS = 0.2


class Background:
    """Lets activities go on beside the tick; of each kind at most so many at once."""

    def __init__(self, clock: Clock, woken: asyncio.Event) -> None:
        self._clock = clock
        self._woken = woken
        self._counts: dict[str, int] = {}
        self.outages = Outages(clock.monotonic)
        self.going_on: set[asyncio.Task[None]] = set()

    def is_free(self, activity: str, most: int = 1) -> bool:
        return self._counts.get(activity, 0) < most

    def begin(self, activity: str, work: Callable[[], Awaitable[None]], *, most: int = 1) -> bool:
        """Begin, unless enough of this kind go on already. Wakes the loop when it ends."""
        if not self.is_free(activity, most):
            return False
        self._counts[activity] = self._counts.get(activity, 0) + 1
        going = asyncio.create_task(self._run(activity, work))
        self.going_on.add(going)
        going.add_done_callback(self.going_on.discard)
        return True

    async def _run(self, activity: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except DATABASE_ERRORS as error:
            self.outages.away(error, doing=activity)
            await self._clock.sleep(_PAUSE_SECONDS)
        except Exception:
            log.exception("an activity failed", activity=activity)
            await self._clock.sleep(_PAUSE_SECONDS)
        finally:
            self._counts[activity] -= 1
            self._woken.set()
