"""An answer that many ask for and that is asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Shared(Generic[Found]):
    """One look at a time: whoever asks while one is under way waits for it together with all others."""

    def __init__(self, ask: Callable[[], Awaitable[Found]]) -> None:
        self._ask = ask
        self._looking: asyncio.Task[Found] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._looking is not None

    def begin(self) -> asyncio.Task[Found]:
        """The look that is under way, or a new one, for who does not wait for it."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            # All who waited may have left, and a failure that nobody hears of is no fault.
            self._looking.add_done_callback(lambda look: look.cancelled() or look.exception())
        return self._looking

    async def __call__(self) -> Found:
        # One of those who wait may leave, and the others wait on.
        return await asyncio.shield(self.begin())

    async def _look(self) -> Found:
        try:
            return await self._ask()
        finally:
            self._looking = None


class Remembered(Generic[Found]):
    """What was found is good for a while. Whoever asks later waits, together with all others, for one new look."""

    def __init__(self, ask: Callable[[], Awaitable[Found]], seconds: float) -> None:
        self._ask = ask
        self._look = Shared(self._renew)
        self._seconds = seconds
        self._found: Found | None = None
        self._good_until = float("-inf")

    async def __call__(self) -> Found:
        if self._found is not None and asyncio.get_running_loop().time() < self._good_until:
            return self._found
        return await self._look()

    async def _renew(self) -> Found:
        self._found = await self._ask()
        self._good_until = asyncio.get_running_loop().time() + self._seconds
        return self._found
