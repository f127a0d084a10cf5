"""Request and response bodies about time logs, in the source's own words."""

from __future__ import annotations

from datetime import date, time
from typing import Annotated
from uuid import UUID

from pydantic import Field, PlainSerializer, WithJsonSchema

from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.web import Input, Instant, Output

Reason = Annotated[str, Field(min_length=1, max_length=1_000)]
WallTime = Annotated[
    time,
    PlainSerializer(lambda value: value.isoformat("auto"), when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["08:00:00"]}),
]


class EndInput(Input):
    """When work ended; without it, as the draft says, or now."""

    end: Instant | None = None


class EditInput(Input):
    """When work began and ended. While somebody works, `end` is when the shift is to end."""

    start: Instant | None = None
    end: Instant | None = None
    reason: Reason


class TimeLogRow(Output):
    """One shift. `scheduled_*` is what was booked, `work_*` what was worked; `clock_out_time` is when it was submitted,
    or when somebody was clocked out, and `auto_approval_time` when it is approved by itself."""

    id: UUID
    booking_id: UUID
    worker_id: UUID
    shift_date: date
    shift_start_time: WallTime
    scheduled_start: Instant
    scheduled_end: Instant | None
    clock_in_time: Instant | None
    draft_end: Instant | None
    clock_out_time: Instant | None
    work_start: Instant | None
    work_end: Instant | None
    worked_minutes: int | None
    status: ShiftStatus
    cancel_reason: str | None
    auto_approval_time: Instant | None
    extensions: int
    reminder_5m_job_id: UUID | None
    reminder_30m_job_id: UUID | None
    amount: int
    verified_at: Instant | None
    verified_by: str | None
    created_at: Instant
    updated_at: Instant
