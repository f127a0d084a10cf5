"""What is sent and answered about time logs, disputes and incidents, in the source's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from timebell.apps.marketplace.shifts.models import (
    Dispute,
    DisputeOption,
    DisputeStatus,
    Incident,
    IncidentStatus,
)
from timebell.web import Input, Instant, Output, PageQuery

Reason = Annotated[str, Field(min_length=1, max_length=1_000)]
Description = Annotated[str, Field(min_length=1, max_length=10_000)]


class EndInput(Input):
    """When work ended; without it, as the draft says, or now."""

    end: Instant | None = None


class EditInput(Input):
    """When work began and ended. While somebody works, `end` is when the shift is to end."""

    start: Instant | None = None
    end: Instant | None = None
    reason: Reason


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


class DisputesQuery(PageQuery):
    booking_id: UUID
    status: DisputeStatus | None = None


class IncidentsQuery(PageQuery):
    booking_id: UUID
    status: IncidentStatus | None = None


class DisputeRow(Output):
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
    settlement: Mapping[str, Any] | None
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
    return DisputeRow.model_validate(dispute)


def incident_row(incident: Incident) -> IncidentRow:
    return IncidentRow.model_validate(incident)
