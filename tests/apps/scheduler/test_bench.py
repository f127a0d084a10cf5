"""The benches measure this app as it is: its names, its batches, and requests that it understands."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from timebell.apps.scheduler import intake
from timebell.apps.scheduler.messages import BODY_BYTES_MAX, read_message
from timebell.apps.scheduler.models import ScheduleRequest
from timebell.apps.scheduler.topology import topology
from timebell.bench import messages
from timebell.bench.ground import PAYLOAD

NOW = datetime(2026, 11, 17, 9, tzinfo=UTC)


def test_both_sides_take_as_the_app_does() -> None:
    assert (messages.PREFETCH, messages.BATCH) == (intake.PREFETCH, intake.BATCH)
    assert messages.BODY_BYTES_MAX == BODY_BYTES_MAX
    declared = topology(messages.DUE)
    assert {queue.name for queue in declared.queues} == set(messages.NAMES)
    assert {exchange.name for exchange in declared.exchanges} == set(messages.EXCHANGES)


def test_a_request_is_one_that_the_app_understands() -> None:
    one = messages.requests("round", [NOW])[0]
    asked = read_message(one.body)
    assert isinstance(asked, ScheduleRequest)
    assert (asked.id, asked.due_at) == ("round-0", NOW)
    assert asked.payload is not None
    assert orjson.loads(asked.payload) == PAYLOAD
