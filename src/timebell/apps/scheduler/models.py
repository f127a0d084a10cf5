"""The nouns of this app: what is asked for, how it stands, and what became of asking."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args
from uuid import UUID

Misfire = Literal["fire_once", "fire_all", "skip"]
Status = Literal["pending", "done", "cancelled"]
MISFIRES: Final[tuple[str, ...]] = get_args(Misfire)
STATUSES: Final[tuple[str, ...]] = get_args(Status)

ID_BYTES_MAX: Final = 200
TIMEZONE: Final = "UTC"
MISFIRE: Final = "fire_once"

Reason = Literal[
    "too_large",
    "headers_too_large",
    "bad_headers",
    "not_utf8",
    "not_json",
    "not_an_object",
    "unknown_type",
    "no_id",
    "bad_id",
    "bad_tenant",
    "foreign_tenant",
    "no_time",
    "two_times",
    "bad_time",
    "bad_rule",
    "bad_timezone",
    "bad_misfire",
    "bad_payload",
    "cannot_be_stored",
]
REASONS: Final[tuple[str, ...]] = get_args(Reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """A message is to be published once, at an instant, or again and again, by a recurrence.

    A recurrence is read in its timezone from `start_at` on, or from when it was asked for. `payload` is JSON, as text:
    it is nobody's business here, and comes back as it was. `tenant` is the one that a message names.
    """

    id: str
    tenant: str | None = None
    due_at: datetime | None = None
    recurrence: str | None = None
    timezone: str = TIMEZONE
    start_at: datetime | None = None
    misfire: Misfire = MISFIRE
    payload: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCancel:
    """Nothing is to be published any more."""

    id: str
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """A message that nobody can ever do what it asks for, with a reason from a closed list and words for a person."""

    reason: Reason
    detail: str


Asked = ScheduleRequest | ScheduleCancel


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A request that was taken before, as far as another one like it has to be compared with it.

    `status` None is a tombstone: it was cancelled before anybody asked for it.
    """

    id: str
    due_at: datetime | None
    recurrence: str | None
    timezone: str | None
    start_at: datetime | None
    is_start_given: bool
    misfire: str | None
    job_id: UUID | None
    schedule_id: UUID | None
    status: Status | None
    is_same_payload: bool
    is_fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of one request.

    `queued`: it is new. `replaced`: another timing or payload took the place of the one before. `same`: it was known.
    `ignored`, for a reason: it is too late to change what it names, or was cancelled before it came.
    """

    id: str
    answer: Literal["queued", "replaced", "same", "ignored"]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """What became of one cancel.

    `cancelled`: nothing more is published. `too_late`: it is being published just now, or a row is held by another for
    so long that it cannot be said yet; it is not tried again. `over`: it had come to its end before. `unknown`: nobody
    has asked for it yet, and for a day nobody can.
    """

    id: str
    answer: Literal["cancelled", "too_late", "over", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRequest:
    """A request as it stands. `due_at` is the instant that was asked for; `upcoming_at` is when it fires next."""

    id: str
    tenant: str
    number: UUID
    status: Status
    due_at: datetime | None
    recurrence: str | None
    timezone: str | None
    start_at: datetime | None
    misfire: str | None
    payload: str | None
    correlation_id: str | None
    upcoming_at: datetime | None
    fired_count: int
    created_at: datetime
    updated_at: datetime
