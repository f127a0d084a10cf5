"""What we write is what pika would write, byte for byte; and what pika writes is what we read."""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties, frame, spec
from pika.data import encode_table

from timebell.brokers import UNREADABLE_HEADERS
from timebell.brokers.contract import Header, Message
from timebell.brokers.rabbitmq.frames import (
    BODY,
    BODY_BYTES_MAX,
    HEADER,
    METHOD,
    Unfit,
    acknowledged,
    content_properties,
    given_back,
    published,
)
from timebell.brokers.rabbitmq.reading import (
    DEPTH_MAX,
    Contents,
    Delivery,
    Properties,
    Return,
    Verdict,
    properties_of,
)

CHANNEL = 7
FRAME_BYTES_MAX = 4096

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(
    lambda text: len(text.encode()) <= 255
)
instants = st.datetimes(
    min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)
)
values: st.SearchStrategy[Header] = st.one_of(
    texts,
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, -1, (1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1]),
    st.booleans(),
    st.binary(max_size=40),
    instants,
    st.none(),
)
messages = st.builds(
    Message,
    exchange=texts,
    routing_key=texts,
    body=st.one_of(st.binary(max_size=50), st.integers(0, 3 * FRAME_BYTES_MAX).map(bytes)),
    content_type=st.none() | texts,
    type=st.none() | texts,
    message_id=st.none() | texts,
    correlation_id=st.none() | texts,
    timestamp=st.none() | instants,
    headers=st.dictionaries(texts.filter(lambda name: name not in ("", "CC", "BCC")), values, max_size=5),
)


def of_pika(message: Message) -> BasicProperties:
    timestamp = message.timestamp
    return BasicProperties(
        content_type=message.content_type,
        headers=dict(message.headers) or None,
        delivery_mode=2,
        correlation_id=message.correlation_id,
        message_id=message.message_id,
        timestamp=None if timestamp is None else int(timestamp.timestamp()),
        type=message.type,
    )


def frames_of(data: bytes) -> list[tuple[int, bytes]]:
    """The kind and the payload of each."""
    found = []
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        assert channel == CHANNEL
        found.append((kind, data[7 : 7 + size]))
        data = data[8 + size :]
    return found


@given(messages)
def test_a_message_is_written_as_pika_writes_it(message: Message) -> None:
    method = spec.Basic.Publish(exchange=message.exchange, routing_key=message.routing_key, mandatory=True)
    expected = frame.Method(CHANNEL, method).marshal()
    expected += frame.Header(CHANNEL, len(message.body), of_pika(message)).marshal()
    room = FRAME_BYTES_MAX - 8
    for start in range(0, len(message.body), room):
        expected += frame.Body(CHANNEL, message.body[start : start + room]).marshal()
    assert published(CHANNEL, message, FRAME_BYTES_MAX) == expected


@given(st.integers(0, (1 << 64) - 1), st.booleans())
def test_what_is_taken_is_answered_as_pika_answers(tag: int, is_multiple: bool) -> None:
    ack = spec.Basic.Ack(delivery_tag=tag, multiple=is_multiple)
    nack = spec.Basic.Nack(delivery_tag=tag, multiple=False, requeue=True)
    assert acknowledged(CHANNEL, tag, is_multiple=is_multiple) == frame.Method(CHANNEL, ack).marshal()
    assert given_back(CHANNEL, tag) == frame.Method(CHANNEL, nack).marshal()


@given(messages, st.integers(1, (1 << 64) - 1), st.booleans())
def test_a_delivery_is_read_as_it_was_written(message: Message, tag: int, is_redelivered: bool) -> None:
    method = spec.Basic.Deliver(
        "the tag of whoever takes", tag, is_redelivered, message.exchange, message.routing_key
    )
    assert _read(method, message, 1 << 20) == Delivery(
        tag,
        is_redelivered,
        message.exchange,
        message.routing_key,
        Properties(
            message.content_type,
            {name: _in_seconds(value) for name, value in message.headers.items()},
            message.correlation_id,
            message.message_id,
            _in_seconds(message.timestamp),
            message.type,
        ),
        message.body,
        len(message.body),
    )


@given(messages)
def test_a_returned_message_is_read_as_it_was_written(message: Message) -> None:
    method = spec.Basic.Return(312, "NO_ROUTE", message.exchange, message.routing_key)
    expected = Return("NO_ROUTE", message.routing_key, content_properties(message), message.body)
    assert _read(method, message, 1 << 20) == expected


@given(st.integers(0, (1 << 64) - 1), st.booleans(), st.booleans())
def test_confirms_are_read_as_they_were_written(tag: int, is_multiple: bool, is_taken: bool) -> None:
    method = (spec.Basic.Ack if is_taken else spec.Basic.Nack)(delivery_tag=tag, multiple=is_multiple)
    [(kind, payload)] = frames_of(frame.Method(CHANNEL, method).marshal())
    assert Contents(0).take(kind, payload) == Verdict(tag, is_multiple, is_taken)


@given(st.integers(0, 3 * FRAME_BYTES_MAX), st.integers(0, 3 * FRAME_BYTES_MAX))
def test_no_more_of_a_body_is_kept_than_was_asked_for(size: int, most: int) -> None:
    body = bytes(number % 251 for number in range(size))
    message = Message(exchange="", routing_key="", body=body)
    read = _read(spec.Basic.Deliver("", 1, False, "", ""), message, most)
    assert isinstance(read, Delivery)
    assert (read.body, read.body_bytes) == (body[:most], size)


