"""Field types of bodies and queries: pydantic at the edge, plain records inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from timebell.kernel.models import NAME_MAX
from timebell.kernel.paging import PAGE_MAX, Page
from timebell.rules.every import is_calendar_duration, read_duration
from timebell.rules.localtime import show_instant

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[Zz]|[+-]\d\d:\d\d)")
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_DURATION = (
    "P([0-9]{1,5}W|[0-9]{1,5}D|([0-9]{1,5}D)?T([0-9]{1,6}H([0-9]{1,6}M)?([0-9]{1,6}S)?"
    "|[0-9]{1,6}M([0-9]{1,6}S)?|[0-9]{1,6}S))"
)
_LONGEST = timedelta(days=36_525)
_DURATION_CHARS_MAX = 100


class Input(BaseModel):
    """What a caller sends. A name that is not known is refused: it is a mistake, and the caller wants to hear of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Output(BaseModel):
    """What a caller gets."""

    model_config = ConfigDict(from_attributes=True)


Line = TypeVar("Line")
Shown = TypeVar("Shown")


class Listed(Output, Generic[Shown]):
    """A page of a list."""

    data: list[Shown]
    next_cursor: str | None = None
    has_more: bool = False


class PageQuery(Input):
    """How much of a list, and from where."""

    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, strict=False)] = 50
    cursor: Annotated[str, Field(min_length=1, max_length=400)] | None = None


def listed(page: Page[Line], shown: Callable[[Line], Shown]) -> dict[str, Any]:
    """A page of the kernel or of notify as it is answered, whatever the lines are shown as."""
    lines: Sequence[Shown] = [shown(line) for line in page.lines]
    return {"data": lines, "next_cursor": page.next_cursor, "has_more": page.next_cursor is not None}


def read_instant(value: object) -> datetime:
    """RFC 3339 with an offset, and nothing else that a parser may understand."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("give an instant with an offset, such as 2026-03-29T10:00:00Z (RFC 3339)")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("there is no such instant") from None


def read_local(value: object) -> datetime:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    if not isinstance(value, str) or not _LOCAL.fullmatch(value):
        raise ValueError("give a wall time without an offset, such as 2026-03-29T10:00:00")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("there is no such wall time") from None


def read_duration_text(value: object) -> timedelta:
    """A fixed time (ISO 8601), which no calendar has a say in."""
    if isinstance(value, timedelta):
        return value
    duration = _fixed(value) if isinstance(value, str) and len(value) <= _DURATION_CHARS_MAX else None
    if duration is None:
        raise ValueError("give a fixed time such as PT15M, PT1H30M, P1D or P2W (ISO 8601)")
    return duration


@lru_cache(maxsize=1_000)
def _fixed(text: str) -> timedelta | None:
    """Many jobs are sent at once, and most of them with the same few durations."""
    duration = read_duration(text) if text == text.strip() else None
    if duration is None and is_calendar_duration(text):
        raise ValueError("months and years differ in length; say days or weeks")
    if duration is not None and duration > _LONGEST:
        raise ValueError(f"must be at most {_LONGEST.days} days")
    return duration


def read_offset(value: object) -> timedelta:
    """As a duration; a minus in front of it means before."""
    if isinstance(value, str) and value.startswith("-"):
        return -read_duration_text(value[1:])
    return read_duration_text(value)


def show_duration(value: timedelta) -> str:
    minutes, seconds = divmod(abs(value), timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "H"), (minutes, "M"), (f"{seconds.total_seconds():g}" if seconds else 0, "S")]
    text = "".join(f"{amount}{unit}" for amount, unit in parts if amount)
    return f"{'-' if value < timedelta(0) else ''}PT{text or '0S'}"


Instant = Annotated[
    datetime,
    BeforeValidator(read_instant),
    PlainSerializer(show_instant, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-03-29T10:00:00Z"]}),
]
LocalTime = Annotated[
    datetime,
    BeforeValidator(read_local),
    PlainSerializer(lambda value: value.isoformat(), when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^{_LOCAL.pattern}$", "examples": ["2026-03-29T10:00:00"]}),
]
Duration = Annotated[
    timedelta,
    BeforeValidator(read_duration_text),
    PlainSerializer(show_duration, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION}$", "examples": ["PT15M"]}),
]
Offset = Annotated[
    timedelta,
    BeforeValidator(read_offset),
    PlainSerializer(show_duration, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^-?{_DURATION}$", "examples": ["-PT1H"]}),
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]


def either(remedy: str) -> WrapValidator:
    """For a field that may be one of several things: one error about the field, where each of them had its own."""

    def check(given: Any, fits: ValidatorFunctionWrapHandler) -> Any:
        try:
            return fits(given)
        except ValidationError:
            raise ValueError(remedy) from None

    return WrapValidator(check)


class _Secret:
    """Marks a field of an answer that is as good as a password, so that what is kept of answers has it not."""


SecretText = Annotated[str, _Secret()]


def has_secret(shown: Any) -> bool:
    """Whether an answer of this type says a secret, be it deep inside."""
    if isinstance(shown, type) and issubclass(shown, BaseModel):
        fields = shown.model_fields.values()
        return any(
            any(isinstance(each, _Secret) for each in field.metadata) or has_secret(field.annotation)
            for field in fields
        )
    return any(isinstance(each, _Secret) or has_secret(each) for each in get_args(shown))
