"""The nouns of staffing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Final, Literal
from uuid import UUID

from timebell.apps.marketplace.models import booking_subject

CompanyType = Literal["borrower", "lender"]
Role = Literal["borrower_admin", "borrower_manager", "lender_admin", "lender_manager", "supervisor", "worker"]
WorkerState = Literal["Listed", "Unlisted", "Booked"]
BookingStatus = Literal["Active", "Payment_Paused_Dispute", "Suspended_Insurance", "Cancelled", "Completed"]

WEEKLY: Final = "Weekly_Progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A company that borrows or lends workers. What the payment provider knows it by is the provider's to say."""

    id: UUID
    name: str
    type: CompanyType
    payment_customer: str | None = None
    payment_method: str | None = None
    payment_account: str | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    id: UUID
    company_id: UUID
    name: str
    timezone: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Somebody who can be booked. The rate is in minor units, and `number` is what the database compares them by."""

    id: UUID
    recipient_id: UUID
    company_id: UUID
    state: WorkerState
    trade: str
    zip: str
    skills: Sequence[str]
    hourly_rate: int
    number: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """A worker at a project from one day to another. `worker_recipient_id` is the person.

    `funded_period_end` is the instant up to which weeks are paid for, exclusive. `scheduled_end_time` is the wall time
    at which shifts end that do not say it themselves, and `rate` the worker's as it was at the checkout.
    """

    id: UUID
    tenant: str
    project_id: UUID
    borrower_company_id: UUID
    lender_company_id: UUID
    worker_id: UUID
    worker_recipient_id: UUID
    supervisor_id: UUID
    payment_type: str
    currency: str
    timezone: str
    status: BookingStatus
    start_date: date
    end_date: date
    funded_period_end: datetime
    clock_in_hold: bool
    scheduled_end_time: time | None
    release_reason: str | None
    rate: int
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        return booking_subject(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Everybody whom something about a booking may concern, by their part in it."""

    worker: UUID
    supervisor: UUID
    borrower_admins: Sequence[UUID]
    borrower_managers: Sequence[UUID]
    lender_admins: Sequence[UUID]
    lender_managers: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShift:
    """A shift that is booked. Without an end it ends when those of its booking do, if that is said."""

    start: datetime
    end: datetime | None
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBooking:
    """What is ordered at the checkout."""

    project_id: UUID
    worker_id: UUID
    lender_company_id: UUID
    supervisor_id: UUID
    payment_type: str
    start_date: date
    end_date: date
    currency: str
    scheduled_end_time: time | None
    shifts: Sequence[NewShift]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingFilter:
    """Which bookings are asked for; None is all."""

    status: BookingStatus | None = None
    project_id: UUID | None = None
    worker_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Somebody with roles in a company."""

    recipient_id: UUID
    roles: Sequence[Role]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFilter:
    """Which workers are searched. `zip_from` is inclusive and `zip_to` exclusive, in the order of their bytes; between
    `since` and `before` they are not booked."""

    state: WorkerState = "Listed"
    trade: str | None = None
    company_id: UUID | None = None
    zip_from: str | None = None
    zip_to: str | None = None
    skills: Sequence[str] = ()
    rate_max: int | None = None
    since: datetime | None = None
    before: datetime | None = None
