"""Everything that is kept here about one person: their schedules and their tasks, in the order of the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

from timebell.apps.reminders.models import owner_of
from timebell.apps.reminders.store import ReminderStore
from timebell.kernel import Override, Schedule, Timebell, Transaction, encode_cursor

Line = Mapping[str, Any]


async def export(
    bell: Timebell, tx: Transaction, person: UUID, after: UUID | None, limit: int
) -> Sequence[Line]:
    """So many lines behind an id, and one more if there are more."""
    tasks = await ReminderStore(bell.clock).export_tasks(tx, user_id=person, after=after, limit=limit)
    schedules = await _schedules(bell, tx, person, after, limit)
    # Ids are written in the order that they have as numbers.
    return sorted(chain(tasks, schedules), key=lambda line: str(line["id"]))[: limit + 1]


async def _schedules(
    bell: Timebell, tx: Transaction, person: UUID, after: UUID | None, limit: int
) -> list[Line]:
    """Page after page: one ends early where its schedules are large, and a task behind its end would hide the rest."""
    cursor = None if after is None else encode_cursor("schedules", after)
    found: list[Schedule] = []
    while len(found) <= limit:
        wanted = min(limit, limit + 1 - len(found))
        page = await bell.schedules.list(tx, owner=owner_of(person), limit=wanted, cursor=cursor)
        found += page.lines
        cursor = page.next_cursor
        if cursor is None:
            break
    overrides = await bell.schedules.overrides(tx, [one.id for one in found])
    return [_line(one, overrides[one.id]) for one in found]


def _line(schedule: Schedule, overrides: Sequence[Override]) -> Line:
    until = schedule.until_local
    return {
        "is": "schedule",
        "id": str(schedule.id),
        **schedule.payload,
        "timezone": schedule.timezone,
        "start_local": schedule.start_local.isoformat(),
        "recurrence": schedule.recurrence,
        "until_local": None if until is None else until.isoformat(),
        "exdates": [each.isoformat() for each in schedule.exdates],
        "rdates": [each.isoformat() for each in schedule.rdates],
        "overrides": [
            {
                "original_local": each.original_local.isoformat(),
                "new_local": None if each.new_local is None else each.new_local.isoformat(),
            }
            for each in overrides
        ],
        "state": schedule.state,
        "state_reason": schedule.state_reason,
        "revision": schedule.revision,
        "created_at": schedule.created_at.isoformat(),
        "updated_at": schedule.updated_at.isoformat(),
    }
