"""Terms of a job, a schedule or a recipient, as keyword arguments. What is left out is not sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict


class JobTerms(TypedDict, total=False):
    """`due_at` or `delay`, or neither for at once. A `key` is your own name for it while it is unfinished."""

    payload: Mapping[str, Any]
    due_at: datetime
    delay: timedelta
    subject: str
    key: str
    key_lifetime: timedelta
    queue: str
    expires_at: datetime
    priority: int
    urgency: str
    max_attempts: int
    guard: str
    correlation_id: str
    on_conflict: str


class NewJob(JobTerms):
    kind: Required[str]


class StepTerms(TypedDict, total=False):
    """What each occurrence owes, at an offset from it."""

    key: Required[str]
    kind: Required[str]
    offset: Required[timedelta]
    payload: Mapping[str, Any]
    late: str
    grace: timedelta | None
    expires_after: timedelta | None
    guard: str | None
    queue: str | None
    priority: int
    urgency: str
    max_attempts: int | None
    ordered: bool
    once: bool
    cut_off: str


class _Recurring(TypedDict, total=False):
    recurrence: str | None
    until_local: datetime | None
    exdates: Sequence[datetime]
    rdates: Sequence[datetime]
    on_gap: str
    on_fold: str
    catch_up: str
    catch_up_max: int
    grace: timedelta | None
    payload: Mapping[str, Any]
    owner: str | None
    subject: str | None


class ScheduleTerms(_Recurring, total=False):
    """All `*_local` and the dates are wall times of the timezone, without an offset."""

    timezone: str
    start_local: datetime
    steps: Sequence[StepTerms]


class NewSchedule(_Recurring, total=False):
    timezone: Required[str]
    start_local: Required[datetime]
    steps: Required[Sequence[StepTerms]]
    correlation_id: str


class PreviewTerms(TypedDict, total=False):
    timezone: str
    start_local: datetime
    count: int
    after: datetime
    until_local: datetime
    exdates: Sequence[datetime]
    rdates: Sequence[datetime]
    on_gap: str
    on_fold: str


class QuietHoursTerms(TypedDict, total=False):
    """On the recipient's own clock, as "22:00"; Monday is day 0."""

    start: Required[str]
    end: Required[str]
    days: Sequence[int]
    time_bound: Literal["pass", "hold"]
    channels: Sequence[str]


class _About(TypedDict, total=False):
    external_id: str | None
    email: str | None
    phone: str | None
    timezone: str
    language: str
    channel_preference: str | None
    whatsapp_opt_in: bool
    quiet_hours: QuietHoursTerms | None


class RecipientTerms(_About, total=False):
    name: str


class NewRecipient(_About):
    name: Required[str]
