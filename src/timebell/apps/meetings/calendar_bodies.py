"""Request and response bodies about calendars."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import Field, model_validator

from timebell.apps.meetings.calendars import CalendarImport, ImportStatus
from timebell.rules.ics_reading import TEXT_CHARS_MAX
from timebell.web import Input, Instant, Output

UPLOAD_NAME: Final = "upload"
# Letters beyond ASCII take more than a byte, and in JSON so do the ends of lines.
CALENDAR_BYTES_MAX: Final = 2 * TEXT_CHARS_MAX


class CalendarInput(Input):
    """A calendar that says when the acting recipient is busy: a file in `ics`, or at a `url` that is read regularly."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")] | None = None
    ics: Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)] | None = None
    url: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None

    @model_validator(mode="after")
    def _one(self) -> CalendarInput:
        if (self.ics is None) == (self.url is None):
            raise ValueError("give ics or url, one of them")
        return self


class CalendarRow(Output):
    """An imported calendar. Its URL is as good as a password, so only the `host` is told again.

    `entry_count` entries come to `busy_count` times until `busy_until`; `skipped` says how many were left out, and why.
    """

    id: UUID
    name: str
    host: str | None
    status: ImportStatus
    reason: str | None
    entry_count: int
    busy_count: int
    skipped: dict[str, int]
    busy_until: Instant | None
    read_at: Instant | None
    created_at: Instant
    updated_at: Instant


def calendar_row(one: CalendarImport) -> CalendarRow:
    return CalendarRow(
        id=one.id,
        name=one.name,
        host=None if one.url is None else urlsplit(one.url).hostname,
        status=one.status,
        reason=one.reason,
        entry_count=one.entry_count,
        busy_count=one.busy_count,
        skipped=dict(one.skipped),
        busy_until=one.busy_until,
        read_at=one.read_at,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )
