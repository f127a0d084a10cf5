"""Work that takes a while and has no part in a transaction: how much of it is done at once, and whose.

Reading what strangers send and rendering what they wrote costs processor time that nothing gives back. On the loop it
is done in turns: so much in one turn, and then everything else that the process does goes on. What takes longer than a
turn goes to a thread, which cannot be ended from outside, so what is given to one is bounded by itself. In both,
tenants take their turns one after the other, so that whoever asks for little is not behind all that another asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from timebell.errors import InvalidInput, TooManyAtOnce

# Processor time for work of this sort in one turn of the loop. More tenants than one share it.
TURN_SECONDS: Final = 0.01

T = TypeVar("T")


@dataclass(slots=True)
class _Asked(Generic[T]):
    what: str
    work: Callable[[], T]
    answer: asyncio.Future[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How much of one sort of work waits in one place and is under way there."""

    place: str
    what: str
    waiting: int
    running: int


class Waiting(Protocol):
    """Something asked for, and where the answer to it goes."""

    @property
    def answer(self) -> asyncio.Future[Any]: ...


W = TypeVar("W", bound=Waiting)


class Line(Generic[W]):
    """What is waiting, tenant by tenant. Whoever gave up waiting is passed over."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, deque[W]] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        return not self._asked

    def add(self, tenant: str, asked: W) -> None:
        self._asked.setdefault(tenant, deque()).append(asked)

    def __iter__(self) -> Iterator[W]:
        return (one for line in self._asked.values() for one in line if not one.answer.done())

    def count(self, tenant: str) -> int:
        return sum(not one.answer.done() for one in self._asked.get(tenant, ()))

    def take(self, may_take: Callable[[str], bool] = lambda _: True) -> tuple[str, W] | None:
        """The next of the tenant whose turn it is, who then stands last."""
        for tenant in list(self._asked):
            if not may_take(tenant):
                continue
            waiting = self._asked.pop(tenant)
            found = next((one for one in _taken(waiting) if not one.answer.done()), None)
            if waiting:
                self._asked[tenant] = waiting
            if found is not None:
                return tenant, found
        return None


def _taken(waiting: deque[W]) -> Iterator[W]:
    while waiting:
        yield waiting.popleft()


class _Seen:
    """What sorts of work a place has had, so that none of them is left out while there is none of it."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.running: Counter[str] = Counter()

    def add(self, what: str) -> None:
        self.running[what] += 0

    def figures(self, line: Line[_Asked[Any]]) -> list[Figure]:
        waiting = Counter(asked.what for asked in line)
        return [
            Figure(place=self._place, what=what, waiting=waiting[what], running=running)
            for what, running in sorted(self.running.items())
        ]


class Turns:
    """Short work on the loop itself: as much in one turn of it as the budget allows, and the rest in the next ones."""

    def __init__(self, *, seconds: float = TURN_SECONDS) -> None:
        self._seen = _Seen("turns")
        self._seconds = seconds
        self._line: Line[_Asked[Any]] = Line()
        self._spent = 0.0
        self._is_next_planned = False

    async def run(self, tenant: str, what: str, work: Callable[[], T]) -> T:
        """What the work answers; `what` says of which sort it is, for those who watch the process."""
        self._seen.add(what)
        if self._line.is_empty and self._spent < self._seconds:
            return self._timed(work)
        asked: _Asked[T] = _Asked(what, work, asyncio.get_running_loop().create_future())
        self._line.add(tenant, asked)
        self._plan_next()
        return await asked.answer

    def figures(self) -> list[Figure]:
        return self._seen.figures(self._line)

    def _timed(self, work: Callable[[], T]) -> T:
        self._plan_next()
        began = time.thread_time()
        try:
            return work()
        finally:
            self._spent += time.thread_time() - began

    def _plan_next(self) -> None:
        if not self._is_next_planned:
            self._is_next_planned = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """A turn of the loop has ended. Those who waited come first in the next."""
        self._is_next_planned = False
        self._spent = 0.0
        while self._spent < self._seconds and (taken := self._line.take()) is not None:
            _, asked = taken
            try:
                answered = self._timed(asked.work)
            except BaseException as error:
                asked.answer.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                asked.answer.set_result(answered)


