"""`Stopping`: the hard stop, and its end. What an insurance that is not valid any more stops, and goes on with another.

It asks neither for payments nor for disputes. Whoever stops or resumes holds the company, so that an insurance is
renewed before or after, and each booking without waiting: of one that somebody is changing the next pass hears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.insurance.alerting import UNPAID
from timebell.apps.marketplace.insurance.models import Policy
from timebell.apps.marketplace.insurance.rules import ZONES_APART, is_affected, utc_date
from timebell.apps.marketplace.insurance.stop_store import NIL, StopStore
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.weeks import local_date
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.models import WEEKLY, Booking
from timebell.apps.marketplace.staffing.rules import standing_of
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.errors import UnknownTimezone
from timebell.kernel import Alerts, Enqueue, Timebell, Transaction

STOP_WORK: Final = "marketplace.stop_work"
RESUME_WORK: Final = "marketplace.resume_work"
STOPS: Final = "marketplace_insurance_stops"
# So many bookings are changed in one transaction.
BATCH: Final = 20
INVALID: Final = "an insurance is not valid any more"
VALID: Final = "its insurances are valid again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """How far a pass came: behind which booking the next begins, if there are more; how many it changed; and whether
    somebody had one of them."""

    after: UUID | None
    count: int
    is_busy: bool


class Stopping:
    """Each verb takes part in the transaction that it is given, and changes some bookings."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._alerts = Alerts(bell)
        self._bookings = Bookings(bell)
        self._shifts = ShiftStore(bell.clock)
        self._settings = StaffingStore(bell.clock)
        self._policies = PolicyStore(bell.clock)
        self._store = StopStore(bell.clock)

    async def stop(
        self, tx: Transaction, policy: Policy, *, by: By, after: UUID = NIL, limit: int = BATCH
    ) -> Passed:
        """Nobody clocks in to what the company borrows or lends, unless another insurance of the type covers it.

        No shift is cancelled and no money moves. A shift that has begun can still be clocked out of.
        """
        now = await self._policies.read_instant(tx)
        about: dict[str, Any] = {"company_id": policy.company_id, "type": policy.type}
        if await self._policies.is_covered(tx, **about, today=utc_date(now)):
            return Passed(after=None, count=0, is_busy=False)
        since = utc_date(now) - ZONES_APART
        found = await self._store.list_affected(tx, **about, since=since, after=after, limit=limit)
        free = await self._store.lock_free_bookings(tx, ids=list(found))
        count = 0
        for id in free:
            booking = await self._bookings.get(tx, id)
            today = _today(booking, now)
            if is_affected(
                status=booking.status, end_date=booking.end_date, today=today, is_at_work=found[id]
            ):
                count += await self._stop_one(tx, booking, policy, by)
        return Passed(after=_last(list(found), limit), count=count, is_busy=len(free) < len(found))

    async def resume(
        self,
        tx: Transaction,
        company_id: UUID,
        type: str,
        *,
        by: By,
        after: UUID = NIL,
        limit: int = BATCH,
    ) -> Passed:
        """What the want of that insurance has stopped goes on, unless another stops it too."""
        now = await self._policies.read_instant(tx)
        about: dict[str, Any] = {"company_id": company_id, "type": type}
        if not await self._policies.is_covered(tx, **about, today=utc_date(now)):
            return Passed(after=None, count=0, is_busy=False)
        found = await self._store.list_stopped(tx, **about, after=after, limit=limit)
        free = await self._store.lock_free_bookings(tx, ids=found)
        for id in free:
            await self._store.delete_stop(tx, booking_id=id, **about)
            if not await self._store.is_stopped(tx, booking_id=id):
                await self._resume_one(tx, await self._bookings.get(tx, id), now, by)
        return Passed(after=_last(found, limit), count=len(free), is_busy=len(free) < len(found))

    def stop_job(self, policy: Policy, by: By, *, is_noted: bool = False) -> Enqueue:
        """Stops what is left, and tells everybody. `is_noted`: that it began was recorded."""
        return stop_job(policy.id, policy.revision, by.correlation_id, is_noted=is_noted)

    def resume_job(self, company_id: UUID, type: str, by: By) -> Enqueue:
        return Enqueue(
            kind=RESUME_WORK,
            payload={"company_id": str(company_id), "type": type},
            subject=f"company:{company_id}",
            urgency="critical",
            correlation_id=by.correlation_id,
        )

    async def note(self, tx: Transaction, policy: Policy, *, by: By) -> None:
        """The event that the source calls `Insurance_Hard_Stop`, once for each time that a policy ends."""
        await self._bell.record(
            tx,
            "insurance.hard_stop",
            {"event": "Insurance_Hard_Stop", "policy_id": str(policy.id), "type": policy.type},
            subject=policy.subject,
            actor=by.name,
            correlation_id=by.correlation_id,
        )

    async def _stop_one(self, tx: Transaction, booking: Booking, policy: Policy, by: By) -> bool:
        """Whether work could go on before."""
        was_stopped = await self._store.is_stopped(tx, booking_id=booking.id)
        await self._store.insert_stop(
            tx,
            booking_id=booking.id,
            company_id=policy.company_id,
            type=policy.type,
            policy_id=policy.id,
            ended_work=not was_stopped,
        )
        standing = standing_of(status=booking.status, is_contested=False, is_insured=False)
        said = {"policy_id": str(policy.id), "type": policy.type}
        if standing != booking.status:
            await self._bookings.move(tx, booking, standing, by=by, reason=INVALID, data=said)
        elif not was_stopped:
            data = {**said, "reason": INVALID}
            await self._bookings.record(tx, booking, "staffing_booking.work_stopped", by=by, data=data)
        if not was_stopped:
            self._count(tx, "stopped")
        return not was_stopped

    async def _resume_one(self, tx: Transaction, booking: Booking, now: datetime, by: By) -> None:
        """As its disputes have it. Whoever is not paid for any more is charged for on the next Wednesday."""
        if booking.status == "Cancelled":
            return
        is_contested = await self._shifts.is_contested(tx, booking_id=booking.id)
        if is_contested and (await self._settings.read_settings(tx)).hold_until_disputes_resolved:
            booking = await self._bookings.hold_clock_in(tx, booking, is_held=True, by=by)
        standing = standing_of(status=booking.status, is_contested=is_contested, is_insured=True)
        if standing != booking.status:
            await self._bookings.move(tx, booking, standing, by=by, reason=VALID)
        else:
            await self._bookings.record(
                tx, booking, "staffing_booking.work_resumed", by=by, data={"reason": VALID}
            )
        self._count(tx, "resumed")
        is_unpaid = booking.payment_type == WEEKLY and booking.funded_period_end < now
        if standing == "Active" and is_unpaid:
            said = {"funded_period_end": booking.funded_period_end.isoformat(), "reason": "resumed unpaid"}
            await self._bookings.record(tx, booking, "staffing_booking.needs_review", by=by, data=said)
            self._count(tx, "resumed_unpaid")
            detail = f"the booking {booking.id} is paid for until {said['funded_period_end']}"
            await self._alerts.open(tx, UNPAID, subject=booking.subject, detail=detail)

    def _count(self, tx: Transaction, what: str) -> None:
        tx.after_commit.append(lambda: self._bell.tallies.add(STOPS, what))


def stop_job(
    policy_id: UUID, revision: int, correlation_id: str | None, *, is_noted: bool = False
) -> Enqueue:
    return Enqueue(
        kind=STOP_WORK,
        payload={"policy_id": str(policy_id), "revision": revision, "is_noted": is_noted},
        subject=f"policy:{policy_id}",
        urgency="critical",
        correlation_id=correlation_id,
    )


def _today(booking: Booking, now: datetime) -> date:
    """By the clock of its project. Where that is not known any more, the booking counts as one that goes on."""
    try:
        return local_date(now, booking.timezone)
    except UnknownTimezone:
        return booking.start_date


def _last(ids: Sequence[UUID], limit: int) -> UUID | None:
    return ids[-1] if len(ids) >= limit else None
