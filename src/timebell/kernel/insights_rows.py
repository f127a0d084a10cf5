"""The records that `Insights` answers with, from their rows."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.kernel.insights_journey import time_of_id
from timebell.kernel.insights_records import (
    Accuracy,
    DeadJob,
    EventLine,
    FailureGroup,
    JobLine,
    PauseLine,
    QueueDepth,
)

_LINE_FIELDS = tuple(field.name for field in fields(JobLine))


def depth_of(
    row: Row, is_cut: bool, accuracy: Accuracy, counts: dict[str, int], retrying: dict[str, int]
) -> QueueDepth:
    future = counts.get(row["queue"], 0)
    if accuracy == "estimate":
        future = max(0, future - row["due_count"] - row["started_count"] - row["parked_count"])
    return QueueDepth(
        queue=row["queue"],
        due_count=row["due_count"],
        started_count=row["started_count"],
        parked_count=row["parked_count"],
        retrying_count=retrying.get(row["queue"], 0),
        is_at_least=is_cut,
        future_count=future,
        future_accuracy=accuracy,
        oldest_due_at=row["oldest_due_at"],
        lateness_seconds=row["lateness_seconds"],
    )


def failure_group(row: Row, count_max: int) -> FailureGroup:
    known = {field.name: row[field.name] for field in fields(FailureGroup) if field.name in row}
    known["job_count"] = min(row["job_count"], count_max)
    return FailureGroup(**known, example_id=plain_id(row["id"]), is_at_least=row["job_count"] > count_max)


def dead_job(row: Row) -> DeadJob:
    known = {field.name: row[field.name] for field in fields(DeadJob)}
    return DeadJob(**{**known, "id": plain_id(row["id"]), "payload": orjson.loads(row["payload"])})


def dead_line(row: Row) -> JobLine:
    return job_line({**row, "state": "dead", "finished_at": row["died_at"]})


def job_line(row: Row) -> JobLine:
    """A line of whatever the read knows. The log does not say when a job was enqueued, but its id does."""
    known = {name: row[name] for name in _LINE_FIELDS if row.get(name) is not None}
    created_at: datetime | None = known.pop("created_at", None) or time_of_id(row["id"])
    return JobLine(**{**known, "id": plain_id(row["id"])}, created_at=created_at)


def plain_id(id: UUID) -> UUID:
    """The driver's own kind of UUID is not fit for JSON."""
    return UUID(int=id.int)


def event_line(row: Row) -> EventLine:
    known = {field.name: row[field.name] for field in fields(EventLine)}
    return EventLine(**{**known, "id": plain_id(row["id"]), "data": orjson.loads(row["data"])})


def pause_line(row: Row) -> PauseLine:
    return PauseLine(
        tenant=row["tenant"] or None, reason=row["reason"], actor=row["actor"], paused_at=row["paused_at"]
    )