def test_other_frames_are_left_to_pika() -> None:
    contents = Contents(100)
    [(kind, payload)] = frames_of(frame.Method(CHANNEL, spec.Channel.Close(404, "", 0, 0)).marshal())
    assert contents.take(kind, payload) is False
    # Without the beginning of a message there is nothing that these could belong to.
    assert contents.take(HEADER, bytes(14)) is False
    assert contents.take(BODY, b"x") is False
    assert contents.take(8, b"") is False


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1.5, "d"), ([1, "two", None], "A"), ({"in": {"side": 1}}, "F"), (Decimal("-1.25"), "D")],
)
def test_headers_that_only_others_write_are_read(value: object, kind: str) -> None:
    pieces: list[bytes] = []
    if kind == "d":
        raw = b"\x01nd" + struct.pack(">d", value)
        table = struct.pack(">I", len(raw)) + raw
    else:
        encode_table(pieces, {"n": value})
        table = b"".join(pieces)
    assert properties_of(_header(table)).headers == {"n": value}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (b"\x01n?", "unknown kind '?'"),
        (b"\x01nS\x00\x00\xff\xff", "ends before its end"),
        (b"\x05n", "ends before its end"),
        (b"\x01nI\x00", "goes on behind its end"),
        (b"\x01nA\x00\x00\x00\x02I\x00", "goes on behind its end"),
        (b"\x01nT" + b"\xff" * 8, ""),
        (b"\x01n" + b"A\x00\x00\x00\xff" * 3, "ends before its end"),
    ],
)
def test_a_table_that_cannot_be_read_is_shown_as_such(table: bytes, reason: str) -> None:
    """It takes nothing else with it: the id of the message is read all the same."""
    payload = _header(struct.pack(">I", len(table)) + table, flags=0x2080, after=b"\x02id")
    properties = properties_of(payload)
    assert [*properties.headers] == [UNREADABLE_HEADERS]
    assert reason in str(properties.headers[UNREADABLE_HEADERS])
    assert properties.message_id == "id"


def test_tables_within_tables_have_an_end() -> None:
    def nested(levels: int) -> Properties:
        value = b""
        for _ in range(levels):
            value = b"A" + struct.pack(">I", len(value)) + value
        table = b"\x01n" + (value or b"V")
        return properties_of(_header(struct.pack(">I", len(table)) + table))

    assert UNREADABLE_HEADERS not in nested(DEPTH_MAX).headers
    assert "tables within tables" in str(nested(DEPTH_MAX + 1).headers[UNREADABLE_HEADERS])
    assert UNREADABLE_HEADERS in nested(20_000).headers


@given(st.binary(max_size=200))
def test_no_header_makes_reading_fail(payload: bytes) -> None:
    properties_of(bytes(12) + payload)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"routing_key": "k" * 256}, "routing_key: has 256 bytes; at most 255"),
        ({"exchange": "ä" * 128}, "exchange: has 256 bytes"),
        ({"message_id": "\ud800"}, "message_id: has half of a surrogate pair"),
        (
            {"timestamp": datetime(1969, 12, 31, tzinfo=UTC)},
            "timestamp: 1969-12-31T00:00:00+00:00 is before 1970",
        ),
        ({"timestamp": datetime(2026, 1, 1)}, "timestamp: 2026-01-01T00:00:00 has no offset"),
        ({"headers": {"CC": "k"}}, "headers.CC: is no name that a header can have"),
        ({"headers": {"": "k"}}, "headers.: is no name that a header can have"),
        ({"headers": {"n": 1 << 63}}, "headers.n: has more than 64 bits"),
        ({"headers": {"n": 1.5}}, "headers.n: is of the type float"),
        ({"headers": {"n": datetime(1900, 1, 1, tzinfo=UTC)}}, "headers.n: 1900"),
        ({"headers": {"n": "x" * FRAME_BYTES_MAX}}, "headers: have "),
        ({"body": bytes(BODY_BYTES_MAX + 1)}, f"body: has {BODY_BYTES_MAX + 1} bytes"),
    ],
)
def test_what_has_no_form_is_refused_with_its_name(change: dict[str, Any], reason: str) -> None:
    given_ = {"exchange": "e", "routing_key": "k", "body": b""} | change
    with pytest.raises(Unfit, match=f"^{re.escape(reason)}"):
        published(CHANNEL, Message(**given_), FRAME_BYTES_MAX)


def test_the_largest_header_that_fits_is_written() -> None:
    def written(size: int) -> bytes:
        message = Message(exchange="", routing_key="", body=b"", content_type=None, headers={"n": "x" * size})
        return published(CHANNEL, message, FRAME_BYTES_MAX)

    largest = next(size for size in range(FRAME_BYTES_MAX, 0, -1) if _fits(written, size))
    header = frames_of(written(largest))[1][1]
    assert len(header) + 8 == FRAME_BYTES_MAX


def _fits(written: Any, size: int) -> bool:
    try:
        return bool(written(size))
    except Unfit:
        return False


def _read(method: Any, message: Message, most: int) -> object:
    """What comes of a method and the content behind it, as a broker would send them."""
    contents = Contents(most)
    content = frames_of(published(CHANNEL, message, FRAME_BYTES_MAX))[1:]
    whole = [*frames_of(frame.Method(CHANNEL, method).marshal()), *content]
    assert whole[0][0] == METHOD
    *before, last = [contents.take(kind, payload) for kind, payload in whole]
    assert all(each is True for each in before)
    return last


def _header(table: bytes, *, flags: int = 0x2000, after: bytes = b"") -> bytes:
    return struct.pack(">HHQH", 60, 0, 0, flags) + table + after


def _in_seconds(value: Any) -> Any:
    return value.replace(microsecond=0) if isinstance(value, datetime) else value
