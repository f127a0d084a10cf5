"""The nouns of disputes: what is disputed about a shift, what is reported about one, and what is agreed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from timebell.apps.marketplace.models import dispute_subject, incident_subject

DisputeOption = Literal["A", "B"]
DisputeStatus = Literal["Open", "Settled", "Resolved", "Legal_Hold"]
Resolution = Literal["Settled", "Resolved", "Legal_Hold"]
IncidentStatus = Literal["Pending", "Closed"]
Side = Literal["borrower", "lender"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How much of what is frozen is the lender's, and how much goes back to the borrower."""

    lender: int
    borrower: int

    @property
    def total(self) -> int:
        return self.lender + self.borrower


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What one side would settle for."""

    side: Side
    settlement: Settlement
    proposed_by: str
    proposed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """What is disputed about a shift. `frozen` is what is kept for it until it is resolved: the shift's own money, and
    what is kept of the shifts that were cancelled since nobody resolved it in time, at `timed_out_at`."""

    id: UUID
    booking_id: UUID
    time_log_id: UUID
    dispute_option: DisputeOption
    status: DisputeStatus
    reason: str
    filed_by: str
    dispute_filed_at: datetime
    timeout_expiration_time: datetime
    timed_out_at: datetime | None
    resolved_at: datetime | None
    resolved_by: str | None
    settlement: Settlement | None
    proposals: Mapping[Side, Proposal]
    frozen: int
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        return dispute_subject(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """What became of the shifts to come of a booking whose dispute nobody resolved in time. `not_before`: it has time
    until then."""

    cancelled: Sequence[UUID] = ()
    failed: Sequence[UUID] = ()
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    id: UUID
    booking_id: UUID
    time_log_id: UUID
    dispute_option: DisputeOption
    status: IncidentStatus
    description: str
    reported_by: str
    reported_at: datetime
    closed_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        return incident_subject(self.id)
