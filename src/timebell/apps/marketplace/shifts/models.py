"""The nouns of shifts. A shift is what the source calls a time log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal
from uuid import UUID

from timebell.apps.marketplace.models import time_log_subject

ShiftStatus = Literal[
    "Scheduled", "Working", "Draft", "Pending_Verification", "Verified", "Disputed", "Cancelled"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One shift. `scheduled_*` is what was booked and `work_*` what was worked.

    `clock_out_time` is when it was submitted or forced, by the server's clock, and nothing else; a draft keeps what it
    says in `draft_end`. `end_stated_at` is when it was last said, of a shift that is worked, when it ends.
    `auto_approval_time` is when it is approved by itself, with every extension.
    """

    id: UUID
    tenant: str
    booking_id: UUID
    worker_id: UUID
    shift_date: date
    shift_start_time: time
    scheduled_start: datetime
    scheduled_end: datetime | None
    end_stated_at: datetime | None
    clock_in_time: datetime | None
    draft_end: datetime | None
    clock_out_time: datetime | None
    work_start: datetime | None
    work_end: datetime | None
    worked_minutes: int | None
    status: ShiftStatus
    cancel_reason: str | None
    auto_approval_time: datetime | None
    extensions: int
    reminder_5m_job_id: UUID | None
    reminder_30m_job_id: UUID | None
    amount: int
    verified_at: datetime | None
    verified_by: str | None
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        return time_log_subject(self.id)
