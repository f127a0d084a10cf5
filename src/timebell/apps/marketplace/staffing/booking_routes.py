"""Bookings: the checkout, and what is read about them."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.shifts.bodies import TimeLogRow
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.shifts.store import ShiftStore, shift_of
from timebell.apps.marketplace.staffing.access import Access, Part
from timebell.apps.marketplace.staffing.booking_bodies import (
    BookingCancellation,
    BookingInput,
    BookingsQuery,
    StaffingBookingRow,
)
from timebell.apps.marketplace.staffing.checkout import Checkout
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.refusals import CODES
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.kernel import Transaction
from timebell.web import Answer, Call, Listed, PageQuery, Route, decode_cursor, listed, page_of

_TAG: Final = "marketplace"
_PATH: Final = "/api/marketplace/bookings"
# Why, where nobody says it.
CANCELLED: Final = "Booking cancelled"
_MAY_CANCEL: Final[tuple[Part, ...]] = (
    "borrower_admin",
    "borrower_manager",
    "supervisor",
    "lender_admin",
    "lender_manager",
)


async def check_out(call: Call, *, body: BookingInput) -> Answer:
    """Books a worker for a project, for an admin or manager of its company. Nothing is charged, and the first week
    counts as paid for."""
    checkout = Checkout(call.bell, call.notify)
    return shown(await checkout.book(call.tx, body.booking(), by=by_caller(call)))


async def list_staffing_bookings(call: Call, *, query: BookingsQuery) -> object:
    """Those that the acting recipient has a part in, the oldest first; to an admin key all."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Bookings(call.bell).list(
            tx, query.wanted(), by=by_caller(call), limit=query.limit, cursor=query.cursor
        )
    return listed(page, StaffingBookingRow.model_validate)


async def get_staffing_booking(call: Call) -> Answer:
    """For members of both companies, the worker and the supervisor."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return shown(await _seen(call, tx))


async def list_booking_shifts(call: Call, *, query: PageQuery) -> object:
    """The shifts of a booking, by their start."""
    after = decode_cursor("shifts", query.cursor, dated=query.cursor is not None)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        booking = await _seen(call, tx)
        rows = await ShiftStore(call.bell.clock).list_shifts(
            tx, booking_id=booking.id, after=after.id, after_at=after.at, limit=query.limit
        )
    page = page_of("shifts", rows, query.limit, shift_of, at="scheduled_start")
    return listed(page, TimeLogRow.model_validate)


async def cancel_staffing_booking(call: Call, *, body: BookingCancellation) -> Answer:
    """It has ended: the worker is free from now on, shifts that nobody has clocked in to are cancelled, and what is
    held for those goes back."""
    by, bookings = by_caller(call), Bookings(call.bell)
    booking = await bookings.hold(call.tx, call.path["id"])
    await Access(call.bell).check(call.tx, booking, by, *_MAY_CANCEL)
    call.check_revision(booking.revision)
    ended = await Ending(call.bell).end_booking(
        call.tx,
        booking,
        status="Cancelled",
        cancel_from=await StaffingStore(call.bell.clock).read_clock(call.tx),
        end_date=None,
        reason=body.reason or CANCELLED,
        by=by,
    )
    return shown(ended.booking)


def shown(booking: Booking) -> Answer:
    return Answer(content=StaffingBookingRow.model_validate(booking), revision=booking.revision)


async def _seen(call: Call, tx: Transaction) -> Booking:
    """The booking that the path names: 404 where there is none, or none that concerns whoever asks."""
    by = by_caller(call)
    booking = await Bookings(call.bell).get(tx, call.path["id"])
    await Access(call.bell).check(tx, booking, by)
    return booking


_EXAMPLE: Final = {
    "project_id": "0199a3c2-0000-7000-8000-000000000001",
    "worker_id": "0199a3c2-0000-7000-8000-000000000002",
    "lender_company_id": "0199a3c2-0000-7000-8000-000000000003",
    "supervisor_id": "0199a3c2-0000-7000-8000-000000000004",
    "payment_type": "Weekly_Progress",
    "start_date": "2027-03-01",
    "end_date": "2027-03-12",
    "currency": "EUR",
    "shifts": [{"start": "2027-03-01T07:00:00Z", "end": "2027-03-01T15:00:00Z", "amount": 20000}],
}

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=check_out,
        summary="Book a worker",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="either",
        body=BookingInput,
        answer=StaffingBookingRow,
        idempotency="optional",
        plans=True,
        example=_EXAMPLE,
        problems={
            403: "the acting recipient is no admin or manager of the project's company",
            409: "the worker is booked on one of these days (`worker_unavailable`), or an insurance is not valid",
        },
        codes=CODES,
    ),
    Route(
        method="GET",
        path=_PATH,
        run=list_staffing_bookings,
        summary="List bookings of workers",
        tag=_TAG,
        acts_for="either",
        query=BookingsQuery,
        answer=Listed[StaffingBookingRow],
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}",
        run=get_staffing_booking,
        summary="Read a booking of a worker",
        tag=_TAG,
        acts_for="either",
        answer=StaffingBookingRow,
    ),
    Route(
        method="POST",
        path=f"{_PATH}/{{id}}/cancel",
        run=cancel_staffing_booking,
        summary="Cancel a booking of a worker",
        tag=_TAG,
        scope="write",
        acts_for="either",
        body=BookingCancellation,
        answer=StaffingBookingRow,
        idempotency="required",
        example={"reason": "The site is closed"},
        problems={
            403: "the acting recipient has no role that may do this",
            409: "it has ended before (`booking_status`)",
        },
        codes=CODES,
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}/shifts",
        run=list_booking_shifts,
        summary="List the shifts of a booking",
        tag=_TAG,
        acts_for="either",
        query=PageQuery,
        answer=Listed[TimeLogRow],
    ),
)
