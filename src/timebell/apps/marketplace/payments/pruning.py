"""Pruning: removes calls of the simulator and applied reports that are past their retention. The ledger, payments and
payouts are kept."""

from __future__ import annotations

from timebell.apps.marketplace.payments.report_store import ReportStore
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.kernel import Timebell


async def prune(bell: Timebell, limit: int) -> int:
    """Calls of the simulator as long as finished jobs are kept, and reports that were applied as long as it is kept
    what somebody was told."""
    settings = bell.settings
    async with bell.database.transaction() as session:
        calls = await SimulatorStore(bell.clock).prune_calls(session, days=settings.log_days, limit=limit)
        reports = await ReportStore(bell.clock).prune_payment_events(
            session, days=settings.delivery_days, limit=limit
        )
    return calls + reports
