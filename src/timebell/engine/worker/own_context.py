"""Awaiting a coroutine in a context of its own, without the price of a task for it."""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any


@types.coroutine
def in_own_context(
    coroutine: Coroutine[Any, Any, None],
    on_wait: Callable[[], None],
    objection: Callable[[], asyncio.CancelledError | None] | None = None,
) -> Generator[Any, Any, None]:
    """Run a coroutine inside the task that awaits this: what it sets in its context ends with it.

    A task costs more than a quick handler. One that never waits needs none of its own, and whether it waits is known
    only once it does: then, once, `on_wait` is called.

    `objection` is asked whenever it is to go on after that. It is cancelled with the answer, there and then: a task
    that is cancelled from outside would still take the step that it is ready for.
    """
    run, send, throw = contextvars.copy_context().run, coroutine.send, coroutine.throw
    try:
        awaited = run(send, None)
        on_wait()
        while True:
            try:
                answer = yield awaited
            except BaseException as error:
                awaited = run(throw, (objection and objection()) or error)
            else:
                stopped = objection and objection()
                awaited = run(throw, stopped) if stopped else run(send, answer)
    except StopIteration:
        return
