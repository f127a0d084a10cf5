"""Quiet hours as instants: at their edges, on the nights when clocks are changed, and against a clock that is watched
minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import NaiveInstant
from timebell.rules.localtime import local_at, zone
from timebell.rules.quiet_hours import EVERY_DAY, Window, window_at

BERLIN = zone("Europe/Berlin")
NIGHT = (time(22), time(7))
MINUTE = timedelta(minutes=1)
QUARTER = 15 * MINUTE


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def berlin(*parts: int, fold: int = 0) -> datetime:
    return datetime(*parts, tzinfo=BERLIN, fold=fold).astimezone(UTC)  # type: ignore[misc, arg-type]


@pytest.mark.req("U-12")
@pytest.mark.parametrize(
    ("instant", "is_quiet"),
    [
        (berlin(2026, 1, 14, 21, 59), False),
        (berlin(2026, 1, 14, 21, 59, 59, 999_999), False),
        (berlin(2026, 1, 14, 22, 0), True),
        (berlin(2026, 1, 15, 0, 0), True),
        (berlin(2026, 1, 15, 6, 59), True),
        (berlin(2026, 1, 15, 6, 59, 59, 999_999), True),
        (berlin(2026, 1, 15, 7, 0), False),
        (berlin(2026, 1, 15, 12, 0), False),
    ],
)
def test_the_start_belongs_to_the_night_and_the_end_does_not(instant: datetime, is_quiet: bool) -> None:
    night = Window(utc(2026, 1, 14, 21), utc(2026, 1, 15, 6))
    assert window_at(instant, *NIGHT, BERLIN) == (night if is_quiet else None)


@pytest.mark.req("U-12")
@pytest.mark.parametrize(
    ("evening", "night"),
    [
        ((2026, 3, 28), Window(utc(2026, 3, 28, 21), utc(2026, 3, 29, 5))),
        ((2026, 10, 24), Window(utc(2026, 10, 24, 20), utc(2026, 10, 25, 6))),
    ],
    ids=["an hour is skipped", "an hour comes twice"],
)
def test_the_night_in_which_clocks_are_changed(evening: tuple[int, int, int], night: Window) -> None:
    hours = [21, 22, 6, 7]
    morning = evening[2] + 1
    edges = [
        berlin(*evening, hours[0], 59),
        berlin(*evening, hours[1]),
        berlin(*evening[:2], morning, hours[2], 59),
        berlin(*evening[:2], morning, hours[3]),
    ]
    assert [window_at(edge, *NIGHT, BERLIN) for edge in edges] == [None, night, night, None]


def test_the_recipients_clock_counts_and_not_that_of_the_server() -> None:
    instant = utc(2026, 1, 14, 17, 30)
    assert window_at(instant, *NIGHT, zone("Asia/Kolkata")) == Window(
        utc(2026, 1, 14, 16, 30), utc(2026, 1, 15, 1, 30)
    )
    assert window_at(instant, *NIGHT, BERLIN) is None


@pytest.mark.parametrize(
    ("instant", "is_quiet"),
    [
        (berlin(2026, 1, 14, 12, 59), False),
        (berlin(2026, 1, 14, 13, 0), True),
        (berlin(2026, 1, 14, 14, 29), True),
        (berlin(2026, 1, 14, 14, 30), False),
    ],
)
def test_hours_within_one_day(instant: datetime, is_quiet: bool) -> None:
    assert (window_at(instant, time(13), time(14, 30), BERLIN) is not None) is is_quiet


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    friday_and_saturday = frozenset({4, 5})
    asked = {
        "thursday evening": berlin(2026, 1, 15, 23),
        "friday before dawn": berlin(2026, 1, 16, 3),
        "friday evening": berlin(2026, 1, 16, 23),
        "sunday before dawn": berlin(2026, 1, 18, 3),
        "sunday evening": berlin(2026, 1, 18, 23),
    }
    quiet = {
        name for name, instant in asked.items() if window_at(instant, *NIGHT, BERLIN, friday_and_saturday)
    }
    assert quiet == {"friday evening", "sunday before dawn"}


@pytest.mark.parametrize("hour", range(0, 24, 3))
def test_the_same_start_and_end_is_no_quiet_hours(hour: int) -> None:
    assert window_at(berlin(2026, 1, 14, hour), time(3), time(3), BERLIN) is None
    assert window_at(berlin(2026, 10, 25, 2, 45), time(2, 30), time(2, 30), BERLIN) is None


def test_no_days_is_no_quiet_hours() -> None:
    assert window_at(berlin(2026, 1, 14, 23), *NIGHT, BERLIN, frozenset()) is None


@pytest.mark.parametrize(
    ("start", "end", "before", "after"),
    [
        (time(2, 30), time(5), None, Window(utc(2026, 3, 29, 1), utc(2026, 3, 29, 3))),
        (time(22), time(2, 30), Window(utc(2026, 3, 28, 21), utc(2026, 3, 29, 1)), None),
        (time(2, 15), time(2, 45), None, None),
    ],
    ids=["start", "end", "all of it"],
)
def test_what_the_clock_skips_is_replaced_by_the_moment_of_the_change(
    start: time, end: time, before: Window | None, after: Window | None
) -> None:
    change = utc(2026, 3, 29, 1)
    assert window_at(change - timedelta(microseconds=1), start, end, BERLIN) == before
    assert window_at(change, start, end, BERLIN) == after


@pytest.mark.parametrize(
    ("start", "end", "window"),
    [
        (time(2, 30), time(5), Window(utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 4))),
        (time(22), time(2, 30), Window(utc(2026, 10, 24, 20), utc(2026, 10, 25, 1, 30))),
        (time(2, 15), time(2, 45), Window(utc(2026, 10, 25, 0, 15), utc(2026, 10, 25, 1, 45))),
    ],
    ids=["start", "end", "all of it"],
)
def test_what_the_clock_shows_twice_is_quiet_throughout(start: time, end: time, window: Window) -> None:
    asked = window.begins_at
    while asked < window.ends_at:
        assert window_at(asked, start, end, BERLIN) == window
        asked += 5 * MINUTE
    assert window_at(window.ends_at, start, end, BERLIN) is None


def test_nights_that_touch_because_a_day_was_skipped_are_one() -> None:
    """Samoa had no 30 December 2011: the night that began on the 29th ran into the one of the 31st."""
    window = Window(utc(2011, 12, 30, 8), utc(2011, 12, 30, 17))
    assert window_at(utc(2011, 12, 30, 9), *NIGHT, zone("Pacific/Apia")) == window
    assert window_at(utc(2011, 12, 30, 11), *NIGHT, zone("Pacific/Apia")) == window


def test_nights_that_overlap_because_an_hour_came_twice_are_one() -> None:
    window = window_at(utc(2026, 10, 25, 1), time(2, 45), time(2, 30), BERLIN)
    assert window == Window(utc(2026, 10, 24, 0, 45), utc(2026, 10, 26, 1, 30))


@pytest.mark.parametrize("instant", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_where_the_calendar_ends_there_are_none(instant: datetime) -> None:
    for name in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        assert window_at(instant, *NIGHT, zone(name)) is None


def test_a_wall_time_is_no_instant() -> None:
    with pytest.raises(NaiveInstant, match="instant"):
        window_at(datetime(2026, 1, 14, 23), *NIGHT, BERLIN)


# Changes of the clock of an hour, half an hour, at midnight, to the south and back, and of a whole day.
CHANGES = [
    ("Europe/Berlin", utc(2026, 3, 29, 1)),
    ("Europe/Berlin", utc(2026, 10, 25, 1)),
    ("America/New_York", utc(2026, 11, 1, 6)),
    ("Australia/Lord_Howe", utc(2025, 10, 4, 15, 30)),
    ("Australia/Lord_Howe", utc(2026, 4, 4, 15)),
    ("America/Santiago", utc(2025, 9, 7, 4)),
    ("America/Santiago", utc(2026, 4, 5, 3)),
    ("Africa/Cairo", utc(2026, 4, 23, 22)),
    ("Pacific/Apia", utc(2011, 12, 30, 10)),
    ("Asia/Kolkata", utc(2026, 1, 14, 12)),
]


Question = tuple[datetime, time, time, ZoneInfo, frozenset[int]]


@st.composite
def questions(draw: st.DrawFn) -> tuple[datetime, Question]:
    name, change = draw(st.sampled_from(CHANGES))
    quarters = st.integers(0, 95).map(lambda count: time(count // 4, count % 4 * 15))
    near = draw(st.integers(-36 * 12, 36 * 12))
    days = draw(st.one_of(st.just(EVERY_DAY), st.frozensets(st.integers(0, 6))))
    return change, (change + near * 5 * MINUTE, draw(quarters), draw(quarters), zone(name), days)


@lru_cache(maxsize=len(CHANGES))
def written_down(timezone: ZoneInfo, change: datetime) -> list[tuple[datetime, datetime]]:
    """Each quarter of an hour around a change, and what the clock showed."""
    moments = [change - timedelta(days=7) + QUARTER * count for count in range(14 * 96)]
    return [(moment, local_at(moment.replace(tzinfo=None), timezone).replace(fold=0)) for moment in moments]


def is_quiet_by_watching(change: datetime, question: Question) -> bool:
    """What somebody would say who looks up when the clock first showed the start and when it last showed the end."""
    instant, start, end, timezone, days = question
    if start == end:
        return False
    seen = written_down(timezone, change)
    for near in range(-3, 3):
        day = (local_at(instant.replace(tzinfo=None), timezone) + timedelta(days=near)).date()
        if day.weekday() not in days:
            continue
        begin = datetime.combine(day, start)
        finish = datetime.combine(day + timedelta(days=1 if end < start else 0), end)
        begins_at = next(moment for moment, wall in seen if wall >= begin)
        last_at, shown = next((moment, wall) for moment, wall in reversed(seen) if wall <= finish)
        if begins_at <= instant < (last_at if shown == finish else last_at + QUARTER):
            return True
    return False


@given(questions())
@settings(max_examples=300, deadline=None)
def test_it_agrees_with_somebody_who_watches_the_clock(asked: tuple[datetime, Question]) -> None:
    change, question = asked
    instant, start, end, timezone, days = question
    window = window_at(*question)
    assert (window is not None) is is_quiet_by_watching(change, question)
    if window is not None:
        assert window.begins_at <= instant < window.ends_at
        for outside in (window.begins_at - MINUTE, window.ends_at):
            assert not is_quiet_by_watching(change, (outside, start, end, timezone, days))
