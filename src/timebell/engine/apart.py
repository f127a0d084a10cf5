"""Awaiting a coroutine in a context of its own, without the price of a task for it."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class Apart:
    """Runs a coroutine inside the task that awaits this, yet apart from it: what it sets in its context ends with it.

    A task costs more than a quick handler. One that never waits needs none of its own, and whether it waits is known
    only once it does: then, once, `on_wait` is called.
    """

    __slots__ = ("_coroutine", "_on_wait")

    def __init__(self, coroutine: Coroutine[Any, Any, None], on_wait: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._on_wait = on_wait

    def __await__(self) -> Generator[Any, Any, None]:
        run, send, throw = contextvars.copy_context().run, self._coroutine.send, self._coroutine.throw
        try:
            awaited = run(send, None)
            self._on_wait()
            while True:
                try:
                    answer = yield awaited
                except BaseException as error:
                    awaited = run(throw, error)
                else:
                    awaited = run(send, answer)
        except StopIteration:
            return
