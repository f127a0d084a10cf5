"""The reference of messages is true: its samples are understood; fields, limits and reasons are those of the code."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import orjson

from tests.docs.markdown import blocks
from tests.docs.test_messages_page import fields_of, names_at_the_broker
from tests.shape.tree import ROOT
from timebell.apps.scheduler.dues import DUE, Due, message_of
from timebell.apps.scheduler.letters import copy_of
from timebell.apps.scheduler.messages import (
    BODY_BYTES_MAX,
    CANCEL,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    REQUEST,
    read_message,
)
from timebell.apps.scheduler.models import ID_BYTES_MAX, MISFIRES, REASONS, Poison
from timebell.brokers import Received
from timebell.client.dedupe import read_due

PAGE = (ROOT / "docs" / "reference" / "messages.md").read_text(encoding="utf-8")
SAMPLES = [block.code for block in blocks(PAGE) if block.language == "json"]
INSTANT = datetime(2027, 3, 29, 9, tzinfo=UTC)


def section(title: str) -> str:
    return re.split(rf"^#+ {title}$", PAGE, flags=re.MULTILINE)[1].split("\n#")[0]


def listed(text: str) -> set[str]:
    """What stands in the first column."""
    first = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


def test_the_samples_are_understood() -> None:
    *asked, due = SAMPLES
    read = [read_message(sample.encode()) for sample in asked]
    assert [type(one).__name__ for one in read] == [REQUEST, REQUEST, CANCEL]
    sent = message_of(
        Due(
            id="invoice-7",
            tenant="default",
            due_at=INSTANT,
            fired_at=INSTANT.replace(microsecond=2417),
            payload='{"invoice":7}',
        )
    )
    assert orjson.loads(sent.body) == orjson.loads(due)
    assert read_due(due).scheduled_for == INSTANT


def test_the_fields_are_those_that_are_read_and_written() -> None:
    assert listed(section(REQUEST)) == fields_of(REQUEST) | {"type"}
    assert re.findall(r"`(fire\w+|skip)`", section(REQUEST)) == [*MISFIRES, MISFIRES[0]]
    out = section(DUE)
    properties = out.partition("| property |")[2]
    assert listed(out.partition("| property |")[0]) == fields_of(DUE)
    assert listed(properties) == {"message_id", "type", "correlation_id", "timestamp", "content_type"}


def test_the_properties_and_headers_are_set() -> None:
    sent = message_of(Due(id="a", tenant="t", due_at=INSTANT, fired_at=INSTANT, correlation_id="c"))
    assert None not in (sent.message_id, sent.type, sent.correlation_id, sent.timestamp, sent.content_type)
    assert set(re.findall(r"`(cloudEvents:\w+)`", PAGE)) == {*sent.headers}
    assert sent.routing_key == "schedule.due.t"
    assert set(re.findall(r"`(schedule\.(?:request|cancel))`", PAGE)) <= names_at_the_broker()


def test_the_limits_are_told() -> None:
    told = [
        int(number.replace(",", ""))
        for number in re.findall(r"\| (?:[^|]*?)([\d,]{3,}) bytes", section("Limits"))
    ]
    assert told == [BODY_BYTES_MAX, HEADER_BYTES_MAX]
    assert f"| headers | {HEADERS_MAX}, " in section("Limits")
    assert f"1 to {ID_BYTES_MAX} bytes" in section(REQUEST)


def test_every_reason_for_a_dead_letter_is_told_and_every_header() -> None:
    headers, _, reasons = section("Dead letters").partition("| reason |")
    assert listed(reasons) == {*REASONS}
    received = Received(queue="q", exchange="e", routing_key="k", body=b"", body_bytes=0, tag=1)
    copy = copy_of(received, Poison(reason="no_id", detail="d"))
    assert listed(headers) == {*copy.headers}
    assert (copy.exchange, copy.routing_key) == ("timebell.dead", "no_id")
