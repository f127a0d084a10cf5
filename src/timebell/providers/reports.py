"""Helpers for the readers of providers' reports: bytes that were verified become values, within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from timebell.errors import UnverifiedReport
from timebell.providers.lines import one_line

BODY_BYTES_MAX: Final = 1_000_000
REPORTS_MAX: Final = 2_000
TEXT_LENGTH_MAX: Final = 300


def header(headers: Mapping[str, str], name: str) -> str:
    """A header by its name in lower case, however it was written; empty where it is missing."""
    return next((value for given, value in headers.items() if given.lower() == name), "")


def check_length(body: bytes) -> None:
    if len(body) > BODY_BYTES_MAX:
        raise UnverifiedReport(f"has more than {BODY_BYTES_MAX} bytes", field="body")


def parse(body: bytes) -> Any:
    """The JSON of a body that has been verified."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UnverifiedReport("is not JSON", field="body") from error


def records(value: Any) -> Sequence[Mapping[str, Any]]:
    """The objects of a list, as many as one request may bring."""
    if not isinstance(value, list) or len(value) > REPORTS_MAX:
        raise UnverifiedReport(f"is not a list of at most {REPORTS_MAX} reports", field="body")
    return [it for it in value if isinstance(it, dict)]


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str | None:
    """What can be kept of a text. A mail server's words come along in reports, and one that the database refuses would
    hold up all that came with it."""
    return one_line(value[:TEXT_LENGTH_MAX]) or None if isinstance(value, str) else None


def uuid(value: Any) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def instant(value: Any) -> datetime | None:
    """An instant from ISO 8601 or from seconds since 1970; None where it has no offset or is neither."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return parsed.astimezone(UTC) if parsed.tzinfo is not None else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
