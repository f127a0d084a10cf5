"""A decoder of AMQP frames, written by hand: messages that a broker hands to us, returns to us, and has taken or not.

Whoever may write to a queue decides what its messages look like. So nothing in them can raise from here: a table that
cannot be read, or that is too deep, is shown as a header that says so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from timebell.brokers.contract import UNREADABLE_HEADERS
from timebell.brokers.rabbitmq.frames import BODY, HEADER, METHOD

# Tables within tables. Nobody writes so many by hand, and each costs us a call.
DEPTH_MAX: Final = 16

_DELIVER: Final = 0x003C003C
_RETURN: Final = 0x003C0032
_ACK: Final = 0x003C0050
_NACK: Final = 0x003C0078

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_method_id: Final = Struct(">I").unpack_from
_verdict: Final = Struct(">QB").unpack_from
_content: Final = Struct(">HHQH").unpack_from
_long_number: Final = Struct(">I").unpack_from
_tag: Final = Struct(">Q").unpack_from


class Properties(NamedTuple):
    """Those properties of a message that we look at."""

    content_type: str | None = None
    headers: Mapping[str, object] = MappingProxyType({})
    correlation_id: str | None = None
    message_id: str | None = None
    timestamp: datetime | None = None
    type: str | None = None


class Delivery(NamedTuple):
    """A message from a queue."""

    tag: int
    is_redelivered: bool
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes
    body_bytes: int


class Return(NamedTuple):
    """A message of ours that no queue is bound for, with its properties as they were written."""

    reason: str
    routing_key: str
    properties: bytes
    body: bytes


class Verdict(NamedTuple):
    """What became of a message of ours, or of all up to it: the broker has it, or could not take it."""

    tag: int
    is_multiple: bool
    is_taken: bool


class Contents:
    """Puts the frames of one channel together. Of a body it keeps what is within the limit."""

    __slots__ = ("_body", "_body_bytes_max", "_expected", "_header", "_kept", "_method", "_seen")

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._method: bytes | None = None
        self._header = b""
        self._body: list[bytes] = []
        self._kept = self._seen = self._expected = 0

    def take(self, kind: int, payload: bytes) -> Delivery | Return | Verdict | bool:
        """What the frame completes, or whether it was one of ours at all."""
        if kind == METHOD:
            method = _method_id(payload)[0]
            if method in (_DELIVER, _RETURN):
                self._method = payload
                return True
            if method in (_ACK, _NACK):
                tag, bits = _verdict(payload, 4)
                return Verdict(tag, bool(bits & 1), method == _ACK)
            return False
        if self._method is None:
            return False
        if kind == HEADER:
            _, _, self._expected, _ = _content(payload)
            self._header = payload
            self._kept = self._seen = 0
        elif kind == BODY:
            self._seen += len(payload)
            room = self._body_bytes_max - self._kept
            if room > 0:
                kept = payload if len(payload) <= room else payload[:room]
                self._body.append(kept)
                self._kept += len(kept)
        else:
            return False
        return self._whole() if self._seen >= self._expected else True

    def _whole(self) -> Delivery | Return:
        method, pieces, size = self._method, self._body, self._expected
        assert method is not None
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        header = self._header
        self._method, self._header, self._body = None, b"", []
        if _method_id(method)[0] == _DELIVER:
            offset = 5 + method[4]
            tag = _tag(method, offset)[0]
            exchange, key_at = _short(method, offset + 9)
            key, _ = _short(method, key_at)
            return Delivery(tag, bool(method[offset + 8]), exchange, key, properties_of(header), body, size)
        reason, exchange_at = _short(method, 6)
        _, key_at = _short(method, exchange_at)
        key, _ = _short(method, key_at)
        return Return(reason, key, header[12:], body)


def properties_of(payload: bytes) -> Properties:
    """The properties in the header of a message."""
    try:
        return _properties(payload)
    except (struct.error, IndexError, ValueError, OverflowError, ArithmeticError) as error:
        return Properties(headers={UNREADABLE_HEADERS: str(error)[:200] or type(error).__name__})


def _properties(payload: bytes) -> Properties:
    flags, at = _content(payload)[3], 14
    if flags & 1:
        raise ValueError("there are more properties than AMQP knows")
    content_type = correlation_id = message_id = type_ = timestamp = None
    headers: Mapping[str, object] = {}
    problem = None
    if flags & 0x8000:
        content_type, at = _short(payload, at)
    if flags & 0x4000:
        at += 1 + payload[at]
    if flags & 0x2000:
        end = at + 4 + _long_number(payload, at)[0]
        try:
            headers = _table(payload, at + 4, end, DEPTH_MAX + 1)
        except (struct.error, IndexError, ValueError, OverflowError, ArithmeticError) as error:
            problem = str(error)[:200] or type(error).__name__
        at = end
    # How it is to be delivered, and its priority.
    at += bool(flags & 0x1000) + bool(flags & 0x0800)
    if flags & 0x0400:
        correlation_id, at = _short(payload, at)
    for flag in (0x0200, 0x0100):
        if flags & flag:
            at += 1 + payload[at]
    if flags & 0x0080:
        message_id, at = _short(payload, at)
    if flags & 0x0040:
        timestamp = _instant(_tag(payload, at)[0])
        at += 8
    if flags & 0x0020:
        type_, at = _short(payload, at)
    if problem is not None:
        headers = {UNREADABLE_HEADERS: problem}
    return Properties(content_type, headers, correlation_id, message_id, timestamp, type_)


def _short(payload: bytes, at: int) -> tuple[str, int]:
    """A short text and where the next thing begins. What is no UTF-8 in it can still be seen."""
    end = at + 1 + payload[at]
    if end > len(payload):
        raise ValueError("a text ends before its end")
    raw = payload[at + 1 : end]
    try:
        return raw.decode(), end
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace"), end


def _instant(seconds: int) -> datetime | None:
    """None for one that is beyond all calendars."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _table(payload: bytes, at: int, end: int, depth: int) -> dict[str, object]:
    if depth == 0:
        raise ValueError(f"there are more than {DEPTH_MAX} tables within tables")
    table: dict[str, object] = {}
    while at < end:
        name, at = _short(payload, at)
        table[name], at = _value(payload, at, depth - 1)
    if at > end:
        raise ValueError("a table goes on behind its end")
    return table


