"""Pruning: removes requests that came to their end long ago, and names that were cancelled and never asked for."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.scheduler.store import SchedulerStore
from timebell.errors import NotFound
from timebell.kernel import Timebell

_ZERO: Final = UUID(int=0)
_TENANTS_MAX: Final = 50


class Pruning:
    """One bounded pass at each call. It remembers how far it has looked, so that what must stay holds up nothing."""

    def __init__(self) -> None:
        self._tenant: str | None = None
        self._tenant_before = ""
        self._after = _ZERO

    async def __call__(self, bell: Timebell, limit: int) -> int:
        """Answers with `limit` where there may be more."""
        store = SchedulerStore(bell.clock)
        async with bell.database.connection() as session:
            pruned_count = await store.prune_tombstones(session, limit=limit)
        left = limit
        for _ in range(_TENANTS_MAX):
            if self._tenant is None and not await self._next_tenant(bell, store):
                return pruned_count
            left -= await self._look(bell, store, left)
            if left <= 0:
                break
        return limit

    async def _next_tenant(self, bell: Timebell, store: SchedulerStore) -> bool:
        """False once all have had their turn; the next call begins with the first again."""
        async with bell.database.connection() as session:
            self._tenant = await store.read_next_tenant(session, after=self._tenant_before)
        self._after = _ZERO
        self._tenant_before = self._tenant or ""
        return self._tenant is not None

    async def _look(self, bell: Timebell, store: SchedulerStore, limit: int) -> int:
        assert self._tenant is not None
        async with bell.transaction(tenant=self._tenant) as tx:
            rows = await store.prune_requests(tx, days=bell.settings.log_days, after=self._after, limit=limit)
            for row in rows:
                if row["schedule_id"] is not None:
                    try:
                        await bell.schedules.forget(tx, row["schedule_id"])
                    except NotFound:
                        # Somebody else has, or it goes on for another reason.
                        continue
        if len(rows) < limit or rows[-1]["is_young"]:
            self._tenant = None
        else:
            self._after = UUID(int=rows[-1]["number"].int)
        return len(rows)