class Threads:
    """Longer work in a few threads of its own, of which one tenant never has all where there are several."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._seen = _Seen(name)
        self._count = count
        self._line: Line[_Asked[Any]] = Line()
        self._running: Counter[str] = Counter()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False

    async def run(self, tenant: str, what: str, work: Callable[[], T], *, most: int | None = None) -> T:
        """What the work, of the sort `what`, answers. `most`: a tenant that has so many under way and waiting is
        refused."""
        self._seen.add(what)
        if self._is_closed:
            raise RuntimeError("the bell that these threads belong to is closed")
        if most is not None and self._running[tenant] + self._line.count(tenant) >= most:
            raise TooManyAtOnce(f"{most} of these are under way for this tenant; wait for one to end")
        asked: _Asked[T] = _Asked(what, work, asyncio.get_running_loop().create_future())
        self._line.add(tenant, asked)
        self._start()
        return await asked.answer

    def figures(self) -> list[Figure]:
        return self._seen.figures(self._line)

    def close(self) -> None:
        """What waits is not begun any more; what runs comes to its end."""
        self._is_closed = True
        while (taken := self._line.take()) is not None:
            taken[1].answer.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    def _start(self) -> None:
        while (
            not self._is_closed
            and self._running.total() < self._count
            and (taken := self._line.take(self._may_run)) is not None
        ):
            tenant, asked = taken
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count, thread_name_prefix=f"timebell-{self._name}")
            self._running[tenant] += 1
            self._seen.running[asked.what] += 1
            loop = asyncio.get_running_loop()
            try:
                running = self._pool.submit(asked.work)
            except RuntimeError as error:
                # The system lets this process have no more threads.
                self._leave(tenant, asked.what)
                asked.answer.set_exception(error)
                continue
            running.add_done_callback(partial(self._hand_over, loop, tenant, asked))

    def _may_run(self, tenant: str) -> bool:
        return self._running[tenant] < max(1, self._count - 1)

    def _hand_over(
        self, loop: asyncio.AbstractEventLoop, tenant: str, asked: _Asked[Any], done: Future[Any]
    ) -> None:
        """Called in the thread. A loop that ended meanwhile has nobody left who waits."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._end, tenant, asked, done)

    def _leave(self, tenant: str, what: str) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._seen.running[what] -= 1

    def _end(self, tenant: str, asked: _Asked[Any], done: Future[Any]) -> None:
        self._leave(tenant, asked.what)
        if not asked.answer.done():
            if done.cancelled():
                asked.answer.cancel()
            elif (error := done.exception()) is not None:
                asked.answer.set_exception(error)
            else:
                asked.answer.set_result(done.result())
        self._start()


class Aside:
    """The places for such work, one of each in a bell: `turns` for what takes less than a turn of the loop, `short` for
    fractions of a second, `long` for what may take seconds."""

    def __init__(self) -> None:
        self.turns = Turns()
        # Python runs one thread at a time: a second one would take the time from the loop and not from the first.
        self.short = Threads("short", 1)
        self.long = Threads("long", 2)

    def figures(self) -> list[Figure]:
        return [*self.turns.figures(), *self.short.figures(), *self.long.figures()]

    def close(self) -> None:
        self.short.close()
        self.long.close()


class ProcessorLimit:
    """Ends what goes on for too long, wherever it looks. Rules know no clock, so they are handed this."""

    def __init__(self, seconds: float, *, field: str, looks: int = 100) -> None:
        self._seconds = seconds
        self._field = field
        self._looks = looks
        self._count = 0
        self._began = time.thread_time()

    def __call__(self) -> None:
        """Looks at the time at every so many calls."""
        self._count += 1
        if self._count % self._looks == 0 and time.thread_time() - self._began > self._seconds:
            raise InvalidInput(
                f"takes more than {self._seconds:g} s of processor time to read; send less of it",
                field=self._field,
            )
