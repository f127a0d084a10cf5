"""The nouns of calendars: those that people have elsewhere and import, and what the one shows that they have here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import orjson

from timebell.rules.ics_reading import BusyEntry, ReadCalendar

ImportStatus = Literal["waiting", "read", "failed"]

IMPORTS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarImport:
    """A calendar that says when a person is busy: one that was uploaded, or one at a `url` that is read regularly.

    `entry_count` entries come to `busy_count` times until `busy_until`. `skipped` says how many could not be read, and
    why. One that `failed` was not read the last time, and says what it said before.
    """

    id: UUID
    user_id: UUID
    name: str
    url: str | None
    status: ImportStatus
    reason: str | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    entry_count: int = 0
    busy_count: int = 0
    busy_until: datetime | None = None
    read_at: datetime | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        return import_subject(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """What an imported calendar is read from again: where it lies, or what was read of it at `read_at`, as stored."""

    user_id: UUID
    url: str | None
    entries: str
    skipped: str
    read_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMeeting:
    """A meeting as a calendar shows it."""

    root_id: UUID
    sequence: int
    title: str
    description: str
    location: str | None
    start: datetime
    end: datetime
    updated_at: datetime


def uid_of(root_id: UUID) -> str:
    """What calendar programs know a meeting by. It is the lineage's, so that one that was moved is the same entry."""
    return f"{root_id}@timebell"


def import_subject(id: UUID) -> str:
    """Under which name the kernel keeps what is owed about an imported calendar."""
    return f"calendar-import:{id}"


def stored_entries(entries: Iterable[BusyEntry]) -> str:
    return orjson.dumps([_stored(entry) for entry in entries]).decode()


def read_entries(entries: str, skipped: str) -> ReadCalendar:
    """What was stored of a calendar."""
    return ReadCalendar(
        entries=tuple(map(_entry_of, orjson.loads(entries))),
        skipped=orjson.loads(skipped),
    )


def _stored(entry: BusyEntry) -> dict[str, Any]:
    """An entry as it is stored, without what is at its default."""
    whole: dict[str, Any] = {"start_local": entry.start_local.isoformat()}
    for name in ("timezone", "days", "seconds", "recurrence"):
        if value := getattr(entry, name):
            whole[name] = value
    for name in ("rdates", "exdates"):
        if dates := getattr(entry, name):
            whole[name] = [date.isoformat() for date in dates]
    return whole


def _entry_of(stored: Mapping[str, Any]) -> BusyEntry:
    dates = {
        name: tuple(datetime.fromisoformat(text) for text in stored[name])
        for name in ("rdates", "exdates")
        if name in stored
    }
    return BusyEntry(**{**stored, "start_local": datetime.fromisoformat(stored["start_local"]), **dates})
