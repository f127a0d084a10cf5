"""Hours in wall time, and what is left of them for several people: no clock, no database."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.meetings.free_time import (
    Hours,
    Span,
    available,
    check_hours,
    clock_of,
    free_slots,
    in_common,
    joined,
    slots_in,
    without,
)
from timebell.apps.meetings.models import Slot
from timebell.errors import InvalidInput, UnknownTimezone
from timebell.rules.localtime import local_at, zone

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SUNDAY, MONDAY, TUESDAY, SATURDAY = 0, 1, 2, 6
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
# The day on which nothing odd happens: a Monday.
START = datetime(2026, 3, 2)


def hours(start: float, end: float, day: int = MONDAY, timezone: str = BERLIN, **given: Any) -> Hours:
    return Hours(day_of_week=day, start=start * HOUR, end=end * HOUR, timezone=timezone, **given)


def at(day: int, hour: float, month: int = 3) -> datetime:
    return datetime(2026, month, day) + hour * HOUR


def span(day: int, start: float, end: float, month: int = 3) -> Span:
    return at(day, start, month), at(day, end, month)


def week(day: int, month: int = 3, days: int = 7) -> Span:
    return at(day, 0, month), at(day, 0, month) + timedelta(days=days)


def slot(one: Span) -> Slot:
    return Slot(one[0].replace(tzinfo=UTC), one[1].replace(tzinfo=UTC))


def first_slots(
    people: Iterable[list[Hours]], busy: Iterable[Span], window: Span, **given: Any
) -> list[Slot]:
    said = {"duration": HOUR, "interval": HOUR, "limit": 100, **given}
    return free_slots(people, [slot(one) for one in busy], slot(window), **said)


@pytest.mark.req("M-7.2", "X-M16")
def test_zero_is_sunday() -> None:
    """The second of March 2026 is a Monday."""
    assert available([hours(9, 10, SUNDAY, "UTC")], week(2)) == [span(8, 9, 10)]
    assert available([hours(9, 10, MONDAY, "UTC")], week(2)) == [span(2, 9, 10)]
    assert available([hours(9, 10, SATURDAY, "UTC")], week(2)) == [span(7, 9, 10)]


def test_without_any_hours_one_is_always_available() -> None:
    assert available([], week(2)) == [week(2)]


def test_hours_are_those_that_the_clocks_of_their_timezone_show() -> None:
    assert available([hours(9, 12)], week(2)) == [span(2, 8, 11)]
    assert available([hours(9, 12, timezone="Asia/Kolkata")], week(2)) == [span(2, 3.5, 6.5)]
    # Monday has begun there while it is Sunday in UTC, and goes on here while it is Tuesday.
    assert available([hours(1, 2, timezone="Pacific/Auckland")], (at(1, 0), at(2, 0))) == [span(1, 12, 13)]
    assert available([hours(22, 24, timezone=NEW_YORK)], (at(3, 0), at(4, 0))) == [span(3, 3, 5)]


def test_what_begins_before_a_window_or_ends_after_it_is_cut() -> None:
    window = (at(2, 10), at(2, 10.5))
    assert available([hours(9, 12, timezone="UTC")], window) == [window]


@pytest.mark.req("X-M16")
def test_hours_over_midnight_are_two_that_meet_there() -> None:
    night = [hours(22, 24), hours(0, 2, TUESDAY)]
    assert available(night, week(2)) == [(at(2, 21), at(3, 1))]


@pytest.mark.req("X-M16")
def test_what_does_not_recur_is_on_the_first_such_day() -> None:
    once = hours(9, 10, TUESDAY, "UTC", is_recurring=False, valid_from=date(2026, 3, 5))
    assert available([once], week(2, days=28)) == [span(10, 9, 10)]
    assert available([once], week(11, days=28)) == []
    on_the_day = hours(9, 10, TUESDAY, "UTC", is_recurring=False, valid_from=date(2026, 3, 3))
    assert available([on_the_day], week(2, days=28)) == [span(3, 9, 10)]


@pytest.mark.req("M-7.1")
def test_hours_are_on_both_days_that_they_are_valid_from_and_until() -> None:
    some = hours(9, 10, MONDAY, "UTC", valid_from=date(2026, 3, 9), valid_until=date(2026, 3, 23))
    assert available([some], week(2, days=60)) == [span(9, 9, 10), span(16, 9, 10), span(23, 9, 10)]


@pytest.mark.req("M-7.1")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        (hours(9, 10, 7), "day_of_week"),
        (hours(9, 10, -1), "day_of_week"),
        (hours(9, 9), "end_time"),
        (hours(22, 2), "end_time"),
        (hours(9, 10, valid_from=date(2026, 3, 9), valid_until=date(2026, 3, 8)), "valid_until"),
        (hours(9, 10, is_recurring=False), "valid_from"),
        (
            hours(9, 10, is_recurring=False, valid_from=date(2026, 3, 3), valid_until=date(2026, 3, 8)),
            "valid_until",
        ),
    ],
)
def test_hours_that_would_never_be_are_refused(given: Hours, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_hours(given)
    assert caught.value.field == field


@pytest.mark.req("M-7.1", "X-M16")
def test_the_refusal_of_hours_over_midnight_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match=r"two blocks.*24:00.*00:00"):
        check_hours(hours(22, 2))
    check_hours(hours(22, 24))
    with pytest.raises(UnknownTimezone):
        check_hours(hours(9, 10, timezone="Europe/Atlantis"))


def test_a_time_of_day_is_shown_as_clocks_do() -> None:
    assert [clock_of(text) for text in (9 * HOUR, 24 * HOUR, 9 * HOUR + timedelta(seconds=5))] == [
        "09:00",
        "24:00",
        "09:00:05",
    ]


@pytest.mark.req("M-7.2")
def test_in_the_weeks_when_only_one_side_has_changed_its_clocks() -> None:
    """New York from 8 March 2026, Berlin from 29 March: for three weeks they are an hour closer."""
    both = [[hours(14, 18)], [hours(8, 17, timezone=NEW_YORK)]]
    found = first_slots(both, [], week(2, days=35), duration=timedelta(minutes=30), interval=4 * HOUR)
    assert [(one.start.day, one.start.hour) for one in found] == [
        (2, 13),
        (9, 13),
        (16, 13),
        (23, 13),
        (30, 12),
    ]
    whole = in_common(available(both[0], week(2, days=35)), available(both[1], week(2, days=35)))
    # Berlin alone: 13 to 17, then 12 to 16 in UTC. New York: 13 to 22, then 12 to 21.
    assert whole == [
        span(2, 13, 17),
        span(9, 13, 17),
        span(16, 13, 17),
        span(23, 13, 17),
        span(30, 12, 16),
    ]
    early = [[hours(9, 14)], [hours(8, 17, timezone=NEW_YORK)]]
    closer = in_common(*(available(person, week(2, days=35)) for person in early))
    # Eight in the morning there is two in the afternoon here, and one in these weeks.
    assert closer == [span(9, 12, 13), span(16, 12, 13), span(23, 12, 13)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # At two it becomes three: 01:00Z.
        (hours(1, 4, SUNDAY), [span(29, 0, 2)]),
        (hours(2, 3, SUNDAY), []),
        (hours(2.5, 5, SUNDAY), [span(29, 1, 3)]),
        (hours(1, 2.5, SUNDAY), [span(29, 0, 1)]),
        (hours(1, 2, SUNDAY), [span(29, 0, 1)]),
    ],
)
def test_hours_that_clocks_skip_are_not_there(given: Hours, expected: list[Span]) -> None:
    assert available([given], week(28, days=3)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # At three it becomes two again: 01:00Z.
        (hours(1, 4, SUNDAY), [(at(24, 23, 10), at(25, 3, 10))]),
        (hours(2, 3, SUNDAY), [span(25, 0, 2, 10)]),
        (hours(2, 2.5, SUNDAY), [span(25, 0, 0.5, 10), span(25, 1, 1.5, 10)]),
        (hours(1, 2.5, SUNDAY), [(at(24, 23, 10), at(25, 0.5, 10)), span(25, 1, 1.5, 10)]),
        (hours(2.5, 5, SUNDAY), [span(25, 0.5, 1, 10), span(25, 1.5, 4, 10)]),
        (hours(3, 4, SUNDAY), [span(25, 2, 3, 10)]),
    ],
)
def test_hours_that_clocks_show_twice_are_there_twice(given: Hours, expected: list[Span]) -> None:
    assert available([given], week(24, 10, days=3)) == expected


ZONES = [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "America/St_Johns", "UTC"]


@given(
    timezone=st.sampled_from(ZONES),
    day=st.integers(0, 6),
    start=st.integers(0, 95),
    length=st.integers(1, 96),
    begins=st.datetimes(datetime(2011, 12, 20), datetime(2030, 1, 1)).map(
        lambda moment: moment.replace(minute=0, second=0, microsecond=0)
    ),
)
def test_one_is_available_exactly_when_the_clocks_show_such_a_time(
    timezone: str, day: int, start: int, length: int, begins: datetime
) -> None:
    given = hours(start / 4, min(start + length, 96) / 4, day, timezone)
    found = available([given], (begins, begins + timedelta(days=8)))
    for quarter in range(8 * 96):
        instant = begins + quarter * 15 * MINUTE
        shown = local_at(instant, zone(timezone))
        is_shown = shown.isoweekday() % 7 == day and (
            given.start <= shown - datetime.combine(shown, datetime.min.time()) < given.end
        )
        assert any(begin <= instant < end for begin, end in found) == is_shown, instant


spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 12)).map(
        lambda pair: (START + pair[0] * MINUTE, START + (pair[0] + pair[1]) * MINUTE)
    ),
    max_size=12,
)


def minutes(given: Iterable[Span]) -> set[int]:
    return {
        minute for begin, end in given for minute in range((begin - START) // MINUTE, (end - START) // MINUTE)
    }


def is_in_order(given: list[Span]) -> bool:
    return all(begin < end for begin, end in given) and all(
        one[1] < other[0] for one, other in pairwise(given)
    )


@given(ours=spans, theirs=spans)
def test_the_arithmetic_of_spans_is_that_of_their_minutes(ours: list[Span], theirs: list[Span]) -> None:
    mine, others = joined(ours), joined(theirs)
    both, rest = in_common(mine, others), without(mine, others)
    assert all(is_in_order(found) for found in (mine, both, rest))
    assert minutes(mine) == minutes(ours)
    assert minutes(both) == minutes(ours) & minutes(theirs)
    assert minutes(rest) == minutes(ours) - minutes(theirs)


@given(free=spans, busy=spans, length=st.integers(1, 15), step=st.integers(1, 15))
def test_slots_lie_in_what_is_free(free: list[Span], busy: list[Span], length: int, step: int) -> None:
    rest = without(joined(free), joined(busy))
    found = slots_in(rest, duration=length * MINUTE, interval=step * MINUTE, limit=1_000)
    ends = [(one.start.replace(tzinfo=None), one.end.replace(tzinfo=None)) for one in found]
    assert all(minutes([one]) <= minutes(rest) for one in ends)
    assert sorted(set(ends)) == ends
    # Where one fits, one is found.
    for begin, end in rest:
        is_long = end - begin >= length * MINUTE
        assert is_long == any(begin <= one[0] and one[1] <= end for one in ends)


@pytest.mark.req("M-7.2")
def test_slots_are_free_of_what_is_busy_and_inside_the_hours_of_all() -> None:
    people = [[hours(9, 17, timezone="UTC")], [hours(10, 18, timezone="UTC")], []]
    busy = [span(2, 8, 10.5), span(2, 12, 13), span(2, 12.5, 14)]
    found = first_slots(people, busy, week(2, days=1))
    assert found == [slot(span(2, start, start + 1)) for start in (10.5, 14, 15, 16)]
    assert first_slots(people, busy, week(2, days=1), limit=2) == found[:2]
    halves = first_slots(people, busy, week(2, days=1), interval=timedelta(minutes=30))
    assert [one.start.hour + one.start.minute / 60 for one in halves] == [10.5, 11, 14, 14.5, 15, 15.5, 16]


def test_slots_begin_at_round_times_but_where_one_fits_exactly() -> None:
    odd = at(2, 9) + 7 * MINUTE
    assert slots_in([(odd, at(2, 12))], duration=HOUR, interval=HOUR, limit=1) == [
        slot((at(2, 9) + 10 * MINUTE, at(2, 10) + 10 * MINUTE))
    ]
    assert slots_in([(odd, odd + HOUR)], duration=HOUR, interval=HOUR, limit=1) == [slot((odd, odd + HOUR))]
    assert slots_in([(odd, odd + HOUR)], duration=HOUR + MINUTE, interval=HOUR, limit=1) == []
    millennia = timedelta(days=3_000_000)
    assert slots_in([(odd, odd + HOUR)], duration=millennia, interval=millennia, limit=1) == []
