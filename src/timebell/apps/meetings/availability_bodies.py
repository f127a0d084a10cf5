"""Request and response bodies about availability, suggestions and holds. The names are the source's own."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta
from typing import Annotated, Final
from uuid import UUID

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from timebell.apps.meetings.bodies import SlotInput, SlotRow, Zone
from timebell.apps.meetings.free_time import Block, Hours, clock_of
from timebell.apps.meetings.models import PARTICIPANTS_MAX
from timebell.rules.every import read_duration
from timebell.web import Input, Instant, Output

WINDOW_DAYS_MAX: Final = 92
_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?|24:00(?::00)?")
_SHORTEST: Final = timedelta(minutes=5)
_LONGEST: Final = timedelta(days=1)


def _read_clock(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("give a time of day such as 09:00, or 24:00 for the end of the day")
    if match[1] is None:
        return timedelta(days=1)
    return timedelta(hours=int(match[1]), minutes=int(match[2]), seconds=int(match[3] or 0))


def _read_length(value: object) -> timedelta:
    length = timedelta(minutes=value) if type(value) is int and 0 <= value <= 100_000 else None
    if isinstance(value, str):
        length = read_duration(value)
    if length is None:
        raise ValueError("give a fixed time such as PT30M (ISO 8601), or a number of minutes")
    if not _SHORTEST <= length <= _LONGEST:
        raise ValueError("must be 5 minutes to 24 hours")
    return length


TimeOfDay = Annotated[
    timedelta,
    BeforeValidator(_read_clock),
    PlainSerializer(clock_of, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^({_CLOCK.pattern})$", "examples": ["09:00"]}),
]
Length = Annotated[
    timedelta,
    BeforeValidator(_read_length),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": "^PT([1-9]|1[0-9]|2[0-3])H$|^PT([5-9]|[1-9][0-9]{1,2})M$"},
                {"type": "integer", "minimum": 5, "maximum": 1_440},
            ],
            "examples": ["PT30M"],
        }
    ),
]
# Within the years that have a day before and after them, everywhere on earth.
Date = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2999, 12, 31))]
DayOfWeek = Annotated[int, Field(ge=0, le=6)]
Participants = Annotated[list[UUID], Field(min_length=1, max_length=PARTICIPANTS_MAX)]


class BlockInput(Input):
    """Hours in which one may be met. `day_of_week` 0 is Sunday; `end_time` may be 24:00.

    Without `is_recurring` only the first such weekday since `valid_from` is meant.
    """

    day_of_week: DayOfWeek
    start_time: TimeOfDay
    end_time: TimeOfDay
    timezone: Zone
    is_recurring: bool = True
    valid_from: Date | None = None
    valid_until: Date | None = None

    def hours(self) -> Hours:
        return Hours(
            day_of_week=self.day_of_week,
            start=self.start_time,
            end=self.end_time,
            timezone=self.timezone,
            is_recurring=self.is_recurring,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
        )


class BlockEdit(Input):
    """What to change; what is left out stays. Null takes a date away."""

    day_of_week: DayOfWeek | None = None
    start_time: TimeOfDay | None = None
    end_time: TimeOfDay | None = None
    timezone: Zone | None = None
    is_recurring: bool | None = None
    valid_from: Date | None = None
    valid_until: Date | None = None

    @model_validator(mode="after")
    def _needed(self) -> BlockEdit:
        for name in self.model_fields_set - {"valid_from", "valid_until"}:
            if getattr(self, name) is None:
                raise ValueError(f"{name} is needed; leave it out to keep it")
        return self

    def hours(self, old: Hours) -> Hours:
        names = {"start_time": "start", "end_time": "end"}
        given = {names.get(name, name): getattr(self, name) for name in self.model_fields_set}
        return replace(old, **given)


class BlockRow(Output):
    """A block of a person's availability."""

    id: UUID
    user_id: UUID
    day_of_week: int
    start_time: TimeOfDay
    end_time: TimeOfDay
    timezone: str
    is_recurring: bool
    valid_from: date | None
    valid_until: date | None
    created_at: Instant
    updated_at: Instant


class Wish(Input):
    """Whom to meet, besides whoever asks, for how long and when. A slot is suggested in each `interval`, which is
    the duration if it is not given."""

    participants: Participants
    duration: Length
    window: SlotInput
    interval: Length | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 10

    @model_validator(mode="after")
    def _short(self) -> Wish:
        if self.window.end - self.window.start > timedelta(days=WINDOW_DAYS_MAX):
            raise ValueError(f"window must be {WINDOW_DAYS_MAX} days or less; ask for one after the other")
        return self


class HoldInput(Input):
    """Which of the proposed slots to keep free, and for how many minutes."""

    slot: SlotInput
    minutes: Annotated[int, Field(ge=1, le=60)] = 10


class HoldRow(Output):
    """A slot that somebody keeps free, until it expires."""

    id: UUID
    meeting_id: UUID
    held_by: UUID
    slot: SlotRow
    expires_at: Instant


def block_row(block: Block) -> BlockRow:
    hours = block.hours
    return BlockRow(
        id=block.id,
        user_id=block.user_id,
        day_of_week=hours.day_of_week,
        start_time=hours.start,
        end_time=hours.end,
        timezone=hours.timezone,
        is_recurring=hours.is_recurring,
        valid_from=hours.valid_from,
        valid_until=hours.valid_until,
        created_at=block.created_at,
        updated_at=block.updated_at,
    )
