"""A coroutine in a context of its own within the task that awaits it; that it waits is noticed once."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from timebell.engine.worker.own_context import in_own_context

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


async def test_one_that_never_waits_runs_at_once_and_nobody_is_told() -> None:
    told: list[str] = []
    seen: list[str] = []

    async def paint() -> None:
        COLOUR.set("red")
        seen.append(COLOUR.get())

    await in_own_context(paint(), lambda: told.append("waits"))
    assert seen == ["red"]
    assert COLOUR.get() == "none", "what it set ended with it"
    assert told == []


async def test_one_that_waits_is_noticed_once_and_keeps_its_context() -> None:
    told: list[str] = []
    answers: list[Any] = []

    async def paint() -> None:
        COLOUR.set("red")
        loop = asyncio.get_running_loop()
        for number in range(3):
            future = loop.create_future()
            loop.call_soon(future.set_result, number)
            answers.append((await future, COLOUR.get(), asyncio.current_task() is awaiting))

    awaiting = asyncio.current_task()
    await in_own_context(paint(), lambda: told.append("waits"))
    assert answers == [(0, "red", True), (1, "red", True), (2, "red", True)]
    assert told == ["waits"]
    assert COLOUR.get() == "none"


@pytest.mark.parametrize("waits", [False, True])
async def test_what_it_raises_comes_out(waits: bool) -> None:
    async def fail() -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await in_own_context(fail(), lambda: None)


async def test_a_cancellation_reaches_it_where_it_waits() -> None:
    ends: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            # It may still wait for something in the end.
            await asyncio.sleep(0)
            ends.append("put away")
            raise

    async def await_it() -> None:
        await in_own_context(wait(), waiting.set)

    waiting = asyncio.Event()
    awaiting = asyncio.create_task(await_it())
    await waiting.wait()
    awaiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await awaiting
    assert ends == ["cancelled", "put away"]


async def test_a_time_limit_inside_it_cancels_it_alone() -> None:
    async def hang() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()

    await in_own_context(hang(), lambda: None)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


class Objection:
    """Asked before each step; says once that there must be no more."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.asked = 0

    def __call__(self) -> asyncio.CancelledError | None:
        self.asked += 1
        return asyncio.CancelledError("no more") if self.asked == self.after + 1 else None


async def test_it_takes_no_step_that_somebody_objects_to() -> None:
    steps: list[object] = []

    async def walk() -> None:
        try:
            for number in range(5):
                await asyncio.sleep(0)
                steps.append(number)
        except asyncio.CancelledError as error:
            # Its end may take steps of its own.
            await asyncio.sleep(0)
            steps.append(error.args)
            raise

    with pytest.raises(asyncio.CancelledError):
        await in_own_context(walk(), lambda: None, Objection(after=2))
    assert steps == [0, 1, ("no more",)]


async def test_an_error_is_no_way_around_an_objection() -> None:
    """What it waited for has failed. It would try something else now, and must not."""
    steps: list[str] = []

    async def persist() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, OSError("gone"))
        try:
            await future
        except OSError:
            steps.append("tries again")

    with pytest.raises(asyncio.CancelledError):
        await in_own_context(persist(), lambda: None, Objection(after=0))
    assert steps == []


async def test_nobody_is_asked_about_one_that_never_waits() -> None:
    async def run() -> None:
        pass

    objection = Objection(after=0)
    await in_own_context(run(), lambda: None, objection)
    assert objection.asked == 0
