"""An event loop whose time is virtual and whose waiting for the real database is not.

Time stands still while anything real is under way. Only when nothing is left to run and nothing real is under way
does the loop ask `on_quiet` to let the next thing happen, and only when there is none does time jump to the next
timer. So the order of everything is a function of what `on_quiet` chooses.

What runs on behalf of one simulated process carries its `Life` in its context. A frozen life's callbacks are kept
aside until it thaws, as if the process had been stopped by a signal.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any

_ANSWER_SECONDS_MAX = 60.0
_GLANCE_SECONDS = 0.004
_CALLBACKS_MAX = 1_000_000
_MICROSECOND = 1e-6


class Stuck(Exception):
    """Nothing can happen any more, or the database does not answer."""


class Life:
    """One simulated process from its start to its end: its loops, and whether they go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.is_dead = False
        self.farewells = 0
        self.kept: list[asyncio.Handle] = []
        # In the order of their making; a set of tasks would have the order of their addresses.
        self.loops: dict[asyncio.Task[Any], None] = {}


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class _Timer(asyncio.TimerHandle):
    """Of two that are for one instant the first that was made comes first. A heap alone would let that depend on
    whatever else is in it, such as the deadline of a connect that another run did not need."""

    __slots__ = ("number",)

    number: int

    def __lt__(self, other: Any) -> bool:
        return (self.when(), self.number) < (other.when(), other.number)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `on_quiet` lets one more thing happen and answers whether there was one; `on_silence` is asked
    when the database has not answered for a moment, and may find that what is under way waits for another."""

    # What every loop of the standard library has, and no stub tells of.
    _ready: deque[Any]
    _scheduled: list[Any]
    _selector: selectors.BaseSelector
    _stopping: bool

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.now_us = 0
        self.under_way = 0
        self._timer_count = 0
        # What was raised where nobody listens. A cluster outlives most of it, and it is a bug all the same.
        self.bugs: list[BaseException] = []
        self.on_quiet: Callable[[], bool] = lambda: False
        self.on_silence: Callable[[], None] = lambda: None
        self.set_task_factory(_make_task)  # type: ignore[arg-type]
        self.set_exception_handler(_note_bug)

    def begin_again(self) -> None:
        """Another world begins, and nothing of the last one is left."""
        for handle in self._scheduled:
            handle._scheduled = False
        self._scheduled.clear()
        left = [each for each in asyncio.all_tasks(self) if not each.done()]
        if self._ready or left or self.under_way:
            raise Stuck(f"something is left of the last world: {left or self._ready}")
        self.now_us = 0
        self.bugs = []

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.number = self._timer_count = self._timer_count + 1
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def time(self) -> float:
        return self.now_us / 1_000_000

    def note_end(self, ended: asyncio.Task[Any]) -> None:
        """The end of something that nobody awaits."""
        if not ended.cancelled() and (error := ended.exception()) is not None:
            self.bugs.append(error)

    def thaw(self, life: Life) -> None:
        life.is_frozen = False
        self._ready.extend(life.kept)
        life.kept.clear()

    def _run_once(self) -> None:
        for _ in range(_CALLBACKS_MAX):
            if not self._ready:
                break
            self._run(self._ready.popleft())
            if self._stopping:
                return
        else:
            raise Stuck("somebody never waits")
        if self.under_way:
            self._await_database()
        elif not self.on_quiet() and not self._ready and not self.under_way:
            self._jump()

    def _run(self, handle: Any) -> None:
        if handle._cancelled:
            return
        life = handle._context.get(LIFE)
        if life is not None and life.is_frozen:
            life.kept.append(handle)
        else:
            handle._run()

    def _await_database(self) -> None:
        began = time.monotonic()
        while not (events := self._selector.select(_GLANCE_SECONDS)):
            if time.monotonic() - began > _ANSWER_SECONDS_MAX:
                raise Stuck("the database does not answer")
            self.on_silence()
            if not self.under_way:
                return
        self._process_events(events)  # type: ignore[attr-defined]

    def _jump(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            raise Stuck("nothing is left that could happen")
        # Rounded up, so that nobody is woken before the time.
        when = -int(-self._scheduled[0].when() * 1_000_000 // 1)
        self.now_us = max(self.now_us, when)
        end = self.time() + _MICROSECOND / 2
        while self._scheduled and self._scheduled[0].when() <= end:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._ready.append(handle)


def _note_bug(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, VirtualLoop)
    loop.bugs.append(context.get("exception") or RuntimeError(context["message"]))


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    made = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is not None:
        life.loops[made] = None
        # Whoever began it may be another process, and frozen when it ends.
        made.add_done_callback(lambda ended: life.loops.pop(ended, None), context=Context())
    return made
