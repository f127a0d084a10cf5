"""Request and response bodies about scheduled jobs. The names are those of the messages, which other services know."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from timebell.apps.scheduler.messages import (
    BODY_BYTES_MAX,
    LIMITS,
    REQUEST,
    TENANT_CHARS_MAX,
    exact_payload,
    read_instant,
)
from timebell.apps.scheduler.models import (
    ID_BYTES_MAX,
    MISFIRE,
    TIMEZONE,
    Misfire,
    ScheduledRequest,
    ScheduleRequest,
    Status,
)
from timebell.errors import InvalidInput, PayloadTooLarge
from timebell.rules.localtime import NAME_CHARS_MAX
from timebell.web import Input, Instant, Output, PageQuery, show_instant

_INSTANT_CHARS_MAX: Final = 40

# The kernel's names of what can be wrong, as callers know them.
NAMES: Final = {"due_at": "at", "recurrence": "rrule", "timezone": "tz", "start_local": "dtstart"}


def _short_enough(id: str) -> str:
    if len(id.encode()) > ID_BYTES_MAX:
        raise ValueError(f"use at most {ID_BYTES_MAX} bytes of UTF-8")
    return id


def _instant(value: object) -> datetime:
    """As in a message."""
    instant = read_instant(value) if isinstance(value, str) and len(value) <= _INSTANT_CHARS_MAX else None
    if instant is None:
        raise ValueError("give an instant with an offset, such as 2026-03-29T09:00:00Z (RFC 3339)")
    return instant


Id = Annotated[str, Field(min_length=1, max_length=ID_BYTES_MAX), AfterValidator(_short_enough)]
At = Annotated[Instant, BeforeValidator(_instant)]
Rule = Annotated[str, Field(min_length=1, max_length=LIMITS.text_chars, examples=["FREQ=DAILY"])]
Zone = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, examples=["Europe/Berlin"])]


class ScheduledJobInput(Input):
    """What a `ScheduleRequest` says; a message may be sent as it is. `at` is for once, `rrule` for again and again,
    read in `tz` (UTC if not given) from `dtstart` on (now if not given). `payload` comes back in each `ScheduleDue`. A
    `tenant` is the key's own, and can be left out."""

    id: Id
    at: At | None = None
    rrule: Rule | None = None
    dtstart: At | None = None
    tz: Zone | None = None
    misfire: Misfire | None = None
    payload: Any = None
    tenant: Annotated[str, Field(min_length=1, max_length=TENANT_CHARS_MAX)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_type(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("type") == REQUEST:
            return {name: value for name, value in given.items() if name != "type"}
        return given

    @model_validator(mode="after")
    def _one_of_two(self) -> ScheduledJobInput:
        if (self.at is None) == (self.rrule is None):
            raise ValueError("give at or rrule, one of them")
        return self

    def request(self, correlation_id: str, raw: bytes) -> ScheduleRequest:
        """The same as a message would ask for that has these bytes. What is due once has no timezone, no start and no
        misfire."""
        payload = _as_text(self.payload, raw)
        if self.rrule is None:
            return ScheduleRequest(id=self.id, due_at=self.at, payload=payload, correlation_id=correlation_id)
        return ScheduleRequest(
            id=self.id,
            recurrence=self.rrule,
            timezone=self.tz or TIMEZONE,
            start_at=None if self.dtstart is None else self.dtstart.replace(microsecond=0),
            misfire=self.misfire or MISFIRE,
            payload=payload,
            correlation_id=correlation_id,
        )


class ScheduledJobsQuery(PageQuery):
    status: Status | None = None


class ScheduledJobRow(Output):
    """A job and how it stands. `next_run_at` is when it fires next, null once it is `done` or `cancelled`; `fire_count`
    is how often it has fired. `dtstart` is the one in force, also where it was not given."""

    id: str
    status: Status
    at: Instant | None
    rrule: str | None
    dtstart: Instant | None
    tz: str | None
    misfire: Literal["fire_once", "fire_all", "skip"] | None
    next_run_at: Instant | None
    fire_count: int
    payload: Any
    created_at: Instant
    updated_at: Instant


def job_row(one: ScheduledRequest) -> dict[str, Any]:
    """As `ScheduledJobRow` has it. The payload stays the text that it came as, to the last digit."""
    return {
        "id": one.id,
        "status": one.status,
        "at": _shown(one.due_at),
        "rrule": one.recurrence,
        "dtstart": _shown(one.start_at),
        "tz": one.timezone,
        "misfire": one.misfire,
        "next_run_at": _shown(one.upcoming_at),
        "fire_count": one.fired_count,
        "payload": None if one.payload is None else orjson.Fragment(one.payload),
        "created_at": show_instant(one.created_at),
        "updated_at": show_instant(one.updated_at),
    }


def _shown(instant: datetime | None) -> str | None:
    return None if instant is None else show_instant(instant)


def _as_text(payload: Any, raw: bytes) -> str | None:
    if payload is None:
        return None
    try:
        encoded = exact_payload(payload, raw)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("it is nested too deeply; use at most 250 levels", field="payload") from None
    if len(encoded) > BODY_BYTES_MAX:
        raise PayloadTooLarge(
            f"the limit is {BODY_BYTES_MAX} bytes; keep the data and send its id", field="payload"
        )
    return encoded.decode()
