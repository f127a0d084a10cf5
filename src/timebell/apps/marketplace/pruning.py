"""Pruning, room by room: removes what is past its retention."""

from __future__ import annotations

from timebell.apps.marketplace.insurance import pruning as insurance
from timebell.apps.marketplace.payments import pruning as payments
from timebell.apps.marketplace.searches import pruning as searches
from timebell.kernel import Timebell


async def prune(bell: Timebell, limit: int) -> int:
    rooms = (payments, insurance, searches)
    return sum([await room.prune(bell, limit) for room in rooms])
