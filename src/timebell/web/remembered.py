"""An answer that many ask for and that is asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Remembered(Generic[Found]):
    """What was found is good for a while. Whoever asks later waits, together with all others, for one new look."""

    def __init__(self, ask: Callable[[], Awaitable[Found]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._found: Found | None = None
        self._good_until = float("-inf")
        self._looking: asyncio.Task[Found] | None = None

    async def __call__(self) -> Found:
        if self._found is not None and asyncio.get_running_loop().time() < self._good_until:
            return self._found
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        # One of those who wait may leave, and the others wait on.
        return await asyncio.shield(self._looking)

    async def _look(self) -> Found:
        try:
            self._found = await self._ask()
            self._good_until = asyncio.get_running_loop().time() + self._seconds
            return self._found
        finally:
            self._looking = None
