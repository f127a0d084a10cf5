"""Request and response bodies about disputes and incidents, in the source's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from timebell.apps.marketplace.disputes.models import (
    Dispute,
    DisputeOption,
    DisputeStatus,
    Incident,
    IncidentStatus,
    Proposal,
    Resolution,
    Side,
)
from timebell.apps.marketplace.shifts.bodies import Reason
from timebell.web import Input, Instant, Output, PageQuery

_AMOUNT_MAX: Final = 10**15
Amount = Annotated[int, Field(ge=0, le=_AMOUNT_MAX)]
Description = Annotated[str, Field(min_length=1, max_length=10_000)]


class DisputeInput(Input):
    """`A` disputes the shift only, `B` ends the booking too."""

    time_log_id: UUID
    option: DisputeOption
    reason: Reason


class IncidentInput(Input):
    """What happened in a shift."""

    time_log_id: UUID
    option: DisputeOption
    description: Description


class SettlementInput(Input):
    """How much of what is frozen is the lender's, and how much goes back to the borrower, in minor units."""

    lender: Amount
    borrower: Amount


class ResolveInput(Input):
    """How a dispute ends. Without a settlement `Resolved` gives all that is frozen to the lender."""

    status: Resolution
    settlement: SettlementInput | None = None


class DisputesQuery(PageQuery):
    booking_id: UUID
    status: DisputeStatus | None = None


class IncidentsQuery(PageQuery):
    booking_id: UUID
    status: IncidentStatus | None = None


class SettlementRow(Output):
    lender: int
    borrower: int


class ProposalRow(Output):
    """What the admins of one side would settle for. It is settled when those of the other propose the same."""

    side: Side
    lender: int
    borrower: int
    proposed_by: str
    proposed_at: Instant


class DisputeRow(Output):
    """`frozen` is what is kept for the dispute until it is resolved; a settlement adds up to it. `timed_out_at` is when
    the shifts to come were cancelled, since nobody had resolved it."""

    id: UUID
    booking_id: UUID
    time_log_id: UUID
    dispute_option: DisputeOption
    status: DisputeStatus
    reason: str
    filed_by: str
    dispute_filed_at: Instant
    timeout_expiration_time: Instant
    timed_out_at: Instant | None
    resolved_at: Instant | None
    resolved_by: str | None
    settlement: SettlementRow | None
    proposals: Sequence[ProposalRow]
    frozen: int
    created_at: Instant
    updated_at: Instant


class IncidentRow(Output):
    id: UUID
    booking_id: UUID
    time_log_id: UUID
    dispute_option: DisputeOption
    status: IncidentStatus
    description: str
    reported_by: str
    reported_at: Instant
    closed_at: Instant | None
    created_at: Instant
    updated_at: Instant


def dispute_row(dispute: Dispute) -> DisputeRow:
    values = {name: getattr(dispute, name) for name in DisputeRow.model_fields if name != "proposals"}
    proposals = [_proposal_row(proposal) for proposal in dispute.proposals.values()]
    return DisputeRow.model_validate({**values, "proposals": proposals})


def incident_row(incident: Incident) -> IncidentRow:
    return IncidentRow.model_validate(incident)


def _proposal_row(proposal: Proposal) -> ProposalRow:
    settlement = proposal.settlement
    return ProposalRow(
        side=proposal.side,
        lender=settlement.lender,
        borrower=settlement.borrower,
        proposed_by=proposal.proposed_by,
        proposed_at=proposal.proposed_at,
    )
