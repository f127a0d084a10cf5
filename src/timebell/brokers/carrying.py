"""Limits of AMQP, checked before anything leaves: a message that it cannot carry would take the connection with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from timebell.brokers.contract import Message

SHORT_BYTES_MAX: Final = 255
HEADER_INT_MAX: Final = (1 << 63) - 1
# All that is no body goes in one frame, and no frame has more than 128 KiB unless both sides agree to it.
HEADERS_BYTES_MAX: Final = 128_000
# RabbitMQ routes by what stands in them, and closes the channel over what is not a list of keys.
_RESERVED: Final = ("CC", "BCC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The sort of a value and its length.
_VALUE_BYTES: Final = 9


def why_not_carried(message: Message) -> str | None:
    """What is wrong with it, and what would be right; None of one that can go."""
    for name in ("exchange", "routing_key", "content_type", "type", "message_id", "correlation_id"):
        text: str | None = getattr(message, name)
        if text is not None and (length := _length(text)) is None:
            return f"{name}: it is no text that UTF-8 can hold; leave out its lone surrogates"
        if text is not None and length is not None and length > SHORT_BYTES_MAX:
            return f"{name}: it has {length} bytes; give at most {SHORT_BYTES_MAX} bytes of UTF-8"
    if (why := _why_no_instant(message.timestamp)) is not None:
        return f"timestamp: {why}"
    for name, value in message.headers.items():
        if (why := _why_no_header(name, value)) is not None:
            return f"headers: {name!r:.100}: {why}"
    if (length := headers_bytes(message)) > HEADERS_BYTES_MAX:
        return f"headers: they have {length} bytes in all; give at most {HEADERS_BYTES_MAX}"
    return None


def headers_bytes(message: Message) -> int:
    """About how long they are on their way, and not less."""
    return sum(
        len(name.encode()) + _VALUE_BYTES + (_length(value) or 0) for name, value in message.headers.items()
    )


def _why_no_header(name: str, value: object) -> str | None:
    length = _length(name)
    if not length or length > SHORT_BYTES_MAX:
        return f"give a name of 1 to {SHORT_BYTES_MAX} bytes of UTF-8"
    if name in _RESERVED:
        return "brokers keep this name for themselves; give another"
    match value:
        case str() if _length(value) is None:
            return "it is no text that UTF-8 can hold; leave out its lone surrogates"
        case bool() | str() | bytes() | None:
            return None
        case int():
            if -HEADER_INT_MAX - 1 <= value <= HEADER_INT_MAX:
                return None
            return "a whole number has at most 64 bits; give it as a text"
        case datetime():
            return _why_no_instant(value)
        case _:
            return f"{type(value).__name__} is no value of a header; give a text, whole number or boolean"


def _why_no_instant(value: datetime | None) -> str | None:
    if value is None:
        return None
    if value.utcoffset() is None:
        return f"{value.isoformat()} has no offset; give it one, for example tzinfo=timezone.utc"
    return None if value >= _EPOCH else f"{value.isoformat()} is before 1970; leave it out"


def _length(value: object) -> int | None:
    """Of a text or of bytes; None if no bytes can be made of it."""
    if isinstance(value, bytes):
        return len(value)
    if not isinstance(value, str):
        return 0
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return None
