"""Weeks by the clock of a project, without a database: each run of the cycle in every zone, against an oracle."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.marketplace.week_oracle import first_shown, runs_of, shown
from timebell.apps.marketplace.payments.weeks import (
    RUNS,
    Run,
    cutoff_before,
    cutoff_of,
    first_instant,
    first_run,
    funded_until_first,
    is_unpaid,
    last_minute,
    local_date,
    monday_of,
    next_week,
    sunday_of,
    week_of,
)
from timebell.rules.localtime import timezone_names, zone
from timebell.rules.recurrence import occurrences

WEDNESDAY = date(2026, 3, 4)
MONDAY = date(2026, 1, 5)
WEEKS = 52
ODD = (
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Australia/Eucla",
    "America/St_Johns",
    "Pacific/Chatham",
    "Pacific/Marquesas",
    "Pacific/Kiritimati",
    "Pacific/Niue",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Nuuk",
    "America/Havana",
    "Asia/Beirut",
    "Antarctica/Troll",
)
days = st.dates(min_value=date(1975, 1, 10), max_value=date(2090, 1, 1))
zones = st.sampled_from(sorted(timezone_names()))


def planned(run: Run, timezone: str, monday: date, weeks: int) -> list[datetime]:
    """What the schedule of a run comes to."""
    found = occurrences(
        RUNS[run].recurrence, start_local=first_run(run, monday), timezone=timezone, limit=weeks + 10
    )
    return [each.at for each in found[:weeks]]


def expect_each_week(timezone: str, monday: date, weeks: int) -> None:
    place = ZoneInfo(timezone)
    for run, weekly in RUNS.items():
        expected = runs_of(weekly.weekday, weekly.at, place, monday, weeks)
        assert planned(run, timezone, monday, weeks) == expected, (timezone, run)
        assert len(set(expected)) == weeks
    assert [cutoff_of(monday + timedelta(days=7 * week), timezone) for week in range(weeks)] == expected


@pytest.mark.req("J-1.1", "J-2.1", "J-3.1", "X-J1")
@pytest.mark.parametrize("timezone", ODD)
def test_a_year_has_each_run_once_a_week_at_its_wall_time(timezone: str) -> None:
    expect_each_week(timezone, MONDAY, WEEKS)
    place = ZoneInfo(timezone)
    walls = {run: {shown(at, place).time() for at in planned(run, timezone, MONDAY, WEEKS)} for run in RUNS}
    assert walls["payments"] == {time(10)}
    assert walls["warnings"] == {time(14)}
    assert walls["cutoffs"] == {time(0)}


@pytest.mark.slow
@pytest.mark.req("J-1.1", "J-2.1", "J-3.1", "X-J1")
def test_a_year_has_each_run_once_a_week_in_every_zone() -> None:
    names = sorted(timezone_names())
    assert len(names) > 400
    for timezone in names:
        expect_each_week(timezone, MONDAY, WEEKS)


@pytest.mark.req("J-3.1")
def test_a_thursday_without_a_midnight_begins_with_its_first_instant() -> None:
    # Clocks were put forward at 00:00 on Thursday, 22 March 2018.
    thursday, timezone = date(2018, 3, 22), "Asia/Tehran"
    assert first_instant(thursday, timezone) == datetime(2018, 3, 21, 20, 30, tzinfo=UTC)
    assert shown(first_instant(thursday, timezone), ZoneInfo(timezone)).time() == time(1)
    assert cutoff_of(date(2018, 3, 19), timezone) == first_instant(thursday, timezone)
    expect_each_week(timezone, date(2018, 1, 1), WEEKS)


@pytest.mark.req("J-3.1")
def test_a_day_begins_in_the_middle_of_an_hour_where_clocks_leap_over_its_midnight() -> None:
    # At 23:30 clocks were put forward to 00:30, so that no clock showed the first half hour of the day.
    begins = first_instant(date(1919, 3, 31), "America/Toronto")
    assert begins == datetime(1919, 3, 31, 4, 30, tzinfo=UTC)
    assert shown(begins, ZoneInfo("America/Toronto")).time() == time(0, 30)


@pytest.mark.req("J-3.1")
@given(days, zones)
def test_a_day_begins_when_clocks_first_show_it(day: date, timezone: str) -> None:
    begins = first_instant(day, timezone)
    assert begins == first_shown(datetime.combine(day, time()), ZoneInfo(timezone))
    if local_date(begins, timezone) == day:
        assert local_date(begins - timedelta(microseconds=1), timezone) < day


@pytest.mark.req("J-1.5", "X-J6")
def test_a_wednesday_pays_for_the_week_that_comes() -> None:
    period = next_week(WEDNESDAY, "Europe/Berlin")
    assert period.start == datetime(2026, 3, 8, 23, tzinfo=UTC)
    assert period.end == datetime(2026, 3, 15, 23, tzinfo=UTC)
    assert last_minute(period.end, "Europe/Berlin") == datetime(2026, 3, 15, 23, 59)
    assert period.start in period
    assert period.end not in period
    for weekday in range(7):
        assert next_week(date(2026, 3, 2) + timedelta(days=weekday), "Europe/Berlin") == period


@pytest.mark.req("J-1.5")
@pytest.mark.parametrize(
    ("timezone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 167.0),
        ("Europe/Berlin", date(2026, 10, 25), 169.0),
        ("America/New_York", date(2026, 3, 8), 167.0),
        ("America/New_York", date(2026, 11, 1), 169.0),
        ("Australia/Lord_Howe", date(2026, 4, 5), 168.5),
        ("Australia/Lord_Howe", date(2026, 10, 4), 167.5),
        ("Asia/Kolkata", date(2026, 3, 29), 168.0),
    ],
)
def test_a_week_is_as_long_as_its_clocks_make_it(timezone: str, day: date, hours: float) -> None:
    week = week_of(day, timezone)
    assert (week.end - week.start) / timedelta(hours=1) == hours


@pytest.mark.req("X-J6")
@given(days, zones)
def test_weeks_touch_and_leave_nothing_between_them(day: date, timezone: str) -> None:
    this, following = week_of(day, timezone), next_week(day, timezone)
    assert this.start < this.end == following.start < following.end
    assert this == week_of(monday_of(day), timezone) == week_of(sunday_of(day), timezone)
    assert sunday_of(day).weekday() == 6
    assert monday_of(day) <= day <= sunday_of(day)
    assert this.start < cutoff_of(day, timezone) < this.end
    assert funded_until_first(day, timezone) == this.end


@given(days, zones)
def test_a_period_leads_back_to_its_cutoff(day: date, timezone: str) -> None:
    if local_date(next_week(day, timezone).start, timezone).weekday() == 0:
        assert cutoff_before(next_week(day, timezone).start, timezone) == cutoff_of(day, timezone)


@pytest.mark.req("J-2.2", "J-3.2")
def test_whoever_is_paid_for_less_than_seven_days_ahead_has_not_paid() -> None:
    now = datetime(2026, 3, 4, 13, tzinfo=UTC)
    this, following = week_of(WEDNESDAY, "Europe/Berlin"), next_week(WEDNESDAY, "Europe/Berlin")
    assert is_unpaid(this.end, now)
    assert not is_unpaid(following.end, now)
    assert not is_unpaid(now + timedelta(days=7), now)
    assert is_unpaid(now + timedelta(days=7, microseconds=-1), now)


@pytest.mark.req("J-3.3")
def test_the_sunday_of_a_cutoff_is_that_of_its_thursday() -> None:
    assert sunday_of(date(2026, 3, 5)) == date(2026, 3, 8)
    assert sunday_of(date(2026, 3, 8)) == date(2026, 3, 8)
    assert sunday_of(date(2026, 3, 9)) == date(2026, 3, 15)


def test_the_zones_are_those_of_the_pinned_data() -> None:
    assert zone("Asia/Kolkata") == ZoneInfo("Asia/Kolkata")
