"""The threads in which handlers run that are plain functions: one is had before the last questions are asked."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class Threads:
    """As many as the settings say. One that is in use is in use until its function has ended, whoever waits for it."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="timebell")
        self._free = asyncio.Semaphore(count)

    @property
    def is_full(self) -> bool:
        return self._free.locked()

    async def acquire(self) -> None:
        await self._free.acquire()

    def release(self) -> None:
        """It was had and is not needed after all."""
        self._free.release()

    async def run(
        self, on_end: Callable[[], None], function: Callable[..., Answer], *arguments: Any
    ) -> Answer:
        """Run in the thread that was acquired. It begins at once, and a cancellation does not end it."""
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        is_wanted = True

        def work() -> Answer:
            if not is_wanted:
                raise RuntimeError("it was given up before it began")
            return context.run(function, *arguments)

        def is_free() -> None:
            self._free.release()
            on_end()

        def ended(_: Future[Answer]) -> None:
            # At the end of the process the loop may be gone before the thread.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(is_free)

        try:
            running = self._pool.submit(work)
        except BaseException:
            # Where the system has no thread for it, the pool still keeps it for the next one that it gets.
            is_wanted = False
            is_free()
            raise
        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
