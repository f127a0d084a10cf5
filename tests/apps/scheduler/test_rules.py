"""What is decided without asking anybody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.scheduler.models import Known, ScheduleCancel, ScheduleRequest
from timebell.apps.scheduler.rules import (
    in_order,
    is_same_payload,
    local_start,
    portions,
    second,
    start_of,
)

NOW = datetime(2026, 3, 29, 9, tzinfo=UTC)
ONCE = ScheduleRequest(id="a", due_at=NOW)
AGAIN = ScheduleRequest(id="a", recurrence="FREQ=DAILY")


def known(request: ScheduleRequest, status: Any = "pending", **other: Any) -> Known:
    is_again = request.recurrence is not None
    values = {
        "id": request.id,
        "due_at": request.due_at,
        "recurrence": request.recurrence,
        "timezone": request.timezone if is_again else None,
        "start_at": start_of(request, NOW) if is_again else None,
        "is_start_given": request.start_at is not None,
        "misfire": request.misfire if is_again else None,
        "job_id": None,
        "schedule_id": None,
        "status": status,
        "is_same_payload": True,
        "is_fresh": False,
    }
    return Known(**{**values, **other})


DIFFERENT = [
    (ONCE, ScheduleRequest(id="a", due_at=NOW + timedelta(microseconds=1))),
    (ONCE, AGAIN),
    (AGAIN, ONCE),
    (AGAIN, ScheduleRequest(id="a", recurrence="FREQ=WEEKLY")),
    (AGAIN, ScheduleRequest(id="a", recurrence="FREQ=DAILY", timezone="Europe/Berlin")),
    (AGAIN, ScheduleRequest(id="a", recurrence="FREQ=DAILY", misfire="skip")),
    (AGAIN, ScheduleRequest(id="a", recurrence="FREQ=DAILY", start_at=NOW)),
]


@pytest.mark.parametrize("request_", [ONCE, AGAIN])
def test_the_same_again(request_: ScheduleRequest) -> None:
    for status in ("pending", "done", "cancelled"):
        assert second(known(request_, status), request_) == "same"
    other = known(request_, is_same_payload=False)
    assert second(other, request_) == "payload"


@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_another_timing(before: ScheduleRequest, after: ScheduleRequest) -> None:
    assert second(known(before), after) == "timing"
    assert second(known(before, "done"), after) == "over"
    assert second(known(before, "cancelled"), after) == "over"


def test_beside_an_instant_the_rest_says_nothing() -> None:
    other = ScheduleRequest(id="a", due_at=NOW, timezone="Europe/Berlin", misfire="skip", start_at=NOW)
    assert second(known(ONCE), other) == "same"


def test_a_tombstone() -> None:
    assert second(known(ONCE, None, due_at=None, is_fresh=True), ONCE) == "withdrawn"
    assert second(known(ONCE, None, due_at=None), ONCE) == "new"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (None, None, True),
        (None, "1", False),
        ("1", None, False),
        ('{"a":1,"b":2}', '{"b": 2.0, "a": 1}', True),
        ('{"a":1}', '{"a":"1"}', False),
    ],
)
def test_payloads_are_compared_by_what_they_say(one: str | None, other: str | None, is_same: bool) -> None:
    assert is_same_payload(one, other) == is_same


def test_a_start_is_a_whole_second_that_is_not_past() -> None:
    assert start_of(AGAIN, NOW) == NOW
    assert start_of(AGAIN, NOW + timedelta(microseconds=1)) == NOW + timedelta(seconds=1)
    given_start = ScheduleRequest(id="a", recurrence="FREQ=DAILY", start_at=NOW - timedelta(days=9))
    assert start_of(given_start, NOW) == NOW - timedelta(days=9)
    assert local_start(NOW, "Europe/Berlin") == datetime(2026, 3, 29, 11)


CANCEL = ScheduleCancel(id="a")


@given(st.lists(st.sampled_from([ONCE, AGAIN, CANCEL]), max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_portions_are_the_whole_in_order(asked: list[Any], recurrences: int, cancels: int) -> None:
    parts = [asked[portion] for portion in portions(asked, recurrences=recurrences, cancels=cancels)]
    assert [one for part in parts for one in part] == asked
    most = {AGAIN: recurrences, CANCEL: cancels}
    assert all(part.count(one) <= most[one] for part in parts for one in most)
    # None is smaller than it need be.
    assert all(part.count(later[0]) == most.get(later[0]) for part, later in pairwise(parts))


@given(st.lists(st.text(max_size=5)))
def test_names_are_in_the_order_of_their_bytes(ids: list[str]) -> None:
    ordered = in_order(ids)
    assert {*ordered} == {*ids}
    assert [one.encode() for one in ordered] == sorted(one.encode() for one in {*ids})
