"""Pruning: removes alerts and skips of saved searches that are past their retention."""

from __future__ import annotations

from timebell.apps.marketplace.searches.store import SearchStore
from timebell.kernel import Timebell


async def prune(bell: Timebell, limit: int) -> int:
    """Who was told about whom, once no digest looks back to it; and what was left out, as long as finished jobs."""
    store = SearchStore(bell.clock)
    async with bell.database.transaction() as session:
        alerts = await store.prune_alerts(session, limit=limit)
        skips = await store.prune_skips(session, days=bell.settings.log_days, limit=limit)
    return alerts + skips
