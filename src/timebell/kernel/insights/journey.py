"""The journey of one job, put together from its row, the log and the events.

`at` is shown, but entries are in the order in which they were written down: a sandbox moves the first clock
and never the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.kernel.insights.records import AgendaLine, JobLine, Journey, JourneyEntry

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_PENDING_WORDS = {
    "moved": "moved",
    "retry": "retried",
    "revived": "revived",
    "snoozed": "snoozed",
    "uncertain": "uncertain",
}
Dated = tuple[datetime, JourneyEntry]


def time_of_id(id: UUID) -> datetime | None:
    """When a UUIDv7 was made, to the millisecond; other ids do not tell."""
    if id.version != 7:
        return None
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=id.int >> 80)


def build_journey(
    job: JobLine,
    *,
    incarnation: int | None,
    agenda: Row | None,
    log: Sequence[Row],
    events: Sequence[Row],
    is_cut: bool,
) -> Journey:
    dated = [
        *_beginning(job, log),
        *(entry for row in events for entry in _event(row)),
        *_logged(log),
        *_present(job, incarnation, log),
    ]
    # Sorting is stable: of what was written in one transaction, the order of the sources decides.
    entries = tuple(entry for _, entry in sorted(dated, key=lambda pair: pair[0]))
    return Journey(
        job=job, agenda=_agenda_line(job, agenda), entries=(*entries, *_to_come(job)), is_cut=is_cut
    )


def _beginning(job: JobLine, log: Sequence[Row]) -> Iterator[Dated]:
    if job.created_at is None:
        return
    # An id is made by the caller's clock, which may be ahead of the one that wrote the log.
    written_at = min([job.created_at, *(row["logged_at"] for row in log)])
    # A job that was moved since was due at another time when it was enqueued, and nothing remembers which.
    was_moved = any(row["reason"] == "moved" for row in log)
    details = _known(
        kind=job.kind,
        queue=job.queue,
        subject=job.subject,
        key=job.key,
        step=job.step,
        due_at=None if was_moved else job.due_at,
        expires_at=job.expires_at,
        correlation_id=job.correlation_id,
    )
    yield written_at, JourneyEntry(at=job.created_at, what="enqueued", reason=None, details=details)


def _event(row: Row) -> Iterator[Dated]:
    details = _known(
        name=row["name"],
        subject=row["subject"],
        actor=row["actor"],
        correlation_id=row["correlation_id"],
        data=orjson.loads(row["data"]) or None,
    )
    yield row["recorded_at"], JourneyEntry(at=row["occurred_at"], what="event", reason=None, details=details)


def _logged(log: Sequence[Row]) -> Iterator[Dated]:
    """What the log tells: each attempt that began, and what came of it. Its order is that of the versions."""
    written_at = _LONG_AGO
    for row in log:
        began, ended = _attempt(row), _outcome(row)
        lasted = max(timedelta(0), ended.at - began.at) if began else timedelta(0)
        if began is not None:
            written_at = max(written_at, row["logged_at"] - lasted)
            yield written_at, began
        written_at = max(written_at, row["logged_at"])
        yield written_at, ended


def _attempt(row: Row) -> JourneyEntry | None:
    if row["started_at"] is None:
        return None
    details = {**_run_by(row), "lateness_seconds": _seconds_after(row["due_at"], row["started_at"])}
    return JourneyEntry(at=row["started_at"], what="started", reason=None, details=details)


def _outcome(row: Row) -> JourneyEntry:
    what = _word_for(row)
    details = _known(
        **_run_by(row),
        error_class=row["error_class"],
        error=row["error"],
        actor=row["actor"],
        due_at=row["due_at"] if what == "moved" else None,
    )
    return JourneyEntry(at=row["finished_at"], what=what, reason=row["reason"], details=details)


def _run_by(row: Row) -> dict[str, Any]:
    return _known(attempt=row["attempt"] or None, node=row["node"], incarnation=row["incarnation"])


def _seconds_after(due_at: datetime, at: datetime) -> float:
    return max(0.0, (at - due_at).total_seconds())


def _word_for(row: Row) -> str:
    """A handler may give a snooze any reason; what failed carries the class of its error."""
    if row["state"] != "pending":
        return "discarded" if row["state"] == "dead" and row["reason"] == "discarded" else str(row["state"])
    return _PENDING_WORDS.get(row["reason"], "snoozed" if row["error_class"] is None else "retried")


def _present(job: JobLine, incarnation: int | None, log: Sequence[Row]) -> Iterator[Dated]:
    """What the job's own row tells and the log does not: the attempt that runs, a death that was pruned."""
    last = max((row["logged_at"] for row in log), default=_LONG_AGO)
    if job.state == "running" and job.started_at is not None:
        details = _known(
            attempt=job.attempt,
            node=job.node,
            incarnation=incarnation,
            lateness_seconds=_seconds_after(job.due_at, job.started_at),
        )
        began = JourneyEntry(at=job.started_at, what="started", reason=None, details=details)
        yield max(last, job.started_at), began
    if job.cancel_requested_at is not None:
        asked = JourneyEntry(at=job.cancel_requested_at, what="cancel_requested", reason=None, details={})
        yield max(last, job.cancel_requested_at), asked
    if job.state == "dead" and job.finished_at is not None and all(row["state"] != "dead" for row in log):
        details = _known(attempt=job.attempt, error_class=job.error_class, error=job.error)
        died = JourneyEntry(at=job.finished_at, what="dead", reason=job.reason, details=details)
        yield max(last, job.finished_at), died


def _to_come(job: JobLine) -> Iterator[JourneyEntry]:
    if job.state == "pending" and job.run_at is not None:
        yield JourneyEntry(at=job.run_at, what="due", reason=job.reason, details={"attempt": job.attempt + 1})


def _agenda_line(job: JobLine, agenda: Row | None) -> AgendaLine | None:
    if job.subject is None or job.step is None:
        return None
    return AgendaLine(
        subject=job.subject,
        step=job.step,
        planned_revision=job.revision,
        revision=agenda["revision"] if agenda else None,
        anchor=agenda["anchor"] if agenda else None,
        updated_at=agenda["updated_at"] if agenda else None,
    )


def _known(**details: Any) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None}
