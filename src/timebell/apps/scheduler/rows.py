"""Between requests and their rows: what is written, and what is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from timebell.apps.scheduler.models import Known, ScheduledRequest, ScheduleRequest
from timebell.apps.scheduler.rules import in_utc
from timebell.apps.scheduler.store import Columns, Row
from timebell.kernel import Enqueue

FIRE: Final = "scheduler.fire"
_CORRELATION_CHARS_MAX: Final = 200
# What is due once does not have, and the number, which is that of its job.
_NOT_ONCE: Final = (
    "numbers",
    "recurrences",
    "timezones",
    "start_ats",
    "starts_given",
    "misfires",
    "schedule_ids",
)


@dataclass(slots=True, kw_only=True)
class Place:
    """One name in a batch: what is known under it, and what is to be written."""

    known: Known | None
    request: ScheduleRequest | None = None
    start_at: datetime | None = None
    job_id: UUID | None = None
    schedule_id: UUID | None = None
    number: UUID | None = None


def correlation_id_of(request: ScheduleRequest) -> str | None:
    """The kernel's are shorter than those of AMQP; the row has it whole."""
    given = request.correlation_id
    return given if given is not None and len(given) <= _CORRELATION_CHARS_MAX else None


def job_of(request: ScheduleRequest) -> Enqueue:
    return Enqueue(
        kind=FIRE,
        payload={"id": request.id},
        due_at=request.due_at,
        correlation_id=correlation_id_of(request),
    )


def columns_of_new(requests: Sequence[tuple[ScheduleRequest, UUID]]) -> Columns:
    """Requests that are due once, each with its job, whose id is also its number."""
    jobs = [job_id for _, job_id in requests]
    correlation_ids = [one.correlation_id for one, _ in requests]
    return {
        "ids": [one.id for one, _ in requests],
        "due_ats": [one.due_at for one, _ in requests],
        "payloads": [one.payload for one, _ in requests],
        "correlation_ids": correlation_ids if any(correlation_ids) else [],
        "job_ids": jobs,
        **{name: [] for name in _NOT_ONCE},
    }


def columns_of(places: Sequence[Place]) -> Columns:
    requests = [place.request for place in places if place.request is not None]
    recurring = [place.request is not None and place.request.recurrence is not None for place in places]
    columns: Columns = {
        "ids": [one.id for one in requests],
        "due_ats": [one.due_at for one in requests],
        "recurrences": [one.recurrence for one in requests],
        "timezones": [
            one.timezone if again else None for one, again in zip(requests, recurring, strict=True)
        ],
        "start_ats": [place.start_at for place in places],
        "starts_given": [
            one.start_at is not None if again else None
            for one, again in zip(requests, recurring, strict=True)
        ],
        "misfires": [one.misfire if again else None for one, again in zip(requests, recurring, strict=True)],
        "payloads": [one.payload for one in requests],
        "correlation_ids": [one.correlation_id for one in requests],
        "job_ids": [place.job_id for place in places],
        "schedule_ids": [place.schedule_id for place in places],
    }
    # unnest fills up what is not there.
    return {
        name: values if any(value is not None for value in values) else [] for name, values in columns.items()
    }


def known_of(held: Row, standing: Row | None) -> Known:
    return Known(
        id=held["id"],
        due_at=held["due_at"],
        recurrence=held["recurrence"],
        timezone=held["timezone"],
        start_at=in_utc(held["start_at"]),
        is_start_given=held["is_start_given"],
        misfire=held["misfire"],
        job_id=held["job_id"],
        schedule_id=held["schedule_id"],
        status=None if standing is None else standing["status"],
        is_same_payload=standing is not None and standing["is_same_payload"],
        is_fresh=bool(held["is_fresh"]),
    )


def request_of(row: Row, id: str, number: UUID) -> ScheduledRequest:
    names = ScheduledRequest.__dataclass_fields__.keys() - {"id", "number"}
    return ScheduledRequest(id=id, number=UUID(int=number.int), **{name: in_utc(row[name]) for name in names})
