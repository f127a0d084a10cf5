"""Calls that arrive together share one statement."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

One = TypeVar("One")
Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class _Certain(asyncio.Future[Answered]):
    """Whoever waits for it and is cancelled meanwhile hears of that when it is there, and not before."""

    def cancel(self, msg: Any = None) -> bool:
        return False


class Gathering(Generic[One]):
    """Gathers what comes while an earlier batch is under way, and has all of it handled at once.

    Whoever comes alone waits for nobody. `handle` raises nothing but what ends the process; `end` is called with what
    is not handled because of that.
    """

    def __init__(
        self,
        handle: Callable[[list[One]], Awaitable[None]],
        end: Callable[[Iterable[One]], None],
        *,
        most: int = 500,
    ) -> None:
        self._handle = handle
        self._end = end
        self._most = most
        self._waiting: deque[One] = deque()
        self._current: asyncio.Task[None] | None = None

    def add(self, one: One) -> None:
        self._waiting.append(one)
        if self._current is None:
            self._current = asyncio.create_task(self._go_on())
            self._current.add_done_callback(self._over)

    def _over(self, current: asyncio.Task[None]) -> None:
        """Whoever is cancelled before the first step never takes one, and could not say so."""
        if self._current is current:
            self._current = None
            self._end_all()

    async def _go_on(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                await self._handle(
                    [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                )
        except BaseException:
            # The process ends: nobody will ask for the others.
            self._end_all()
            raise
        finally:
            self._current = None

    async def _gather(self) -> None:
        """As long as a turn of the loop brings more, the next one may: handlers that start together come one a turn."""
        count = 0
        while count < len(self._waiting) < self._most:
            count = len(self._waiting)
            await asyncio.sleep(0)

    def _end_all(self) -> None:
        self._end(self._waiting)
        self._waiting.clear()


class Together(Generic[Asked, Answered]):
    """Asks for what was gathered, all of it at once, and gives each its answer.

    A batch that fails is asked again one by one, so that nobody bears the fault of another; unless it is one of
    `unsure`, after which it may have been done all the same, and must not be done twice.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Asked]], Awaitable[Sequence[Answered]]],
        *,
        most: int = 500,
        unsure: tuple[type[Exception], ...] = (),
    ) -> None:
        self._run = run
        self._unsure = unsure
        self._gathering: Gathering[tuple[Asked, asyncio.Future[Answered]]] = Gathering(
            self._ask_waiting, self._end, most=most
        )

    def ask(self, asked: Asked) -> asyncio.Future[Answered]:
        """The answer to come, which is asked for whatever becomes of those who wait for it. A cancellation reaches them
        when it is there: a statement may be committed all the same."""
        return self._add(asked, _Certain(loop=asyncio.get_running_loop()))

    async def __call__(self, asked: Asked) -> Answered:
        return await self._add(asked, asyncio.get_running_loop().create_future())

    def _add(self, asked: Asked, answer: asyncio.Future[Answered]) -> asyncio.Future[Answered]:
        self._gathering.add((asked, answer))
        return answer

    async def _ask_waiting(self, batch: Sequence[tuple[Asked, asyncio.Future[Answered]]]) -> None:
        # Whoever gave up waiting, as a cancelled handler does, is not asked for.
        await self._ask([one for one in batch if not one[1].done()])

    async def _ask(self, batch: Sequence[tuple[Asked, asyncio.Future[Answered]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._run([asked for asked, _ in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, self._unsure):
                await self._ask_each(batch)
                return
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
                    # Whoever was cancelled meanwhile does not look at it.
                    answer.exception()
            return
        except BaseException:
            self._end(batch)
            raise
        for (_, answer), answered in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(answered)

    async def _ask_each(self, batch: Sequence[tuple[Asked, asyncio.Future[Answered]]]) -> None:
        try:
            for one in batch:
                await self._ask([one])
        except BaseException:
            self._end(batch)
            raise

    def _end(self, batch: Iterable[tuple[Asked, asyncio.Future[Answered]]]) -> None:
        for _, answer in batch:
            asyncio.Future.cancel(answer)
