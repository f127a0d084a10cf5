"""Guards: questions that are asked just before somebody is told something about a shift."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.models import id_of
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.rules import AT_WORK, AUTO
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.kernel import Job

IS_WORKING: Final = "marketplace.is_working"
IS_PENDING: Final = "marketplace.is_pending_verification"
IS_AUTO_APPROVED: Final = "marketplace.is_auto_approved"


async def is_working(job: Job) -> bool:
    """Whether nobody has clocked out of it."""
    shift = await _shift(job)
    return shift is not None and shift.status in AT_WORK


async def is_pending(job: Job) -> bool:
    shift = await _shift(job)
    return shift is not None and shift.status == "Pending_Verification"


async def is_auto_approved(job: Job) -> bool:
    """Whether no dispute has taken the approval back."""
    shift = await _shift(job)
    return shift is not None and shift.status == "Verified" and shift.verified_by == AUTO


async def _shift(job: Job) -> Shift | None:
    assert job.subject is not None, "whoever is told so is told about a time log"
    async with job.bell.transaction(tenant=job.tenant) as tx:
        return await ShiftStore(job.bell.clock).read_shift(tx, id=id_of(job.subject))
