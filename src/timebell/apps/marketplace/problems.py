"""How what is refused in the marketplace is told over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from timebell.apps.marketplace.disputes.refusals import DisputeTooLate, IncidentClosed, WrongDisputeStatus
from timebell.apps.marketplace.insurance.refusals import PolicyInactive
from timebell.apps.marketplace.payments.refusals import (
    CutoffPassed,
    NothingDue,
    PaymentContested,
    PaymentPending,
)
from timebell.apps.marketplace.refusals import UnknownReference, WrongField
from timebell.apps.marketplace.searches.refusals import TooManySearches
from timebell.apps.marketplace.shifts.refusals import ClockInRefused, WrongTimeLogStatus
from timebell.apps.marketplace.staffing.refusals import (
    NotAllowed,
    NotInsured,
    TooManyMembers,
    WorkerExists,
    WorkerUnavailable,
    WrongBookingStatus,
)
from timebell.apps.marketplace.tokens.refusals import MagicLinkExpired, MagicLinkUsed
from timebell.errors import TimebellError
from timebell.web import FieldError, ProblemForm, in_field

PROBLEMS: Final[Mapping[type[TimebellError], ProblemForm]] = {
    WrongField: ProblemForm(status=422, code="invalid_input", errors=in_field("invalid")),
    UnknownReference: ProblemForm(status=422, code="invalid_input", errors=in_field("not_found")),
    NotAllowed: ProblemForm(status=403, code="not_allowed"),
    WorkerUnavailable: ProblemForm(status=409, code="worker_unavailable"),
    NotInsured: ProblemForm(
        status=409,
        code="insurance_invalid",
        errors=lambda error: [
            FieldError(pointer=f"/{field}", code="insurance_invalid", message=message)
            for field, message in error.wanting
        ],
    ),
    WorkerExists: ProblemForm(status=409, code="worker_exists"),
    TooManyMembers: ProblemForm(status=409, code="too_many_members"),
    WrongBookingStatus: ProblemForm(
        status=409, code="booking_status", more=lambda error: {"booking_status": error.status}
    ),
    WrongTimeLogStatus: ProblemForm(
        status=409, code="time_log_status", more=lambda error: {"time_log_status": error.status}
    ),
    ClockInRefused: ProblemForm(
        status=409, code="clock_in_refused", more=lambda error: {"reason": error.reason}
    ),
    DisputeTooLate: ProblemForm(
        status=409,
        code="dispute_too_late",
        more=lambda error: {"time_log_status": error.time_log_status},
    ),
    WrongDisputeStatus: ProblemForm(
        status=409, code="dispute_status", more=lambda error: {"dispute_status": error.status}
    ),
    IncidentClosed: ProblemForm(status=409, code="incident_closed"),
    NothingDue: ProblemForm(status=409, code="nothing_due"),
    PaymentPending: ProblemForm(status=409, code="payment_pending"),
    PaymentContested: ProblemForm(status=409, code="payment_contested"),
    CutoffPassed: ProblemForm(status=409, code="cutoff_passed"),
    PolicyInactive: ProblemForm(status=409, code="policy_inactive"),
    TooManySearches: ProblemForm(status=409, code="too_many_searches"),
    MagicLinkUsed: ProblemForm(status=409, code="magic_link_used"),
    MagicLinkExpired: ProblemForm(status=410, code="magic_link_expired"),
}
