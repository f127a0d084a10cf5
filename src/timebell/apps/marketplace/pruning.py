"""What has outlived its use, room by room."""

from __future__ import annotations

from timebell.apps.marketplace.insurance import pruning as insurance
from timebell.apps.marketplace.payments import pruning as payments
from timebell.kernel import Timebell


async def prune(bell: Timebell, limit: int) -> int:
    return await payments.prune(bell, limit) + await insurance.prune(bell, limit)
