"""Between schedules and their rows: what is stored, and what is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput
from timebell.kernel.models import Step
from timebell.kernel.schedules.models import Occurrence, Schedule, ScheduleTerms
from timebell.kernel.statements import Columns
from timebell.rules.planned import Override, Planned, ScheduleFacts, occurrence_id
from timebell.rules.planning import end_local

_DURATIONS = ("offset", "grace", "expires_after")
_STORED = tuple(each.name for each in fields(Step) if each.name not in ("at", "expires_at"))
_DEFAULTS = {each.name: each.default for each in fields(Step)}


def subject_of(occurrence: UUID) -> str:
    """The subject of an occurrence's agenda."""
    return f"occurrence:{occurrence}"


def encode_steps(steps: Sequence[Step]) -> str:
    """The steps of a schedule as JSON, without what has its default."""
    stored = []
    for step in steps:
        values = {name: getattr(step, name) for name in _STORED}
        stored.append(
            {
                name: value.total_seconds() if isinstance(value, timedelta) else value
                for name, value in values.items()
                if value != _DEFAULTS[name] and not (name == "payload" and not value)
            }
        )
    try:
        return orjson.dumps(stored, default=str).decode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a payload cannot be written as JSON: {error}", field="steps") from None


@lru_cache(maxsize=1_000)
def decode_steps(text: str) -> tuple[Step, ...]:
    """Most schedules of an app state the same steps."""
    return tuple(_step(stored) for stored in orjson.loads(text))


def _step(stored: dict[str, Any]) -> Step:
    durations = {name: timedelta(seconds=stored[name]) for name in _DURATIONS if name in stored}
    return Step(**{**stored, **durations})


def schedule_of(row: Row) -> Schedule:
    """A schedule from its row; JSON columns are read as text."""
    grace = row["grace_seconds"]
    return Schedule(
        id=row["id"],
        tenant=row["tenant"],
        owner=row["owner"],
        subject=row["subject"],
        recurrence=row["recurrence"],
        timezone=row["timezone"],
        start_local=row["start_local"],
        until_local=row["until_local"],
        last_local=row["last_local"],
        exdates=tuple(row["exdates"]),
        rdates=tuple(row["rdates"]),
        on_gap=row["on_gap"],
        on_fold=row["on_fold"],
        catch_up=row["catch_up"],
        catch_up_max=row["catch_up_max"],
        grace=None if grace is None else timedelta(seconds=grace),
        steps=decode_steps(row["steps"]),
        payload=orjson.loads(row["payload"]),
        correlation_id=row["correlation_id"],
        revision=row["revision"],
        parent_id=row["parent_id"],
        state=row["state"],
        state_reason=row["state_reason"],
        planned_until=_utc(row["planned_until"]),
        plan_at=None if row["plan_at"] is None else _utc(row["plan_at"]),
        timezone_version=row["timezone_version"],
        created_at=_utc(row["created_at"]),
        updated_at=_utc(row["updated_at"]),
    )


def occurrence_of(row: Row) -> Occurrence:
    values = {each.name: row[each.name] for each in fields(Occurrence)}
    return Occurrence(**{**values, "occurs_at": _utc(row["occurs_at"])})


def terms_of(schedule: Schedule) -> dict[str, Any]:
    """What was said about a schedule, apart from what became of it."""
    return {each.name: getattr(schedule, each.name) for each in fields(ScheduleTerms)}


def terms_columns(terms: ScheduleTerms, payload: str) -> dict[str, object]:
    """The parameters of `insert_schedule.sql` and `update_schedule.sql` that say what the terms are."""
    last_local = end_local(
        terms.recurrence,
        start_local=terms.start_local,
        until_local=terms.until_local,
        timezone=terms.timezone,
    )
    plain = ("owner", "subject", "recurrence", "timezone", "start_local", "until_local", "on_gap", "on_fold")
    return {
        **{name: getattr(terms, name) for name in (*plain, "catch_up", "catch_up_max", "correlation_id")},
        "last_local": last_local,
        "exdates": list(terms.exdates),
        "rdates": list(terms.rdates),
        "grace_seconds": None if terms.grace is None else terms.grace.total_seconds(),
        "steps": encode_steps(terms.steps),
        "lead_seconds": terms.facts(last_local).lead.total_seconds(),
        "payload": payload,
    }


def override_of(row: Row) -> Override:
    return Override(
        original_local=row["original_local"],
        fold=row["fold"],
        new_local=row["new_local"],
        payload=None if row["payload"] is None else orjson.loads(row["payload"]),
    )


def facts_of(schedule: Schedule) -> ScheduleFacts:
    return schedule.facts(schedule.last_local)


def occurrence_columns(planned: Sequence[tuple[Schedule, Planned]]) -> Columns:
    """The columns of `insert_occurrences.sql`: occurrences of one schedule or of many, each with its schedule."""
    return {
        "schedule_ids": [schedule.id for schedule, _ in planned],
        "tenants": [schedule.tenant for schedule, _ in planned],
        "original_locals": [one.original_local for _, one in planned],
        "folds": [one.fold for _, one in planned],
        **updated_columns(planned),
    }


def updated_columns(planned: Sequence[tuple[Schedule, Planned]]) -> Columns:
    """The columns of `update_occurrences.sql`: which occurrences, and what may change about them."""
    return {
        "ids": [occurrence_id(schedule.id, one.original_local, one.fold) for schedule, one in planned],
        "locals": [one.local for _, one in planned],
        "occurs_ats": [one.occurs_at for _, one in planned],
        "adjusteds": [one.adjusted for _, one in planned],
        "states": [one.state for _, one in planned],
        "revisions": [schedule.revision for schedule, _ in planned],
    }


def _utc(instant: datetime) -> datetime:
    """A driver may answer in its connection's zone, and an hour that comes twice there equals none."""
    return instant.astimezone(UTC)
