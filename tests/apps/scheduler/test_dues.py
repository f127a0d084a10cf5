"""What goes out: the same for whoever publishes it and however often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.scheduler.dues import Due, again_after, message_id, message_of, occurrence_of, written
from timebell.apps.scheduler.topology import topology
from timebell.clock import Chance
from timebell.kernel import Ids
from timebell.rules.planned import occurrence_id

AT = datetime(2026, 3, 29, 9, tzinfo=UTC)
FIRED = AT + timedelta(seconds=3, microseconds=5)


def test_a_message_is_what_receivers_were_promised() -> None:
    due = Due(
        id="a",
        tenant="acme",
        due_at=AT,
        fired_at=FIRED,
        occurrence="2026-03-29T11:00:00",
        payload='{"n": 123456789012345678901234567890}',
        correlation_id="c-1",
    )
    message = message_of(due)
    assert (message.exchange, message.routing_key) == ("timebell", "schedule.due.acme")
    assert message.body == (
        b'{"type":"ScheduleDue","id":"a","tenant":"acme","fired_at":"2026-03-29T09:00:03.000005Z",'
        b'"scheduled_for":"2026-03-29T09:00:00.000000Z","occurrence":"2026-03-29T11:00:00",'
        b'"payload":{"n": 123456789012345678901234567890}}'
    )
    named = "acme/a/2026-03-29T09:00:00.000000Z"
    assert (message.type, message.message_id, message.correlation_id) == ("ScheduleDue", named, "c-1")
    assert (message.content_type, message.timestamp) == ("application/json", FIRED)
    assert message.headers == {
        "cloudEvents:specversion": "1.0",
        "cloudEvents:id": named,
        "cloudEvents:source": "timebell",
        "cloudEvents:type": "ScheduleDue",
        "cloudEvents:time": "2026-03-29T09:00:03.000005Z",
    }


@pytest.mark.req("S-1.2")
@given(
    tenant=st.text(min_size=1, max_size=200),
    id=st.text(min_size=1, max_size=60),
    seconds=st.integers(0, 10**9),
    late=st.integers(0, 10**6),
)
def test_a_duplicate_differs_in_when_it_was_fired_alone(
    tenant: str, id: str, seconds: int, late: int
) -> None:
    at = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    first, second = (
        message_of(Due(id=id, tenant=tenant, due_at=at, fired_at=at + timedelta(seconds=passed)))
        for passed in (0, late)
    )
    bodies = [{**orjson.loads(one.body), "fired_at": None} for one in (first, second)]
    assert bodies[0] == bodies[1]
    assert first.message_id == second.message_id
    assert first.message_id is not None
    assert len(first.message_id.encode()) <= 255
    other = message_of(Due(id=id, tenant=tenant, due_at=at + timedelta(microseconds=1), fired_at=at))
    assert other.message_id != first.message_id


def test_the_longest_name_that_fits_is_kept() -> None:
    room = 255 - len("//2026-03-29T09:00:00.000000Z")
    assert not message_id("t", "x" * (room - 1), AT).startswith("sha256:")
    assert message_id("t", "x" * room, AT).startswith("sha256:")
    assert len(message_id("t", "x" * room, AT)) == len("sha256:") + 64


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)), st.integers(-1439, 1439))
def test_an_instant_is_one_text(naive: datetime, minutes: int) -> None:
    instant = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = written(instant)
    assert text == written(instant.astimezone(UTC))
    assert datetime.fromisoformat(text) == instant
    assert len(text) == len("2026-03-29T09:00:00.000000Z")


def test_an_occurrence_is_named_by_its_wall_time_and_its_pass() -> None:
    schedule = Ids(Chance(1)).new()
    local = datetime(2026, 10, 25, 2, 30)
    for fold, name in ((0, "2026-10-25T02:30:00"), (1, "2026-10-25T02:30:00~2")):
        payload = {
            "schedule_id": str(schedule),
            "occurrence_id": str(occurrence_id(schedule, local, fold)),
            "original_local": "2026-10-25T02:30:00",
        }
        assert occurrence_of(payload) == name
    assert occurrence_of({"id": "a"}) is None


@pytest.mark.parametrize(
    ("late", "delay"), [(-5, 1), (0, 1), (10, 1), (11, 1.1), (100, 10), (600, 60), (10**6, 60)]
)
def test_what_no_queue_takes_waits_the_longer_the_later_it_is(late: float, delay: float) -> None:
    assert again_after(timedelta(seconds=late)) == timedelta(seconds=delay)


def test_the_queue_for_all_that_is_due_can_be_left_out_or_named() -> None:
    names = {queue.name for queue in topology("timebell.due").queues}
    assert names == {"timebell.requests", "timebell.cancels", "timebell.due", "timebell.dead"}
    assert {queue.name for queue in topology("").queues} == names - {"timebell.due"}
    assert "other" in {queue.name for queue in topology("other").queues}
