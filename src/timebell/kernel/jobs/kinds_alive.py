"""Who enqueues what nobody alive can run is told so, in the log of their own process.

What was found is remembered for a while, so that enqueueing does not wait for it and mostly does not cause it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Database
from timebell.errors import TimebellError
from timebell.kernel.store import Store
from timebell.logs import Logger

log = Logger("timebell.kinds")

_REMEMBERED_SECONDS = 60.0
_REMEMBERED_MAX = 10_000
_LOOK_SECONDS = 5.0


class KindsAlive:
    """Asks of each kind at most once a minute whether some living node has a handler for it, beside everything else."""

    def __init__(self, database: Database, store: Store, monotonic: Callable[[], float]) -> None:
        self._database = database
        self._store = store
        self._monotonic = monotonic
        self._ask_again_at: dict[str, float] = {}
        self._alive: frozenset[str] = frozenset()
        self._asked: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    def note(self, kinds: frozenset[str]) -> None:
        """Some living node is known to have handlers for these, and for none that was named before and is not now."""
        for kind in self._alive - kinds:
            self._ask_again_at.pop(kind, None)
        self._alive = kinds
        self._ask_again_at.update(dict.fromkeys(kinds, self._monotonic() + _REMEMBERED_SECONDS))

    def ask(self, kind: str) -> None:
        """Have it looked at whether a kind can be run; never fails and never waits."""
        now = self._monotonic()
        if now < self._ask_again_at.get(kind, now):
            return
        if len(self._ask_again_at) >= _REMEMBERED_MAX:
            self._ask_again_at.clear()
        self._ask_again_at[kind] = now + _REMEMBERED_SECONDS
        self._asked.add(kind)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            while self._asked:
                kinds, self._asked = sorted(self._asked), set()
                async with asyncio.timeout(_LOOK_SECONDS), self._database.connection() as session:
                    left = await self._store.read_kinds_left(session, kinds=kinds)
                for kind in left:
                    log.warning(
                        "no node that is alive has a handler for this kind; its jobs wait until one has",
                        kind=kind,
                    )
        except (*DATABASE_ERRORS, TimebellError):
            # Whoever cannot reach the database hears of that elsewhere.
            return

    async def close(self) -> None:
        if self._looking is not None:
            await self._looking
