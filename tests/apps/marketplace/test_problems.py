"""What is refused in the marketplace, as it is told over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from tests.apps.problem_tables import Told, check_table
from timebell.apps import marketplace
from timebell.apps.marketplace import refusals
from timebell.apps.marketplace.app import APP
from timebell.apps.marketplace.disputes import refusals as disputes
from timebell.apps.marketplace.insurance import refusals as insurance
from timebell.apps.marketplace.payments import refusals as payments
from timebell.apps.marketplace.searches import refusals as searches
from timebell.apps.marketplace.shifts import refusals as shifts
from timebell.apps.marketplace.staffing import refusals as staffing
from timebell.apps.marketplace.tokens import refusals as tokens
from timebell.errors import TimebellError
from timebell.web import FieldError

AT = datetime(2027, 3, 5, 9, tzinfo=UTC)
WHO = UUID(int=7)


def wrong(pointer: str, message: str, code: str = "invalid") -> Told:
    return 422, "invalid_input", [FieldError(pointer=pointer, code=code, message=message)], {}


EXAMPLES: Mapping[TimebellError, Told] = {
    refusals.wrong_field("end_date", "is past"): wrong("/end_date", "is past"),
    refusals.wrong_field("shifts.3", "is past"): wrong("/shifts/3", "is past"),
    refusals.unknown_reference("project_id", "project", WHO): wrong(
        "/project_id", f"there is no project {WHO}; add it first", "not_found"
    ),
    disputes.settlement_differs(1, 2): wrong(
        "/settlement", "adds up to 1; divide what is frozen, which is 2"
    ),
    staffing.not_allowed(["lender_admin"]): (403, "not_allowed", [], {}),
    staffing.only_operator(): (403, "not_allowed", [], {}),
    disputes.only_by_settlement(): (403, "not_allowed", [], {}),
    staffing.worker_unavailable(WHO): (409, "worker_unavailable", [], {}),
    staffing.not_insured([("project_id", WHO, "ALL_RISK")]): (
        409,
        "insurance_invalid",
        [
            FieldError(
                pointer="/project_id",
                code="insurance_invalid",
                message=f"the company {WHO} has no insurance ALL_RISK that is valid; renew it or add another",
            )
        ],
        {},
    ),
    staffing.worker_exists(WHO): (409, "worker_exists", [], {}),
    staffing.too_many_members(3): (409, "too_many_members", [], {}),
    staffing.wrong_status("pay for", "Cancelled"): (
        409,
        "booking_status",
        [],
        {"booking_status": "Cancelled"},
    ),
    shifts.not_possible("verify", "Working"): (
        409,
        "time_log_status",
        [],
        {"time_log_status": "Working"},
    ),
    shifts.clock_in_refused("booking_suspended", "why"): (
        409,
        "clock_in_refused",
        [],
        {"reason": "insurance"},
    ),
    shifts.clock_in_refused("shift_cancelled", "why"): (
        409,
        "clock_in_refused",
        [],
        {"reason": "shift_cancelled"},
    ),
    disputes.dispute_too_late("Verified", AT): (
        409,
        "dispute_too_late",
        [],
        {"time_log_status": "Verified"},
    ),
    disputes.dispute_resolved("Settled"): (
        409,
        "dispute_status",
        [],
        {"dispute_status": "Settled"},
    ),
    disputes.incident_closed(): (409, "incident_closed", [], {}),
    payments.NothingDue("why"): (409, "nothing_due", [], {}),
    payments.PaymentPending("why"): (409, "payment_pending", [], {}),
    payments.PaymentContested("why"): (409, "payment_contested", [], {}),
    payments.CutoffPassed("why"): (409, "cutoff_passed", [], {}),
    insurance.not_active(): (409, "policy_inactive", [], {}),
    searches.too_many_searches(4): (409, "too_many_searches", [], {}),
    tokens.link_used(): (409, "magic_link_used", [], {}),
    tokens.link_expired(): (410, "magic_link_expired", [], {}),
}


def test_how_each_error_is_told() -> None:
    check_table(APP, marketplace, EXAMPLES)
