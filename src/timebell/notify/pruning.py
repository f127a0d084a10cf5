"""Pruning: old notifications are removed, with everything that came of them, since nothing told is kept for ever."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from timebell.db.pool import Row
from timebell.kernel import Timebell
from timebell.notify.pruning_store import Place, PruningStore

_BEGINNING: Final = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))


class Pruning:
    """One bounded pass at each call. It remembers how far it has looked, so that what must stay holds up nothing."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    async def __call__(self, bell: Timebell, limit: int) -> int:
        """Answers with `limit` where there may be more."""
        store, days = PruningStore(bell.clock), bell.settings.delivery_days
        async with bell.database.connection() as session:
            counts = [
                await store.prune_notifications(session, days=days, limit=limit),
                await store.prune_reports(session, days=days, limit=limit),
            ]
            for look in (store.prune_withdrawn, store.prune_digests):
                after = self._places.get(look.__name__, _BEGINNING)
                last = await look(session, days=days, after=after, limit=limit)
                counts.append(self._go_on(look.__name__, last, limit))
        return max(counts)

    def _go_on(self, name: str, last: Row | None, limit: int) -> int:
        if last is None or last["looked_at_count"] < limit:
            self._places.pop(name, None)
            return 0
        self._places[name] = last["at"], UUID(int=last["id"].int)
        return limit
