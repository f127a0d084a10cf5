"""How often somebody may be reached, up to the instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timebell.notify.delivery.capping import counted, room_at
from timebell.notify.models import Cap

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CAP = Cap(count=2, per=10 * MINUTE)


def ago(*minutes: int) -> list[datetime]:
    return [NOW - each * MINUTE for each in minutes]


def test_what_was_sent_counts_until_its_time_is_over() -> None:
    assert counted(ago(1, 10, 9), CAP, NOW) == ago(9, 1)


@pytest.mark.parametrize(
    ("sent", "wait"),
    [((), None), ((3,), None), ((3, 10), None), ((3, 9), 1), ((8, 3), 2), ((5, 4, 3, 2), 7)],
    ids=str,
)
def test_there_is_room_again_when_enough_of_them_count_no_more(
    sent: tuple[int, ...], wait: int | None
) -> None:
    """Where more were sent than the cap allows, since it was lowered, all but one less than it have to pass."""
    assert room_at(ago(*sent), CAP, NOW) == (None if wait is None else NOW + wait * MINUTE)
