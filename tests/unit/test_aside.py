"""Work beside the loop: nobody's is behind all of another's, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from timebell.errors import InvalidInput, TooManyAtOnce
from timebell.kernel.aside import Aside, ProcessorLimit, Threads, Turns


def burn(seconds: float) -> None:
    """Use processor time, however busy the machine is."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class LoopTurns:
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.count = 0
        self._go_on()

    def _go_on(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._go_on)


async def test_the_loop_turns_between_works_and_not_after_all_of_them() -> None:
    """A hundred at once, as a read of many facts wakes them, are spread over many turns."""
    turns, seen = Turns(seconds=0.005), LoopTurns()
    at: list[int] = []

    def work() -> None:
        burn(0.002)
        at.append(seen.count)

    await asyncio.gather(*(turns.run("a", "test", work) for _ in range(100)))
    assert max(at.count(turn) for turn in set(at)) <= 3


async def test_what_is_quick_is_done_in_the_turn_in_which_it_was_asked_for() -> None:
    turns, seen = Turns(), LoopTurns()
    before = seen.count
    assert await turns.run("a", "test", lambda: 7) == 7
    assert seen.count == before


async def test_on_the_loop_tenants_take_turns() -> None:
    turns, order = Turns(seconds=0.001), list[str]()

    def work(tenant: str) -> Callable[[], None]:
        def run() -> None:
            burn(0.002)
            order.append(tenant)

        return run

    await asyncio.gather(*(turns.run(name, "test", work(name)) for name in "aaaaaaaaaab"))
    assert order.index("b") <= 2


async def test_on_the_loop_a_failure_is_its_own_and_whoever_gave_up_is_passed_over() -> None:
    turns, done = Turns(seconds=0.001), list[int]()
    first = asyncio.ensure_future(turns.run("a", "test", lambda: burn(0.002)))
    failing = asyncio.ensure_future(turns.run("a", "test", lambda: 1 // 0))
    given_up = asyncio.ensure_future(turns.run("a", "test", lambda: done.append(1)))
    last = asyncio.ensure_future(turns.run("a", "test", lambda: done.append(2)))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(ZeroDivisionError):
        await failing
    await asyncio.gather(first, last)
    assert done == [2]


class Gate:
    """Work in a thread that ends when it is let go."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.has_begun = threading.Event()
        self._may_end = threading.Event()

    def work(self, name: str) -> Callable[[], str]:
        def run() -> str:
            self.order.append(name)
            self.has_begun.set()
            assert self._may_end.wait(30)
            return name

        return run

    def open(self) -> None:
        self._may_end.set()


@pytest_asyncio.fixture
async def gate() -> AsyncIterator[Gate]:
    made = Gate()
    yield made
    made.open()


async def test_in_threads_one_tenant_never_has_all_and_the_others_are_next(gate: Gate) -> None:
    threads = Threads("test", 2)
    running = [asyncio.ensure_future(threads.run("a", "test", gate.work("a"))) for _ in range(5)]
    await asyncio.sleep(0)
    # A thread is free for somebody else, whatever the first has waiting.
    other = asyncio.ensure_future(threads.run("b", "test", lambda: "b"))
    assert await asyncio.wait_for(other, 30) == "b"
    assert await asyncio.to_thread(gate.has_begun.wait, 30)
    assert gate.order == ["a"]
    late = asyncio.ensure_future(threads.run("b", "test", gate.work("b")))
    gate.open()
    assert await late == "b"
    assert await asyncio.gather(*running) == ["a"] * 5
    threads.close()


async def test_in_threads_whoever_has_most_is_refused_and_whoever_gave_up_makes_room(gate: Gate) -> None:
    threads = Threads("test", 1)
    running = asyncio.ensure_future(threads.run("a", "test", gate.work("a"), most=2))
    waiting = asyncio.ensure_future(threads.run("a", "test", gate.work("a"), most=2))
    await asyncio.sleep(0)
    with pytest.raises(TooManyAtOnce, match="wait for one to end"):
        await threads.run("a", "test", gate.work("a"), most=2)
    other = asyncio.ensure_future(threads.run("b", "test", gate.work("b"), most=2))
    waiting.cancel()
    await asyncio.sleep(0)
    again = asyncio.ensure_future(threads.run("a", "test", gate.work("again"), most=2))
    await asyncio.sleep(0)
    gate.open()
    assert (await running, await other, await again) == ("a", "b", "again")
    assert gate.order.count("a") == 1
    threads.close()


async def test_in_threads_nothing_is_begun_once_they_are_closed(gate: Gate) -> None:
    threads = Threads("test", 1)
    running = asyncio.ensure_future(threads.run("a", "test", gate.work("a")))
    waiting = asyncio.ensure_future(threads.run("a", "test", gate.work("b")))
    await asyncio.sleep(0)
    threads.close()
    gate.open()
    assert await running == "a"
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(RuntimeError, match="closed"):
        await threads.run("a", "test", gate.work("c"))
    assert gate.order == ["a"]


async def test_in_threads_a_failure_is_its_own() -> None:
    threads = Threads("test", 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run("a", "test", lambda: 1 // 0)
    assert await threads.run("a", "test", lambda: 1) == 1
    threads.close()


async def test_where_the_system_has_no_thread_no_place_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads("test", 1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                await asyncio.wait_for(threads.run("a", "test", lambda: 1), 30)
    assert await asyncio.wait_for(threads.run("a", "test", lambda: 2), 30) == 2
    threads.close()


def test_a_limit_of_processor_time_ends_what_goes_on() -> None:
    limit = ProcessorLimit(0.01, field="ics", looks=1)
    limit()
    burn(0.02)
    with pytest.raises(InvalidInput, match=r"ics: takes more than 0.01 s of processor time"):
        limit()


async def test_what_waits_and_what_runs_is_counted_by_what_it_is_for() -> None:
    aside, goes_on = Aside(), threading.Event()
    running = asyncio.create_task(aside.short.run("a", "mail", goes_on.wait))
    waiting = [asyncio.create_task(aside.short.run("b", what, int)) for what in ("mail", "texts", "texts")]
    await aside.turns.run("a", "texts", int)
    await asyncio.sleep(0)
    waiting[2].cancel()
    await asyncio.sleep(0)
    try:
        assert [(one.place, one.what, one.waiting, one.running) for one in aside.figures()] == [
            ("turns", "texts", 0, 0),
            ("short", "mail", 1, 1),
            ("short", "texts", 1, 0),
        ]
    finally:
        goes_on.set()
    await asyncio.gather(running, *waiting, return_exceptions=True)
    assert {(one.waiting, one.running) for one in aside.figures()} == {(0, 0)}
    aside.close()
