"""Validation of the terms of a recipient: each term is checked, and written in one way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import time
from typing import Any, Final, cast
from uuid import UUID

from timebell.errors import InvalidInput, UnknownTimezone
from timebell.kernel.models import check_name
from timebell.notify.models import QuietHours
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.rules.languages import checked_language
from timebell.rules.localtime import zone

TOPIC_MAX = 100
_QUIET_FIELDS = frozenset({"start", "end", "days", "time_bound", "channels"})


def check_recipient_id(value: object, field: str = "id") -> None:
    if not isinstance(value, UUID):
        raise InvalidInput(f"{value!r:.100} is not a UUID; give the id of a recipient", field=field)


def check_known(field: str, values: Collection[str]) -> None:
    if values:
        raise InvalidInput("is nothing that can be said here; leave it out", field=f"{field}{min(values)}")


def checked_channel(value: object, field: str = "channel") -> Channel:
    if not isinstance(value, str) or value not in CHANNELS:
        raise InvalidInput(f"{value!r:.100} is no channel; give one of {', '.join(CHANNELS)}", field=field)
    return value


def checked_topic(value: object, field: str = "topic") -> str | None:
    check_name(field, value, longest=TOPIC_MAX)
    return cast("str | None", value)


def checked_timezone(value: object, field: str = "timezone") -> str:
    check_name(field, value, required=True)
    try:
        zone(str(value))
    except UnknownTimezone as error:
        raise UnknownTimezone(str(error).removeprefix("timezone: "), field=field) from None
    return str(value)


def checked_quiet_hours(value: object, field: str = "quiet_hours") -> QuietHours:
    """Quiet hours, given as the record or as JSON has them: `{"start": "22:00", "end": "07:00"}`."""
    if isinstance(value, QuietHours):
        value = {name: getattr(value, name) for name in _QUIET_FIELDS}
    if not isinstance(value, Mapping):
        raise InvalidInput('must be {"start": "22:00", "end": "07:00"} or null', field=field)
    check_known(f"{field}.", value.keys() - _QUIET_FIELDS)
    given: dict[str, Any] = {
        name: _checked_time(value.get(name), f"{field}.{name}") for name in ("start", "end")
    }
    if "days" in value:
        given["days"] = _several(value["days"], f"{field}.days", _checked_day)
    if "channels" in value:
        given["channels"] = _several(value["channels"], f"{field}.channels", checked_channel)
    if "time_bound" in value:
        if value["time_bound"] not in ("pass", "hold"):
            raise InvalidInput("must be 'pass' or 'hold'", field=f"{field}.time_bound")
        given["time_bound"] = value["time_bound"]
    return QuietHours(**given)


def checked_terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    """What was said about a recipient, written in one way. None takes back what may be absent."""
    check_known("", terms.keys() - _TERMS.keys())
    return {name: _TERMS[name](value) for name, value in terms.items()}


def _checked_name(value: object) -> str:
    check_name("name", value, required=True)
    return str(value)


def _checked_external_id(value: object) -> str | None:
    check_name("external_id", value)
    return cast("str | None", value)


def _checked_opt_in(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{value!r:.100} is neither true nor false", field="whatsapp_opt_in")
    return value


_TERMS: Final[Mapping[str, Callable[[Any], object]]] = {
    "name": _checked_name,
    "external_id": _checked_external_id,
    "language": checked_language,
    "timezone": checked_timezone,
    "channel_preference": lambda value: (
        None if value is None else checked_channel(value, "channel_preference")
    ),
    "whatsapp_opt_in": _checked_opt_in,
    "quiet_hours": lambda value: None if value is None else checked_quiet_hours(value),
}
TERMS: Final = tuple(_TERMS)


def _checked_time(value: object, field: str) -> time:
    try:
        given = time.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        given = None
    if not isinstance(given, time) or given.tzinfo is not None or given.second or given.microsecond:
        raise InvalidInput(
            f"{value!r:.100} is no time of day; give hours and minutes, such as 22:00", field=field
        )
    return given


def _checked_day(value: object, field: str) -> int:
    if type(value) is not int or not 0 <= value <= 6:
        raise InvalidInput(f"{value!r:.100} is no weekday; give 0 for Monday to 6 for Sunday", field=field)
    return value


def _several(value: object, field: str, check: Callable[[object, str], Any]) -> frozenset[Any]:
    if isinstance(value, str) or not isinstance(value, Collection) or not 0 < len(value) <= 20:
        raise InvalidInput("must be a list that is not empty; leave it out for the usual ones", field=field)
    return frozenset(check(one, field) for one in value)
