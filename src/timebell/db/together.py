"""Calls that arrive together share one statement."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class _Certain(asyncio.Future[Answered]):
    """Whoever waits for it and is cancelled meanwhile hears of that when it is there, and not before."""

    def cancel(self, msg: Any = None) -> bool:
        return False


class Together(Generic[Asked, Answered]):
    """Gathers what is asked while an earlier batch is under way, and asks for all of it at once.

    Whoever asks alone waits for nobody. A batch that fails is asked again one by one, so that nobody bears the fault of
    another; unless it is one of `unsure`, after which it may have been done all the same, and must not be done twice.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Asked]], Awaitable[Sequence[Answered]]],
        *,
        most: int = 500,
        unsure: tuple[type[Exception], ...] = (),
    ) -> None:
        self._run = run
        self._most = most
        self._unsure = unsure
        self._waiting: deque[tuple[Asked, asyncio.Future[Answered]]] = deque()
        self._current: asyncio.Task[None] | None = None

    def ask(self, asked: Asked) -> asyncio.Future[Answered]:
        """The answer to come, which is asked for whatever becomes of those who wait for it. A cancellation reaches them
        when it is there: a statement may be committed all the same."""
        return self._add(asked, _Certain(loop=asyncio.get_running_loop()))

    async def __call__(self, asked: Asked) -> Answered:
        return await self._add(asked, asyncio.get_running_loop().create_future())

    def _add(self, asked: Asked, answer: asyncio.Future[Answered]) -> asyncio.Future[Answered]:
        self._waiting.append((asked, answer))
        if self._current is None:
            self._current = asyncio.create_task(self._go_on())
            self._current.add_done_callback(self._over)
        return answer

    def _over(self, current: asyncio.Task[None]) -> None:
        """Whoever is cancelled before the first step never takes one, and could not say so."""
        if self._current is current:
            self._current = None
            self._end(self._waiting)
            self._waiting.clear()

    async def _go_on(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                # Whoever gave up waiting, as a cancelled handler does, is not asked for.
                await self._ask([one for one in batch if not one[1].done()])
        except BaseException:
            # The process ends: nobody will ask for the others.
            self._end(self._waiting)
            self._waiting.clear()
            raise
        finally:
            self._current = None

    async def _gather(self) -> None:
        """As long as a turn of the loop brings more, the next one may: handlers that start together come one a turn."""
        count = 0
        while count < len(self._waiting) < self._most:
            count = len(self._waiting)
            await asyncio.sleep(0)

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
