"""Pruning: removes warnings and stops of insurances that are past their retention. Insurances themselves are kept."""

from __future__ import annotations

from timebell.apps.marketplace.insurance.stop_store import StopStore
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.kernel import Timebell


async def prune(bell: Timebell, limit: int) -> int:
    """Warnings of dates that are long over, and stops of bookings in which nobody works any more, as long as it is kept
    what somebody was told."""
    days = bell.settings.delivery_days
    async with bell.database.transaction() as session:
        warnings = await PolicyStore(bell.clock).prune_warnings(session, days=days, limit=limit)
        stops = await StopStore(bell.clock).prune_stops(session, days=days, limit=limit)
    return warnings + stops
