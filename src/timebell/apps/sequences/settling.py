"""Settling and pruning: what became of messages is written down when it is final, and what is long over is removed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from timebell.apps.sequences.store import SequenceStore
from timebell.kernel import Timebell

_FIRST: Final = (datetime.min.replace(tzinfo=UTC), UUID(int=0))
_TENANTS_MAX: Final = 50


class Settling:
    """One bounded pass at each call. It remembers how far it has looked, so that what still waits holds up nothing."""

    def __init__(self) -> None:
        self._tenant: str | None = None
        self._tenant_before = ""
        self._after = _FIRST

    async def __call__(self, bell: Timebell, limit: int) -> int:
        """Answers with `limit` where there may be more."""
        store = SequenceStore(bell.clock)
        pruned_count = await self._prune(bell, store, limit)
        left = limit
        for _ in range(_TENANTS_MAX):
            if self._tenant is None and not await self._next_tenant(bell, store):
                return pruned_count
            left -= await self._settle(bell, store, left)
            if left <= 0:
                break
        return limit

    async def _prune(self, bell: Timebell, store: SequenceStore, limit: int) -> int:
        async with bell.database.transaction() as session:
            gone = await store.prune_subjects(session, days=bell.settings.delivery_days, limit=limit)
            if gone:
                await store.delete_subjects(
                    session,
                    tenants=[row["tenant"] for row in gone],
                    subjects=[row["subject"] for row in gone],
                )
        return len(gone)

    async def _next_tenant(self, bell: Timebell, store: SequenceStore) -> bool:
        """False once all have had their turn; the next call begins with the first again."""
        async with bell.database.connection() as session:
            self._tenant = await store.read_next_tenant(session, after=self._tenant_before)
        self._after = _FIRST
        self._tenant_before = self._tenant or ""
        return self._tenant is not None

    async def _settle(self, bell: Timebell, store: SequenceStore, limit: int) -> int:
        assert self._tenant is not None
        async with bell.transaction(tenant=self._tenant) as tx:
            after_at, after = self._after
            row = await store.settle_messages(tx, after_at=after_at, after=after, limit=limit)
        looked: int = row["looked_count"]
        if looked < limit:
            self._tenant = None
        else:
            self._after = (row["last_at"], UUID(int=row["last_id"].int))
        return looked
