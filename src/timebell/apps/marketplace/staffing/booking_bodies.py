"""Request and response bodies about bookings, with the names that the source has for their fields."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from timebell.apps.marketplace.staffing.bodies import Amount, Day
from timebell.apps.marketplace.staffing.models import BookingFilter, BookingStatus, NewBooking, NewShift
from timebell.apps.marketplace.staffing.rules import LEGACY_STATUS
from timebell.web import Input, Instant, Output, PageQuery

SHIFTS_MAX: Final = 1_000
_CLOCK: Final = r"^([01]\d|2[0-3]):[0-5]\d$"

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S")]
PaymentType = Annotated[str, Field(min_length=1, max_length=50, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
When = Annotated[Instant, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), le=datetime(2999, 12, 31, tzinfo=UTC))]


def _read_clock(value: object) -> object:
    if isinstance(value, time):
        return value
    hours, colon, minutes = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (colon and (hours + minutes).isdecimal() and len(hours) == len(minutes) == 2):
        raise ValueError("give a time of day such as 17:00")
    try:
        return time(int(hours), int(minutes))
    except ValueError:
        raise ValueError("there is no such time of day") from None


Clock = Annotated[
    time,
    BeforeValidator(_read_clock),
    PlainSerializer(lambda value: f"{value:%H:%M}", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": _CLOCK, "examples": ["17:00"]}),
]


class ShiftInput(Input):
    """A shift that is booked. What it costs is in minor units; without an end it ends when the booking says."""

    start: When
    end: When | None = None
    amount: Amount


class BookingInput(Input):
    """The checkout. Days are those of the project's clock, both inclusive, and shifts begin on them."""

    project_id: UUID
    worker_id: UUID
    lender_company_id: UUID
    supervisor_id: UUID
    payment_type: PaymentType
    start_date: Day
    end_date: Day
    currency: Currency
    shifts: Annotated[list[ShiftInput], Field(max_length=SHIFTS_MAX)]
    scheduled_end_time: Clock | None = None

    def booking(self) -> NewBooking:
        return NewBooking(
            project_id=self.project_id,
            worker_id=self.worker_id,
            lender_company_id=self.lender_company_id,
            supervisor_id=self.supervisor_id,
            payment_type=self.payment_type,
            start_date=self.start_date,
            end_date=self.end_date,
            currency=self.currency,
            scheduled_end_time=self.scheduled_end_time,
            shifts=[NewShift(start=one.start, end=one.end, amount=one.amount) for one in self.shifts],
        )


# One list, so that what is none of them is one error.
AskedStatus = Literal[
    "Active", "Payment_Paused_Dispute", "Suspended_Insurance", "Cancelled", "Completed", "Disputed"
]


class BookingsQuery(PageQuery):
    """`Disputed` is an old word for `Payment_Paused_Dispute`."""

    status: AskedStatus | None = None
    project_id: UUID | None = None
    worker_id: UUID | None = None

    def wanted(self) -> BookingFilter:
        status = LEGACY_STATUS["Disputed"] if self.status == "Disputed" else self.status
        return BookingFilter(status=status, project_id=self.project_id, worker_id=self.worker_id)


class BookingCancellation(Input):
    """Why, if there is something to say."""

    reason: Reason | None = None


class StaffingBookingRow(Output):
    """A booking. `funded_period_end` is the instant up to which weeks are paid for, exclusive; `rate` is the worker's
    as it was at the checkout."""

    id: UUID
    status: BookingStatus
    project_id: UUID
    borrower_company_id: UUID
    lender_company_id: UUID
    worker_id: UUID
    supervisor_id: UUID
    payment_type: str
    currency: str
    timezone: str
    start_date: date
    end_date: date
    funded_period_end: Instant
    clock_in_hold: bool
    scheduled_end_time: Clock | None
    release_reason: str | None
    rate: int
    created_at: Instant
    updated_at: Instant