def _array(payload: bytes, at: int, end: int, depth: int) -> list[object]:
    if depth == 0:
        raise ValueError(f"there are more than {DEPTH_MAX} tables within tables")
    values: list[object] = []
    while at < end:
        value, at = _value(payload, at, depth - 1)
        values.append(value)
    if at > end:
        raise ValueError("a list goes on behind its end")
    return values


def _fixed(form: str) -> tuple[Callable[..., tuple[Any, ...]], int]:
    one = Struct(form)
    return one.unpack_from, one.size


# Both of the letters for 64 bits are signed, whatever the protocol says: brokers read them so.
_FIXED: Final[Mapping[int, tuple[Callable[..., tuple[Any, ...]], int]]] = {
    ord(letter): _fixed(form)
    for letter, form in {
        "b": ">b",
        "B": ">B",
        "U": ">h",
        "s": ">h",
        "u": ">H",
        "I": ">i",
        "i": ">I",
        "l": ">q",
        "L": ">q",
        "f": ">f",
        "d": ">d",
    }.items()
}


def _value(payload: bytes, at: int, depth: int) -> tuple[object, int]:
    kind, at = payload[at], at + 1
    if kind in _SIZED:
        start = at + 4
        end = start + _long_number(payload, at)[0]
        if end > len(payload):
            raise ValueError("a value ends before its end")
        return _SIZED[kind](payload, start, end, depth), end
    if kind in _FIXED:
        read, size = _FIXED[kind]
        return read(payload, at)[0], at + size
    match chr(kind):
        case "V":
            return None, at
        case "t":
            return bool(payload[at]), at + 1
        case "T":
            return _EPOCH + timedelta(seconds=_tag(payload, at)[0]), at + 8
        case "D":
            return Decimal(_FIXED[ord("I")][0](payload, at + 1)[0]).scaleb(-payload[at]), at + 5
        case letter:
            raise ValueError(f"a value is of the unknown kind {letter!r}")


def _text(payload: bytes, start: int, end: int, depth: int) -> str | bytes:
    raw = payload[start:end]
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _bytes(payload: bytes, start: int, end: int, depth: int) -> bytes:
    return payload[start:end]


_SIZED: Final[Mapping[int, Callable[[bytes, int, int, int], object]]] = {
    ord("S"): _text,
    ord("x"): _bytes,
    ord("F"): _table,
    ord("A"): _array,
}
