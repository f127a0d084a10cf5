"""What cannot be carried is known before it leaves, with the field and the remedy."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from timebell.brokers.carrying import HEADERS_BYTES_MAX, why_not_carried
from timebell.brokers.contract import Message

MESSAGE = Message(exchange="e", routing_key="k", body=b"")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"exchange": "", "routing_key": ""},
        *(
            {name: "ä" * 127 + "x"}
            for name in ("exchange", "routing_key", "type", "message_id", "content_type")
        ),
        {"timestamp": datetime(1970, 1, 1, tzinfo=UTC)},
        {"headers": {"n" * 255: None, "a": True, "b": b"\xff", "c": 2**63 - 1, "d": -(2**63)}},
        {"headers": {"at": datetime(2026, 1, 1, tzinfo=UTC), "text": "ä" * 60_000}},
    ],
)
def test_what_can_be_carried(fields: dict[str, Any]) -> None:
    assert why_not_carried(replace(MESSAGE, **fields)) is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"routing_key": "ä" * 128}, "routing_key: it has 256 bytes; give at most 255"),
        ({"exchange": "x" * 256}, "exchange: it has 256 bytes"),
        ({"correlation_id": "x" * 256}, "correlation_id: it has 256 bytes"),
        ({"message_id": "\ud800"}, "message_id: it is no text that UTF-8 can hold"),
        ({"timestamp": datetime(2026, 1, 1)}, "timestamp: 2026-01-01T00:00:00 has no offset"),
        (
            {"timestamp": datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=1)},
            "timestamp: .* is before 1970",
        ),
        ({"headers": {"": 1}}, "headers: '': give a name of 1 to 255 bytes"),
        ({"headers": {"n" * 256: 1}}, "headers: 'nnn.*: give a name of 1 to 255 bytes"),
        ({"headers": {"CC": "k"}}, "headers: 'CC': brokers keep this name for themselves; give another"),
        ({"headers": {"BCC": None}}, "headers: 'BCC': brokers keep this name"),
        ({"headers": {"\ud800": 1}}, "headers: .*: give a name"),
        ({"headers": {"n": 2**63}}, "headers: 'n': a whole number has at most 64 bits"),
        ({"headers": {"n": -(2**63) - 1}}, "headers: 'n': a whole number has at most 64 bits"),
        ({"headers": {"n": "\ud800"}}, "headers: 'n': it is no text"),
        ({"headers": {"n": 1.5}}, "headers: 'n': float is no value of a header"),
        ({"headers": {"n": ["a"]}}, "headers: 'n': list is no value of a header"),
        ({"headers": {"n": datetime(2026, 1, 1)}}, "headers: 'n': .* has no offset"),
        ({"headers": {"n": "x" * HEADERS_BYTES_MAX}}, "headers: they have 128010 bytes in all; give at most"),
    ],
)
def test_what_cannot_be_carried(fields: dict[str, Any], why: str) -> None:
    answer = why_not_carried(replace(MESSAGE, **fields))
    assert answer is not None
    assert re.match(why, answer), answer
