"""Once an hour the shifts about which something is owed are looked through, for what was lost of it.

It is one job for each tenant, which snoozes until the next hour and is there from the first clock-in on. A schedule
would keep a job for every hour of the next weeks; a pass of the pruner would not live by the clock of a sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.rules import APPROVE, SWEPT_EVERY, next_sweep, owed
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import TimebellError
from timebell.kernel import DATABASE_ERRORS, Timebell, Transaction
from timebell.logs import Logger

log = Logger("timebell.marketplace")

SWEEP: Final = "marketplace.sweep_shifts"
REPAIRED: Final = "marketplace_timers_repaired"
SWEPT_MAX: Final = 100


async def keep_sweeping(bell: Timebell, tx: Transaction) -> None:
    """See to it that somebody looks. Where that fails, the next who clocks in or out does."""
    try:
        async with tx.all_or_nothing():
            await _keep(bell, tx)
    except (TimebellError, *DATABASE_ERRORS) as error:
        log.error("nobody looks through the time logs every hour", exc_info=error, tenant=tx.tenant)


async def _keep(bell: Timebell, tx: Transaction) -> None:
    store = ShiftStore(bell.clock)
    if await store.has_sweep(tx):
        return
    due_at = next_sweep(await store.read_clock(tx))
    job = await bell.enqueue(tx, SWEEP, {}, due_at=due_at, subject="marketplace:sweep")
    if not await store.note_sweep(tx, job_id=job.id):
        await bell.cancel(tx, id=job.id, reason="another looks already")


async def find_lost(bell: Timebell, tx: Transaction, shifts: Sequence[Shift], now: datetime) -> list[Shift]:
    """Those of which something that is owed has no job. What was due long ago has been done, or is of no use; only the
    approval is always."""
    store, bookings = ShiftStore(bell.clock), Bookings(bell)
    there = await store.read_owed_steps(tx, subjects=[shift.subject for shift in shifts])
    lost: list[Shift] = []
    for shift in shifts:
        due = owed(await bookings.get(tx, shift.booking_id), shift)
        if any(
            (shift.subject, step.key) not in there and (step.key == APPROVE or step.at > now - SWEPT_EVERY)
            for step in due.steps
        ):
            lost.append(shift)
    return lost
