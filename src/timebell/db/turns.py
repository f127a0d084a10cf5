"""Whose turn it is: a few places that many tenants want, so that none of them has all.

A pool serves whoever asked first. One tenant that asks for much at once would have every connection of it, and
everybody else would wait for as long as that tenant's statements take.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from timebell.errors import TooManyAtOnce

# For each place that a tenant may have, so many of its requests may wait for one.
_WAITING_FOR_EACH = 25


class Turns:
    """So many places, of which one tenant has about three quarters at most. Where more want one than there are, the
    tenants take turns, and the requests of one tenant go in the order in which they came."""

    def __init__(self, places: int) -> None:
        self.share = max(1, places - max(1, places // 4))
        self._free = places
        self._waiting_max = self.share * _WAITING_FOR_EACH
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, tenant: str, seconds: float) -> AsyncIterator[None]:
        """A place for as long as the block lasts. Who waits longer than so many seconds is told why: `TooManyAtOnce`
        where the tenant itself has all that it may have, `TimeoutError` where others do."""
        if tenant not in self._waiting and self._is_open_to(tenant):
            self._grant(tenant)
        else:
            await self._wait(tenant, seconds)
        try:
            yield
        finally:
            self._give_back(tenant)

    def _is_open_to(self, tenant: str) -> bool:
        return self._free > 0 and self._held[tenant] < self.share

    def _grant(self, tenant: str) -> None:
        self._free -= 1
        self._held[tenant] += 1

    async def _wait(self, tenant: str, seconds: float) -> None:
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= self._waiting_max:
            raise self._refusal(len(queue))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            is_own_fault = self._held[tenant] >= self.share
            if turn.done() and not turn.cancelled():
                # It came in the same moment in which nobody wanted it any more.
                self._give_back(tenant)
            else:
                self._leave(tenant, turn)
            if isinstance(error, TimeoutError) and is_own_fault:
                raise self._refusal(len(queue) + 1) from None
            raise

    def _refusal(self, waiting: int) -> TooManyAtOnce:
        return TooManyAtOnce(
            f"{self.share} requests of this tenant are under way here and {waiting} wait for them; ask for less at once"
        )

    def _leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None:
            with suppress(ValueError):
                queue.remove(turn)
            if not queue:
                del self._waiting[tenant]

    def _give_back(self, tenant: str) -> None:
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._call_next()

    def _call_next(self) -> None:
        """Whoever has waited longest of the tenant whose turn it is. One place has become free, so one is enough."""
        for tenant, queue in self._waiting.items():
            # Those who gave up have yet to leave by themselves.
            while queue and queue[0].done():
                queue.popleft()
            if queue and self._is_open_to(tenant):
                self._grant(tenant)
                queue.popleft().set_result(None)
                if queue:
                    self._waiting.move_to_end(tenant)
                else:
                    del self._waiting[tenant]
                return
