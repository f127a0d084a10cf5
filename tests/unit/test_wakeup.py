"""Hints: how they are put together, written down, read again, and handed on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.db.pool import Database
from timebell.db.wakeup import WAKEUP, Hints, Wakeups, decode, encode, merge

NOW = datetime(2027, 3, 1, 9, 0, 0, 123_456, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HINTS = st.dictionaries(
    st.integers(0, 255), st.datetimes(datetime(1971, 1, 1), timezones=st.just(UTC)), max_size=64
)


class Noted:
    """Stands where the pool is and notes what would be sent; `hold` keeps a sending on its way."""

    def __init__(self) -> None:
        self.sent: list[Hints] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.error: Exception | None = None

    async def run(self, query: Any, /, *, name: str, text: str) -> list[Any]:
        assert (query.name, name) == ("notify", WAKEUP)
        self.sent.append(decode(text))
        await self.hold.wait()
        if self.error is not None:
            raise self.error
        return []


def made(noted: Noted) -> Wakeups:
    return Wakeups(cast(Database, noted))


@given(hints=HINTS)
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_again(hints: dict[int, datetime]) -> None:
    assert decode(encode(hints)) == hints


def test_hints_as_text() -> None:
    assert encode({7: NOW, 2: datetime(1970, 1, 1, tzinfo=UTC)}) == "2:0,7:1803891600123456"
    assert encode({}) == ""


def test_too_many_slots_to_name_become_all_of_them() -> None:
    many = {slot: NOW + slot * SECOND for slot in range(1, 66)}
    assert decode(encode(many)) == {-1: NOW + SECOND}
    assert len(encode({slot: datetime.max.replace(tzinfo=UTC) for slot in range(64)})) < 8_000


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("", {}),
        ("nonsense", {}),
        ("1:2:3", {}),
        ("1:x,2:0", {2: datetime(1970, 1, 1, tzinfo=UTC)}),
        ("1:" + "9" * 30, {}),
        ("1:" + "9" * 5_000, {}),
        (",,:,", {}),
    ],
)
def test_what_cannot_be_read_is_dropped(text: str, hints: dict[int, datetime]) -> None:
    assert decode(text) == hints


def test_the_earliest_instant_of_a_slot_counts() -> None:
    into = {1: NOW, 2: NOW}
    merge(into, {1: NOW - SECOND, 2: NOW + SECOND, 3: NOW})
    assert into == {1: NOW - SECOND, 2: NOW, 3: NOW}


async def test_listeners_of_this_process_come_first_and_the_rest_is_sent() -> None:
    noted = Noted()
    wakeups = made(noted)
    offered: list[Hints] = []

    def takes_slot_1(hints: Hints) -> Hints:
        offered.append(hints)
        return {slot: at for slot, at in hints.items() if slot != 1}

    def takes_slot_2(hints: Hints) -> Hints:
        offered.append(hints)
        return {slot: at for slot, at in hints.items() if slot != 2}

    wakeups.subscribe(takes_slot_1)
    wakeups.subscribe(takes_slot_2)
    wakeups.hint([(1, NOW), (2, NOW + SECOND), (2, NOW), (3, NOW)])
    assert offered == [{1: NOW, 2: NOW, 3: NOW}, {2: NOW, 3: NOW}]
    await wakeups.close()
    assert noted.sent == [{3: NOW}]


async def test_what_this_process_uses_itself_is_not_sent() -> None:
    noted = Noted()
    wakeups = made(noted)
    wakeups.subscribe(lambda hints: {})
    wakeups.hint([(1, NOW)])
    wakeups.hint([])
    await wakeups.close()
    assert noted.sent == []


async def test_who_no_longer_listens_is_not_asked() -> None:
    noted = Noted()
    wakeups = made(noted)

    def listener(hints: Hints) -> Hints:
        return {}

    wakeups.subscribe(listener)
    wakeups.unsubscribe(listener)
    wakeups.hint([(1, NOW)])
    await wakeups.close()
    assert noted.sent == [{1: NOW}]


async def test_hints_that_arrive_meanwhile_share_the_next_notification() -> None:
    noted = Noted()
    noted.hold.clear()
    wakeups = made(noted)
    wakeups.hint([(1, NOW)])
    await asyncio.sleep(0)
    assert noted.sent == [{1: NOW}]
    for number in range(100):
        wakeups.hint([(number % 3, NOW + number * SECOND)])
    noted.hold.set()
    await wakeups.close()
    assert noted.sent == [{1: NOW}, {0: NOW, 1: NOW + SECOND, 2: NOW + 2 * SECOND}]


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError()])
async def test_a_hint_that_is_lost_harms_nobody(error: Exception) -> None:
    noted = Noted()
    noted.error = error
    wakeups = made(noted)
    wakeups.hint([(1, NOW)])
    await wakeups.close()
    noted.error = None
    wakeups.hint([(2, NOW)])
    await wakeups.close()
    assert noted.sent == [{1: NOW}, {2: NOW}]
    assert not wakeups.is_listening
