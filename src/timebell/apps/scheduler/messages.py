"""Reading what comes in: bytes become a request, a cancel, or poison with words that a person understands.

Whatever is sent, the work grows with its length alone, and its length is limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn, cast

import orjson

from timebell.apps.scheduler.models import (
    ID_BYTES_MAX,
    MISFIRE,
    MISFIRES,
    TIMEZONE,
    Asked,
    Misfire,
    Poison,
    Reason,
    ScheduleCancel,
    ScheduleRequest,
)
from timebell.brokers import UNREADABLE_HEADERS
from timebell.errors import InvalidInput, RecurrenceError
from timebell.rules.localtime import zone
from timebell.rules.reading import read_recurrence
from timebell.rules.recurrence import Limits

REQUEST: Final = "ScheduleRequest"
CANCEL: Final = "ScheduleCancel"

BODY_BYTES_MAX: Final = 131_072
HEADERS_MAX: Final = 64
HEADER_BYTES_MAX: Final = 16_384
CORRELATION_CHARS_MAX: Final = 255
TENANT_CHARS_MAX: Final = 200
# The key of what goes out has the tenant in it, and AMQP gives a key 255 bytes.
TENANT_BYTES_MAX: Final = 240

# What a recurrence may ask for here: a message each second, and nothing oftener.
LIMITS: Final = Limits(secondly=True, spacing=timedelta(seconds=1))

# The kernel's names for what can be wrong, as callers know them.
_NAMES: Final = {"recurrence": "rrule", "timezone": "tz", "start_local": "dtstart", "due_at": "at"}
# Clocks that count finer than we do end in more digits; those are dropped.
_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# PostgreSQL stores no NUL: an escape that is not itself escaped.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# Numbers of so many digits, or with an exponent, are kept as they are written: a double would change them.
_LONG_NUMBER: Final = re.compile(rb"[\d.]{16}|\d[eE]")
# The driver takes the very first and the very last instant for infinities.
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC) + datetime.resolution
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - datetime.resolution

Fields = Mapping[str, Any]


class _Poisoned(Exception):
    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.poison = Poison(reason=reason, detail=detail)


def read_message(
    body: bytes,
    *,
    body_bytes: int | None = None,
    type: str | None = None,
    headers: Mapping[str, object] | None = None,
    correlation_id: str | None = None,
) -> Asked | Poison:
    """What a message asks for. `body_bytes` is how long it was where only its beginning was kept."""
    try:
        _check_size(len(body) if body_bytes is None else body_bytes, headers or {})
        fields = _fields(body)
        named = fields.get("type")
        match type if named is None else named:
            case "ScheduleRequest":
                return _request(fields, body, correlation_id)
            case "ScheduleCancel":
                return ScheduleCancel(id=_id(fields), tenant=_tenant(fields))
            case other:
                _refuse("unknown_type", f"type: {_shown(other)} is unknown; give {REQUEST} or {CANCEL}")
    except _Poisoned as poisoned:
        return poisoned.poison


def whose(asked: Asked, *, own: str, is_trusted: bool) -> str | Poison:
    """The tenant that a message is for: our own, or the one that it names where the broker is trusted with that."""
    tenant = own if asked.tenant is None else asked.tenant
    if tenant != own and not is_trusted:
        return Poison(
            reason="foreign_tenant",
            detail=f"tenant: {_shown(tenant)} may not be named here; leave it out, or have the operator set "
            "broker_trusts_tenant",
        )
    if len(tenant.encode()) > TENANT_BYTES_MAX:
        return Poison(
            reason="bad_tenant", detail=f"tenant: use at most {TENANT_BYTES_MAX} bytes of UTF-8 for its name"
        )
    return tenant


def read_instant(text: str) -> datetime | None:
    """An instant as RFC 3339 writes it, with its offset; None where it is not one, or is out of range."""
    if _INSTANT.fullmatch(text) is None:
        return None
    try:
        instant = datetime.fromisoformat(text if text[-1] != "z" else f"{text[:-1]}Z")
        if instant.tzinfo is not UTC:
            instant = instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return instant if _EARLIEST <= instant <= _LATEST else None


def in_words(error: InvalidInput) -> str:
    """What the kernel refuses, with the names that callers know."""
    field = error.field or ""
    if isinstance(error, RecurrenceError):
        field = error.part if error.part in _NAMES else field
        words = f"{error.reason}; {error.remedy}"
        words = words if error.part in _NAMES else f"{error.part}: {words}"
    else:
        words = str(error).removeprefix(f"{field}: ")
    return f"{_NAMES.get(field, field)}: {words}" if field else words


def _check_size(body_bytes: int, headers: Mapping[str, object]) -> None:
    if body_bytes > BODY_BYTES_MAX:
        _refuse("too_large", f"the body has {body_bytes} bytes; send at most {BODY_BYTES_MAX}")
    if not headers:
        return
    if UNREADABLE_HEADERS in headers:
        _refuse("bad_headers", f"the headers cannot be read: {headers[UNREADABLE_HEADERS]}; send plain ones")
    if len(headers) > HEADERS_MAX:
        _refuse("headers_too_large", f"there are {len(headers)} headers; send at most {HEADERS_MAX}")
    if bytes_of(headers, HEADER_BYTES_MAX) > HEADER_BYTES_MAX:
        _refuse("headers_too_large", f"the headers are too large; send at most {HEADER_BYTES_MAX} bytes")


def bytes_of(value: object, most: int) -> int:
    """About how long a value of headers is; more is not counted than enough to know that it is too much."""
    left, waiting = most, [value]
    while waiting and left >= 0:
        one = waiting.pop()
        left -= 1
        if isinstance(one, str | bytes | bytearray):
            left -= len(one)
        elif isinstance(one, Mapping):
            for name, each in one.items():
                left -= len(str(name))
                waiting.append(each)
        elif isinstance(one, list | tuple):
            waiting += one[: max(left, 0) + 1]
        else:
            left -= 8
    return most - left


def _fields(body: bytes) -> Fields:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        try:
            body.decode()
        except UnicodeDecodeError as undecoded:
            _refuse("not_utf8", f"the body is not UTF-8 at byte {undecoded.start}; send JSON in UTF-8")
        _refuse("not_json", f"the body is not JSON: {str(error)[:200]}; send an object")
    if not isinstance(fields, dict):
        _refuse("not_an_object", "the body is JSON and no object; send one with type and id")
    return fields


def _request(fields: Fields, body: bytes, correlation_id: str | None) -> ScheduleRequest:
    id, tenant = _id(fields), _tenant(fields)
    at, rule = fields.get("at"), fields.get("rrule")
    if at is not None and rule is not None:
        _refuse("two_times", "at and rrule are both given; give one of them")
    if at is None and rule is None:
        _refuse("no_time", "neither at nor rrule is given; give one of them")
    payload = _payload(fields, body)
    correlation_id = _correlation_id(correlation_id)
    if rule is None:
        return ScheduleRequest(
            id=id,
            tenant=tenant,
            due_at=_instant("at", at),
            payload=payload,
            correlation_id=correlation_id,
        )
    start = fields.get("dtstart")
    return ScheduleRequest(
        id=id,
        tenant=tenant,
        recurrence=_rule(rule),
        timezone=_timezone(fields.get("tz")),
        start_at=None if start is None else _instant("dtstart", start).replace(microsecond=0),
        misfire=_misfire(fields.get("misfire")),
        payload=payload,
        correlation_id=correlation_id,
    )


def _id(fields: Fields) -> str:
    id = fields.get("id")
    if id is None:
        _refuse("no_id", f"id: is missing; give 1 to {ID_BYTES_MAX} bytes of text")
    if not isinstance(id, str) or not 0 < len(id.encode()) <= ID_BYTES_MAX or "\0" in id:
        _refuse("bad_id", f"id: give 1 to {ID_BYTES_MAX} bytes of text without NUL, was {_shown(id)}")
    return id


def _tenant(fields: Fields) -> str | None:
    tenant = fields.get("tenant")
    if tenant is None:
        return None
    if not isinstance(tenant, str) or not 0 < len(tenant) <= TENANT_CHARS_MAX or "\0" in tenant:
        _refuse(
            "bad_tenant",
            f"tenant: give 1 to {TENANT_CHARS_MAX} characters of text without NUL, was {_shown(tenant)}",
        )
    return tenant


def _instant(name: str, text: object) -> datetime:
    instant = read_instant(text) if isinstance(text, str) and len(text) <= 40 else None
    if instant is None:
        _refuse(
            "bad_time",
            f"{name}: {_shown(text)} is no instant; give one with an offset, such as 2026-03-29T09:00:00Z",
        )
    return instant


def _rule(text: object) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= LIMITS.text_chars or "\0" in text:
        _refuse("bad_rule", f"rrule: give a text of 1 to {LIMITS.text_chars} characters, was {_shown(text)}")
    try:
        read_recurrence(text)
    except InvalidInput as error:
        _refuse("bad_rule", in_words(error))
    return text


def _timezone(name: object) -> str:
    if name is None:
        return TIMEZONE
    if not isinstance(name, str):
        _refuse("bad_timezone", f"tz: {_shown(name)} is no name; give one such as Europe/Berlin")
    try:
        zone(name)
    except InvalidInput as error:
        _refuse("bad_timezone", in_words(error))
    return name


def _misfire(word: object) -> Misfire:
    if word is None:
        return MISFIRE
    if word not in MISFIRES:
        _refuse("bad_misfire", f"misfire: {_shown(word)} is unknown; give {', '.join(MISFIRES)} or nothing")
    return cast(Misfire, word)


def _payload(fields: Fields, body: bytes) -> str | None:
    payload = fields.get("payload")
    if payload is None:
        return None
    try:
        encoded = exact_payload(payload, body)
    except (TypeError, ValueError, RecursionError):
        _refuse("bad_payload", "payload: it is nested too deeply; use at most 250 levels")
    if b"\\u0000" in encoded and _NUL.search(encoded):
        _refuse("bad_payload", "payload: leave NUL characters out; they cannot be stored")
    return encoded.decode()


def exact_payload(payload: Any, body: bytes) -> bytes:
    """The payload that was read from a body as JSON again, with each of its numbers as it was written there."""
    try:
        encoded = orjson.dumps(payload)
    except TypeError:
        # A number of more than 64 bits.
        encoded = b""
    if encoded and (_is_verbatim(encoded, body) or not _LONG_NUMBER.search(body)):
        return encoded
    written = json.loads(body, parse_int=_as_written, parse_float=_as_written)
    return orjson.dumps(written["payload"])


def _is_verbatim(encoded: bytes, body: bytes) -> bool:
    """Whether the body says just that, as it does where its writer leaves out what need not be there."""
    said = b'"payload":' + encoded
    at = body.find(said)
    return at >= 0 and body[at + len(said) : at + len(said) + 1] in (b",", b"}")


def _as_written(number: str) -> orjson.Fragment:
    return orjson.Fragment(number)


def _correlation_id(given: str | None) -> str | None:
    """A property of the message, and none of its business; one that cannot be stored is as if it were not there."""
    if not given or len(given) > CORRELATION_CHARS_MAX or "\0" in given:
        return None
    return given


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _refuse(reason: Reason, detail: str) -> NoReturn:
    raise _Poisoned(reason, detail)
