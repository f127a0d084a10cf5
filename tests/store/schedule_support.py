"""What the tests of schedules share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.store.support import Tables
from timebell.kernel import Step, Timebell
from timebell.kernel.schedules.models import OccurrenceChange, Schedule, ScheduleChange

DAY = timedelta(days=1)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


def step(key: str, hours: float | None = 0, **options: Any) -> Step:
    offset = None if hours is None else timedelta(hours=hours)
    return Step(**{"key": key, "kind": "office.ring", "offset": offset, **options})


async def create(bell: Timebell, tenant: str = "default", **terms: Any) -> ScheduleChange:
    async with bell.transaction(tenant=tenant) as tx:
        return await bell.schedules.create(
            tx, **{"timezone": "Europe/Berlin", "steps": [step("start", 0)], **terms}
        )


def fires(changes: Iterable[OccurrenceChange]) -> dict[str, list[str]]:
    """The steps by the wall time of their occurrence."""
    return {one.original_local.isoformat(timespec="minutes"): list(one.steps) for one in changes}


async def pending(tables: Tables) -> set[tuple[str, datetime]]:
    return {(row["step"], row["due_at"]) for row in await tables.jobs()}


NOON = local("2027-03-02T12:00")
# The eve of the first occurrence is past already.
STEPS = [step("eve", -30), step("start", 0)]


async def daily(bell: Timebell, count: int = 4, **terms: Any) -> Schedule:
    """From the day after now, at noon in UTC."""
    stated = {
        "recurrence": f"FREQ=DAILY;COUNT={count}",
        "start_local": NOON,
        "timezone": "UTC",
        "steps": STEPS,
    }
    return (await create(bell, **{**stated, **terms})).schedule


async def call(bell: Timebell, verb: str, id: UUID, *arguments: Any, **options: Any) -> ScheduleChange:
    async with bell.transaction() as tx:
        change: ScheduleChange = await getattr(bell.schedules, verb)(tx, id, *arguments, **options)
        return change


def lists(change: ScheduleChange) -> dict[str, dict[str, list[str]]]:
    names = ("kept", "moved", "added", "withdrawn", "too_late")
    return {name: fires(getattr(change.diff, name)) for name in names if getattr(change.diff, name)}


def at(day: int, steps: list[str] | None = None, hour: int = 12) -> dict[str, list[str]]:
    return {f"2027-03-{day:02}T{hour:02}:00": ["eve", "start"] if steps is None else steps}


def days(*numbers: int, steps: list[str] | None = None) -> dict[str, list[str]]:
    return {key: value for number in numbers for key, value in at(number, steps).items()}


async def states(tables: Tables) -> dict[str, str]:
    rows = await tables.rows("SELECT original_local, state FROM timebell.occurrences ORDER BY original_local")
    return {row["original_local"].isoformat(timespec="minutes"): row["state"] for row in rows}
