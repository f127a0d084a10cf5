"""`timebell.client.dedupe`: what came before is known, by whoever fired and when it was to, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from timebell.client.dedupe import Due, Key, LastSeen, dedupe, read_due
from timebell.errors import InvalidInput

NINE = datetime(2026, 3, 29, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def fired(id: str = "daily", day: int = 0, *, tenant: str = "default", late: float = 0.0) -> bytes:
    due_at = NINE + day * DAY
    said = {
        "type": "ScheduleDue",
        "id": id,
        "tenant": tenant,
        "fired_at": written(due_at + timedelta(seconds=late)),
        "scheduled_for": written(due_at),
        "occurrence": due_at.replace(tzinfo=None).isoformat(),
        "payload": {"n": 7},
    }
    return orjson.dumps(said)


def written(instant: datetime) -> str:
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.req("S-5.2")
def test_a_duplicate_is_known_by_its_id_and_its_instant() -> None:
    """A crash at the second fire of three: four messages, and the helper passes three."""
    messages = [fired(day=0), fired(day=1), fired(day=1, late=30.0), fired(day=2)]
    seen = LastSeen()
    passed = [due for body in messages if (due := dedupe(body, seen)) is not None]
    assert [due.scheduled_for for due in passed] == [NINE, NINE + DAY, NINE + 2 * DAY]
    assert {due.id for due in passed} == {"daily"}
    assert passed[1].fired_at == NINE + DAY
    assert passed[1].payload == {"n": 7}


async def test_a_receiver_that_waits_for_its_store_waits_here_too() -> None:
    noted: set[Key] = set()

    async def note(due: Due) -> bool:
        is_new = due.key not in noted
        noted.add(due.key)
        return is_new

    passed = [await dedupe(fired(day=day), note) for day in (0, 1, 1, 2)]
    assert [due and due.scheduled_for for due in passed] == [NINE, NINE + DAY, None, NINE + 2 * DAY]


def test_neither_other_ids_nor_other_tenants_are_duplicates() -> None:
    seen = LastSeen()
    for body in (fired(), fired("weekly"), fired(tenant="other")):
        assert dedupe(body, seen) is not None
        assert dedupe(body, seen) is None


def test_the_same_instant_is_the_same_however_it_is_written() -> None:
    seen = LastSeen()
    said = orjson.loads(fired())
    assert dedupe(said, seen) is not None
    assert dedupe({**said, "scheduled_for": "2026-03-29T11:00:00+02:00"}, seen) is None
    assert dedupe(orjson.dumps(said).decode(), seen) is None


def test_so_many_are_remembered_and_no_more() -> None:
    seen = LastSeen(2)
    first, second, third = (read_due(fired(day=day)) for day in range(3))
    assert [seen(each) for each in (first, second)] == [True, True]
    # What came again is remembered for longer.
    assert not seen(first)
    assert seen(third)
    assert len(seen) == 2
    assert not seen(first)
    assert seen(second)


def test_what_was_not_done_after_all_is_passed_again() -> None:
    seen = LastSeen()
    due = dedupe(fired(), seen)
    assert due is not None
    seen.forget(due)
    seen.forget(due)
    assert dedupe(fired(), seen) == due


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "body: the body is not JSON"),
        (b"[]", "body: is no ScheduleDue"),
        ({"type": "ScheduleRequest"}, "body: is no ScheduleDue"),
        ({"id": ""}, "id: is missing"),
        ({"id": 7}, "id: is missing"),
        ({"tenant": None}, "tenant: is missing"),
        ({"scheduled_for": None}, "scheduled_for: is missing"),
        ({"scheduled_for": "today"}, "scheduled_for: 'today' is no instant with an offset"),
        ({"scheduled_for": "2026-03-29T09:00:00"}, "scheduled_for: .* is no instant with an offset"),
        ({"scheduled_for": "0001-01-01T00:00:00+09:00"}, "scheduled_for: .* is no instant with an offset"),
        ({"fired_at": ""}, "fired_at: is missing"),
    ],
)
def test_what_is_no_such_message_is_refused(body: bytes | Mapping[str, Any], told: str) -> None:
    given = body if isinstance(body, bytes) else {**orjson.loads(fired()), **body}
    with pytest.raises(InvalidInput, match=told):
        dedupe(given, LastSeen())


def test_nothing_can_be_remembered_in_no_room() -> None:
    with pytest.raises(InvalidInput, match="most"):
        LastSeen(0)
