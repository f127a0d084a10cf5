"""`Checkout`: a worker is booked. It charges nothing; weeks after the first are paid for one by one.

There is no cart and nothing is kept for anybody before. Whoever checks out locks the worker's row, so that of several
at once one goes on, and the database takes no two bookings of one worker that overlap, whoever comes past the lock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from timebell.apps.marketplace.insurance.rules import utc_date
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.cycles import Cycles
from timebell.apps.marketplace.payments.weeks import first_instant, funded_until_first
from timebell.apps.marketplace.refusals import unknown_reference, wrong_field
from timebell.apps.marketplace.shifts.store import PlannedShift, ShiftStore
from timebell.apps.marketplace.staffing.access import Access
from timebell.apps.marketplace.staffing.booking_store import BookingStore
from timebell.apps.marketplace.staffing.models import Booking, NewBooking, Project, Role, Worker
from timebell.apps.marketplace.staffing.refusals import not_insured, worker_unavailable
from timebell.apps.marketplace.staffing.rules import BOOKING_DAYS_MAX, shift_refusal
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.kernel import Ids, Timebell, Transaction
from timebell.notify import Notify
from timebell.rules.localtime import local_at, naive_utc, zone

_BORROWERS: Final[tuple[Role, ...]] = ("borrower_admin", "borrower_manager")
_DAY: Final = timedelta(days=1)
# A refusal names so many insurances.
_WANTING_MAX: Final = 20


class Checkout:
    """The verb. It takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._notify = notify
        self._access = Access(bell)
        self._bookings = Bookings(bell)
        self._cycles = Cycles(bell)
        self._policies = PolicyStore(bell.clock)
        self._store = StaffingStore(bell.clock)
        self._booking_store = BookingStore(bell.clock)
        self._shifts = ShiftStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def book(self, tx: Transaction, new: NewBooking, *, by: By) -> Booking:
        """A booking with its shifts. 409 `worker_unavailable` where the worker is taken on one of these days, and
        `insurance_invalid` where it would be stopped at once."""
        project = await self._project(tx, new, by)
        _check_days(new)
        worker = await self._worker(tx, new)
        await self._check_insured(tx, new, project)
        planned = self._planned(new, project.timezone)
        id = self._ids.new()
        await self._booking_store.insert_booking(
            tx,
            new,
            id=id,
            project=project,
            funded_period_end=funded_until_first(new.start_date, project.timezone),
            rate=worker.hourly_rate,
        )
        if not await self._booking_store.take_worker(
            tx,
            booking_id=id,
            worker_id=worker.id,
            start_at=first_instant(new.start_date, project.timezone),
            end_at=_end(new, project.timezone),
        ):
            raise worker_unavailable(worker.id)
        await self._shifts.insert_shifts(tx, booking_id=id, worker_id=worker.id, shifts=planned)
        booking = await self._bookings.get(tx, id)
        data = {"after": {"status": booking.status}, "worker_id": str(worker.id), "shift_count": len(planned)}
        await self._bookings.record(tx, booking, "staffing_booking.created", by=by, data=data)
        await self._cycles.ensure(tx, booking.timezone, by=by)
        return booking

    async def _project(self, tx: Transaction, new: NewBooking, by: By) -> Project:
        """The project, which somebody with a role in its company books for."""
        project = await self._store.read_project(tx, id=new.project_id)
        is_known = project is not None and (
            by.is_operator or bool(await self._access.roles_in(tx, project.company_id, by))
        )
        if project is None or not is_known:
            raise unknown_reference("project_id", "project", new.project_id)
        await self._access.check_company(tx, project.company_id, by, *_BORROWERS)
        return project

    async def _check_insured(self, tx: Transaction, new: NewBooking, project: Project) -> None:
        """Where an insurance has ended no booking is made that its stop would not know of: whoever stops waits until
        this transaction has ended. They hold companies and neither people nor workers, so companies come last."""
        named = {project.company_id: "project_id", new.lender_company_id: "lender_company_id"}
        await self._policies.share_companies(tx, ids=list(named))
        today = utc_date(await self._policies.read_instant(tx))
        wanting = await self._policies.list_wanting(
            tx, company_ids=list(named), today=today, limit=_WANTING_MAX
        )
        if wanting:
            raise not_insured([(named[company], company, type) for company, type in wanting])

    async def _worker(self, tx: Transaction, new: NewBooking) -> Worker:
        """The worker, whom nobody else books until the transaction ends. People are held before, as where one of them
        is erased."""
        worker = await self._store.read_worker(tx, id=new.worker_id)
        if worker is None:
            raise unknown_reference("worker_id", "worker", new.worker_id)
        if worker.company_id != new.lender_company_id:
            message = f"the worker {worker.id} is not lent by {new.lender_company_id}; give their company"
            raise wrong_field("lender_company_id", message)
        there = await self._notify.recipients.hold(tx, [new.supervisor_id, worker.recipient_id])
        if new.supervisor_id not in there:
            raise unknown_reference("supervisor_id", "recipient", new.supervisor_id)
        if worker.recipient_id not in there:
            raise unknown_reference("worker_id", "worker", new.worker_id)
        await self._store.lock_worker(tx, id=worker.id)
        locked = await self._store.read_worker(tx, id=worker.id)
        assert locked is not None, "nobody deletes workers"
        return locked

    def _planned(self, new: NewBooking, timezone: str) -> list[PlannedShift]:
        place = zone(timezone)
        walls = [local_at(naive_utc(shift.start, "start"), place) for shift in new.shifts]
        refused = shift_refusal(new.shifts, [wall.date() for wall in walls], new.start_date, new.end_date)
        if refused is not None:
            number, message = refused
            raise wrong_field(f"shifts.{number}", message)
        return [
            PlannedShift(
                id=self._ids.new(),
                shift_date=wall.date(),
                shift_start_time=wall.time(),
                scheduled_start=shift.start,
                scheduled_end=shift.end,
                amount=shift.amount,
            )
            for shift, wall in zip(new.shifts, walls, strict=True)
        ]


def _check_days(new: NewBooking) -> None:
    if new.end_date < new.start_date:
        raise wrong_field("end_date", f"must be {new.start_date} or later")
    if (new.end_date - new.start_date).days >= BOOKING_DAYS_MAX:
        raise wrong_field("end_date", f"a booking has at most {BOOKING_DAYS_MAX} days; make two of it")


def _end(new: NewBooking, timezone: str) -> datetime:
    """The worker is taken up to the end of the last day, or of a night shift that goes beyond it."""
    ends = [shift.end for shift in new.shifts if shift.end is not None]
    return max([first_instant(new.end_date + _DAY, timezone), *ends])
