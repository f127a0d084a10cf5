"""The addresses of hosts whose names strangers gave, asked of the system.

A look-up of the system cannot be given up, only left, and a stranger's name may hang for half a minute. So each is made
in a thread that nobody else waits for: those who asked are let go at a deadline, and the thread gives up its place then
and goes on counting against the tenant whose name it was. A name that hung or failed is not asked again for a while.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from queue import SimpleQueue
from typing import Final

from timebell.kernel.aside import Line

# How long anybody waits, for a place and for the answer.
SECONDS_MAX: Final = 5.0
# Under way and not late, for all; under way, late or not, for one tenant; and threads in all.
PLACES: Final = 16
PLACES_OF_ONE: Final = 8
THREADS_MAX: Final = 256
FAILED_SECONDS: Final = 5.0
HUNG_SECONDS: Final = 30.0
_REMEMBERED_MAX: Final = 10_000

Answer = asyncio.Future[Sequence[str]]
LookUp = Callable[[str], Sequence[str]]


@dataclass(slots=True)
class _Asked:
    host: str
    answer: Answer


@dataclass(slots=True)
class _UnderWay:
    tenant: str
    waiting: list[Answer] = field(default_factory=list)
    is_late: bool = False
    deadline: asyncio.TimerHandle | None = None


class LookUps:
    """Whoever asks is answered, or let go with an OSError within `seconds`. What hangs holds up its own tenant."""

    def __init__(self, look_up: LookUp | None = None, *, seconds: float = SECONDS_MAX) -> None:
        self._look_up = look_up or _ask_system
        self._seconds = seconds
        self._threads = _Threads()
        self._line: Line[_Asked] = Line()
        self._under_way: dict[str, _UnderWay] = {}
        self._of: Counter[str] = Counter()
        self._late_count = 0
        self._refused: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def __call__(self, tenant: str, host: str) -> Sequence[str]:
        if _is_address(host):
            return [host]
        loop = asyncio.get_running_loop()
        until, reason = self._refused.get(host, (0.0, ""))
        if loop.time() < until:
            raise _failure(reason)
        asked = _Asked(host, loop.create_future())
        self._line.add(tenant, asked)
        self._start()
        try:
            async with asyncio.timeout(self._seconds):
                return await asked.answer
        except TimeoutError:
            raise _failure("it was not resolved in time") from None

    def close(self) -> None:
        self._threads.close()

    def _start(self) -> None:
        """Begin what there is room for; a name that is under way already is asked for once."""
        while self._has_room and (taken := self._line.take(self._may_ask)) is not None:
            tenant, asked = taken
            known = self._under_way.get(asked.host)
            if known is not None and known.is_late:
                asked.answer.set_exception(_failure("it hangs"))
            elif known is not None:
                known.waiting.append(asked.answer)
            else:
                self._begin(tenant, asked)

    @property
    def _has_room(self) -> bool:
        return len(self._under_way) - self._late_count < PLACES and len(self._under_way) < THREADS_MAX

    def _may_ask(self, tenant: str) -> bool:
        return self._of[tenant] < PLACES_OF_ONE

    def _begin(self, tenant: str, asked: _Asked) -> None:
        loop = asyncio.get_running_loop()
        one = self._under_way[asked.host] = _UnderWay(tenant, [asked.answer])
        one.deadline = loop.call_later(self._seconds, self._let_go, asked.host, one)
        self._of[tenant] += 1
        try:
            self._threads.do(partial(self._ask, loop, asked.host, one))
        except RuntimeError:
            # The system lets this process have no more of them; nobody would ever say that it has ended.
            self._over(asked.host, one, _failure("there is no thread for it"))

    def _ask(self, loop: asyncio.AbstractEventLoop, host: str, one: _UnderWay) -> None:
        """In a thread. A loop that has ended has nobody left who waits."""
        found: Sequence[str] | OSError
        try:
            found = self._look_up(host)
        except (OSError, UnicodeError) as error:
            found = error if isinstance(error, OSError) else _failure("it is no name of a host")
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._answered, host, one, found)

    def _let_go(self, host: str, one: _UnderWay) -> None:
        """It takes too long. Those who wait are answered, and its place is somebody else's."""
        one.is_late = True
        self._late_count += 1
        self._refuse(host, HUNG_SECONDS, "it hangs")
        self._answer(one, _failure("it was not resolved in time"))
        self._start()

    def _answered(self, host: str, one: _UnderWay, found: Sequence[str] | OSError) -> None:
        self._threads.rest()
        self._over(host, one, found)
        self._start()

    def _over(self, host: str, one: _UnderWay, found: Sequence[str] | OSError) -> None:
        assert one.deadline is not None
        one.deadline.cancel()
        del self._under_way[host]
        self._late_count -= one.is_late
        self._of[one.tenant] -= 1
        if not self._of[one.tenant]:
            del self._of[one.tenant]
        if isinstance(found, OSError):
            self._refuse(host, FAILED_SECONDS, str(found))
        else:
            self._refused.pop(host, None)
        self._answer(one, found)

    def _refuse(self, host: str, seconds: float, reason: str) -> None:
        self._refused[host] = (asyncio.get_running_loop().time() + seconds, reason)
        self._refused.move_to_end(host)
        if len(self._refused) > _REMEMBERED_MAX:
            self._refused.popitem(last=False)

    @staticmethod
    def _answer(one: _UnderWay, found: Sequence[str] | OSError) -> None:
        for answer in one.waiting:
            if answer.done():
                continue
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)
        one.waiting.clear()


class _Threads:
    """As many as have something to do, and some that rest. None keeps the process from ending."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._resting_count = 0

    def do(self, work: Callable[[], None]) -> None:
        if self._resting_count:
            self._resting_count -= 1
        else:
            threading.Thread(target=self._run, name="timebell-resolver", daemon=True).start()
        self._work.put(work)

    def rest(self) -> None:
        """One of them has done its work."""
        if self._resting_count < PLACES:
            self._resting_count += 1
        else:
            self._work.put(None)

    def close(self) -> None:
        for _ in range(THREADS_MAX):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _failure(reason: str) -> OSError:
    return socket.gaierror(socket.EAI_AGAIN, reason)


def _ask_system(host: str) -> Sequence[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))
