"""A time log as callers get it, with the names that the source has for its fields."""

from __future__ import annotations

from datetime import date, time
from typing import Annotated
from uuid import UUID

from pydantic import PlainSerializer, WithJsonSchema

from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.web import Instant, Output

WallTime = Annotated[
    time,
    PlainSerializer(lambda value: value.isoformat("auto"), when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["08:00:00"]}),
]


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
