"""The frames of AMQP 0-9-1 that are written for every message, by hand.

A library builds an object for each frame and for each of its parts, which costs ten times what the bytes themselves do.
Only what is written for each message is here; all else is pika's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from types import NoneType
from typing import Any, Final

from timebell.brokers.contract import Header, Message

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
FRAME_END: Final = 0xCE
# What surrounds the payload of a frame: its kind, its channel, its size, and the byte at its end.
FRAME_OVERHEAD: Final = 8

SHORT_BYTES_MAX: Final = 255
# What brokers of today take at most unless told otherwise; a larger one would cost all others their channel.
BODY_BYTES_MAX: Final = 16 * 1024 * 1024

_PUBLISH: Final = 0x003C0028
_ACK: Final = 0x003C0050
_NACK: Final = 0x003C0078
_BASIC: Final = 60
_PERSISTENT: Final = b"\x02"
# Without the flag `immediate`, which nobody supports.
_MANDATORY_AND_END: Final = bytes((1, FRAME_END))
_END: Final = bytes((FRAME_END,))
_SIZES: Final = tuple(bytes((size,)) for size in range(SHORT_BYTES_MAX + 1))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)

# RabbitMQ routes by what stands in them, and closes the channel over what is not a list of keys.
_RESERVED: Final = ("CC", "BCC")

_CONTENT_TYPE: Final = 1 << 15
_HEADERS: Final = 1 << 13
_DELIVERY_MODE: Final = 1 << 12
_CORRELATION_ID: Final = 1 << 10
_MESSAGE_ID: Final = 1 << 7
_TIMESTAMP: Final = 1 << 6
_TYPE: Final = 1 << 5

_publish_head: Final = Struct(">BHIIH").pack
_content_head: Final = Struct(">BHIHHQ").pack
_body_head: Final = Struct(">BHI").pack
_verdict: Final = Struct(">BHIIQBB").pack
_long: Final = Struct(">I").pack
_number: Final = Struct(">ci").pack
_large_number: Final = Struct(">cq").pack
_sized: Final = Struct(">cI").pack
_instant: Final = Struct(">Q").pack
_flags: Final = Struct(">H").pack


class Unfit(ValueError):
    """A message that AMQP has no form for."""


def published(channel: int, message: Message, frame_bytes_max: int) -> bytes:
    """The frames that hand over one message: persistent, and to be returned if no queue is bound for it."""
    exchange = _usual("exchange", message.exchange)
    key = _usual("routing_key", message.routing_key)
    properties = content_properties(message)
    body = message.body
    size = len(body)
    if size > BODY_BYTES_MAX:
        raise Unfit(f"body: has {size} bytes; at most {BODY_BYTES_MAX} can be published")
    if len(properties) + 12 + FRAME_OVERHEAD > frame_bytes_max:
        raise Unfit(f"headers: have {len(properties)} bytes; they must fit into {frame_bytes_max}")
    pieces = [
        _publish_head(METHOD, channel, 7 + len(exchange) + len(key), _PUBLISH, 0),
        exchange,
        key,
        _MANDATORY_AND_END,
        _content_head(HEADER, channel, 12 + len(properties), _BASIC, 0, size),
        properties,
        _END,
    ]
    room = frame_bytes_max - FRAME_OVERHEAD
    if 0 < size <= room:
        pieces += (_body_head(BODY, channel, size), body, _END)
    else:
        for start in range(0, size, room):
            part = body[start : start + room]
            pieces += (_body_head(BODY, channel, len(part)), part, _END)
    return b"".join(pieces)


def acknowledged(channel: int, tag: int, *, is_multiple: bool) -> bytes:
    """This one, or all up to it, are done with."""
    return _verdict(METHOD, channel, 13, _ACK, tag, is_multiple, FRAME_END)


def given_back(channel: int, tag: int) -> bytes:
    """This one is for others, or for later."""
    return _verdict(METHOD, channel, 13, _NACK, tag, 2, FRAME_END)


def content_properties(message: Message) -> bytes:
    """Which properties a message has, and those in the order that the protocol gives."""
    flags = _DELIVERY_MODE
    pieces: list[bytes] = []
    if message.content_type is not None:
        flags |= _CONTENT_TYPE
        pieces.append(_usual("content_type", message.content_type))
    if message.headers:
        flags |= _HEADERS
        table = _table(message.headers)
        pieces += (_long(len(table)), table)
    pieces.append(_PERSISTENT)
    if message.correlation_id is not None:
        flags |= _CORRELATION_ID
        pieces.append(_short("correlation_id", message.correlation_id))
    if message.message_id is not None:
        flags |= _MESSAGE_ID
        pieces.append(_short("message_id", message.message_id))
    if message.timestamp is not None:
        flags |= _TIMESTAMP
        pieces.append(_seconds("timestamp", message.timestamp))
    if message.type is not None:
        flags |= _TYPE
        pieces.append(_usual("type", message.type))
    return _flags(flags) + b"".join(pieces)


def _short(name: str, text: str) -> bytes:
    encoded = _utf8(name, text)
    size = len(encoded)
    if size > SHORT_BYTES_MAX:
        raise Unfit(f"{name}: has {size} bytes; at most {SHORT_BYTES_MAX} can be published")
    return _SIZES[size] + encoded


# What most messages have in common with those before them.
_usual: Final = lru_cache(maxsize=1024)(_short)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unfit(f"{name}: has half of a surrogate pair, which is no text; leave it out") from None


# What leaves together often left at one instant.
@lru_cache(maxsize=64)
def _seconds(name: str, instant: datetime) -> bytes:
    if instant.tzinfo is None:
        raise Unfit(f"{name}: {instant.isoformat()} has no offset; give it one")
    try:
        return _instant((instant - _EPOCH) // _SECOND)
    except struct.error:
        raise Unfit(f"{name}: {instant.isoformat()} is before 1970, which AMQP cannot say") from None


def _table(headers: Mapping[str, Header]) -> bytes:
    pieces: list[bytes] = []
    for name, value in headers.items():
        if type(value) is str:
            # Nearly all are, and a call for each would take as long as all the rest.
            try:
                encoded = value.encode()
            except UnicodeEncodeError:
                encoded = _utf8(_shown(name), value)
            pieces += (_header_name(name), _sized(b"S", len(encoded)), encoded)
        else:
            writer = _WRITERS.get(type(value)) or _writer_of(name, value)
            pieces += (_header_name(name), writer(name, value))
    return b"".join(pieces)


@lru_cache(maxsize=1024)
def _header_name(name: str) -> bytes:
    if not name or name in _RESERVED:
        raise Unfit(f"{_shown(name)}: is no name that a header can have; give another")
    return _short(_shown(name), name)


def _shown(name: str) -> str:
    return f"headers.{name:.40}"


def _text(name: str, value: str) -> bytes:
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        encoded = _utf8(_shown(name), value)
    return _sized(b"S", len(encoded)) + encoded


def _bytes(name: str, value: bytes) -> bytes:
    return _sized(b"x", len(value)) + value


def _flag(name: str, value: bool) -> bytes:
    return b"t\x01" if value else b"t\x00"


def _whole(name: str, value: int) -> bytes:
    try:
        return _number(b"I", value)
    except struct.error:
        pass
    try:
        return _large_number(b"l", value)
    except struct.error:
        raise Unfit(f"{_shown(name)}: has more than 64 bits; write it as text") from None


def _header_instant(name: str, value: datetime) -> bytes:
    return b"T" + _seconds(_shown(name), value)


def _nothing(name: str, value: None) -> bytes:
    return b"V"


# A flag is a number too, so it stands before them.
_WRITERS: Final[Mapping[type, Callable[[str, Any], bytes]]] = {
    str: _text,
    bool: _flag,
    int: _whole,
    bytes: _bytes,
    datetime: _header_instant,
    NoneType: _nothing,
}


def _writer_of(name: str, value: object) -> Callable[[str, Any], bytes]:
    """For a value that is one of these and more."""
    writer = next((each for kind, each in _WRITERS.items() if isinstance(value, kind)), None)
    if writer is None:
        raise Unfit(
            f"{_shown(name)}: is of the type {type(value).__name__}; give text, a whole number or a flag"
        )
    return writer
