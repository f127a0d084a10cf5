"""Refusals about disputes: errors in words that name the remedy."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.disputes.models import DisputeStatus
from timebell.apps.marketplace.refusals import MarketplaceRefused, WrongField, wrong_field
from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.refusals import NotAllowed
from timebell.errors import NotFound

# As the pages explain them that a refusal points to.
CODES: Final = {
    "dispute_too_late": (
        "A dispute is filed before a timesheet is verified, and no later than when it is approved by itself."
    ),
    "dispute_status": (
        "The dispute is resolved, or not to be resolved in that way any more. Read it again; `dispute_status` is what "
        "became of it."
    ),
    "incident_closed": "The report was closed before.",
}


class DisputeTooLate(MarketplaceRefused):
    """A dispute is filed while a timesheet waits to be verified. `time_log_status` is the state that it is in."""

    def __init__(self, message: str, time_log_status: ShiftStatus) -> None:
        super().__init__(message)
        self.time_log_status = time_log_status


class WrongDisputeStatus(MarketplaceRefused):
    """A dispute is resolved already."""

    def __init__(self, message: str, status: DisputeStatus) -> None:
        super().__init__(message)
        self.status = status


class IncidentClosed(MarketplaceRefused):
    """A report was closed before."""


def no_dispute(id: UUID) -> NotFound:
    return NotFound(f"there is no dispute {id}")


def no_incident(id: UUID) -> NotFound:
    return NotFound(f"there is no incident report {id}")


def dispute_too_late(status: ShiftStatus, deadline: datetime | None) -> DisputeTooLate:
    until = "" if deadline is None else f", by {deadline.isoformat()} at the latest"
    return DisputeTooLate(
        f"the time log is {status}; a dispute is filed while it waits to be verified{until}", status
    )


def dispute_resolved(status: DisputeStatus) -> WrongDisputeStatus:
    return WrongDisputeStatus(f"the dispute is {status} already; read it again", status)


def only_by_settlement() -> NotAllowed:
    detail = "admins resolve by `Settled`, with a settlement that those of the other side propose too"
    return NotAllowed(f"{detail}; for anything else use an admin key")


def settlement_needed(frozen: int) -> WrongField:
    return wrong_field(
        "settlement", f"is needed; divide what is frozen, {frozen}, between lender and borrower"
    )


def settlement_unwanted() -> WrongField:
    return wrong_field(
        "settlement", "has no place in a legal hold, which keeps everything frozen; leave it out"
    )


def settlement_differs(total: int, frozen: int) -> WrongField:
    return wrong_field("settlement", f"adds up to {total}; divide what is frozen, which is {frozen}")


def incident_closed() -> IncidentClosed:
    return IncidentClosed("the report is closed; report what is new as another one")
