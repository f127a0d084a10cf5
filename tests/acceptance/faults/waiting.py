"""Waiting for what happens in other processes, which no clock of ours can move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

_POLL_SECONDS = 0.02


async def until(is_so: Callable[[], bool | Awaitable[bool]], seconds: float, what: str) -> None:
    """Ask again and again, without holding up our own loop, and give up in words."""
    deadline = time.monotonic() + seconds
    while True:
        answer = is_so()
        if answer if isinstance(answer, bool) else await answer:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        await asyncio.sleep(_POLL_SECONDS)
