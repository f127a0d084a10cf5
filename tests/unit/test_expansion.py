"""The wall times of a rule: disputed shapes, seeking, the ends of the calendar and what the work costs."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import islice
from random import Random

import pytest

from tests.unit.recurrence_rules import make_sample
from timebell.errors import RecurrenceError
from timebell.rules.budget import WORK_MAX, WORK_PER_OCCURRENCE, Budget
from timebell.rules.days import week_one, week_year, year_start
from timebell.rules.expansion import walls
from timebell.rules.rrule import parse_rule

START = datetime(1997, 9, 2, 9)


def expanded(rule: str, start: datetime = START, count: int = 4, **bounds: datetime) -> list[datetime]:
    return list(islice(walls(parse_rule(rule), start, Budget(), **bounds), count))


def days(rule: str, start: datetime = START, count: int = 4) -> list[str]:
    return [f"{wall:%Y-%m-%d}" for wall in expanded(rule, start, count)]


def times(rule: str, start: datetime = START, count: int = 4) -> list[str]:
    return [f"{wall:%d %H:%M:%S}" for wall in expanded(rule, start, count)]


def test_days_with_and_without_a_number_are_a_union() -> None:
    assert days("FREQ=MONTHLY;BYDAY=MO,2TU", datetime(2020, 1, 1), 6) == [
        "2020-01-06",
        "2020-01-13",
        "2020-01-14",
        "2020-01-20",
        "2020-01-27",
        "2020-02-03",
    ]


def test_a_week_number_without_a_day_means_the_weekday_of_the_start() -> None:
    for frequency in ("YEARLY", "MONTHLY", "WEEKLY"):
        rule = f"FREQ={frequency};BYWEEKNO=20"
        assert days(rule, count=3) == ["1998-05-12", "1999-05-18", "2000-05-16"]


def test_a_year_of_weeks_reaches_over_the_first_of_january() -> None:
    assert days("FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", count=4) == [
        "1997-12-29",
        "1999-01-04",
        "2000-01-03",
        "2001-01-01",
    ]
    # The start lies in week 1 of 1998, so every other year of weeks is an even one.
    assert days("FREQ=YEARLY;INTERVAL=2;BYWEEKNO=1;BYDAY=MO", datetime(1997, 12, 29), 3) == [
        "1997-12-29",
        "2000-01-03",
        "2001-12-31",
    ]
    assert days("FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO;BYMONTH=12", count=2) == ["1997-12-29", "2001-12-31"]


def test_week_53_exists_only_in_long_years() -> None:
    assert days("FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO", count=3) == ["1998-12-28", "2004-12-27", "2009-12-28"]
    assert days("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=MO", count=2) == ["1997-12-29", "2003-12-29"]
    assert days("FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", count=2) == ["1997-12-28", "1999-01-03"]


def test_the_day_on_which_weeks_begin_decides_where_week_one_lies() -> None:
    assert days("FREQ=YEARLY;BYWEEKNO=1;BYDAY=SU;WKST=SU", count=2) == ["1998-01-04", "1999-01-03"]
    assert days("FREQ=YEARLY;BYWEEKNO=1;BYDAY=SU;WKST=MO", count=2) == ["1998-01-04", "1999-01-10"]


def test_the_set_of_a_week_is_the_whole_week() -> None:
    # The start is a Tuesday, so Monday, the first of the week's set, has passed and Friday is the last.
    rule = "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1,-1"
    assert days(rule, count=3) == ["1997-09-05", "1997-09-08", "1997-09-12"]


def test_weekdays_limit_days_of_the_year() -> None:
    rule = "FREQ=YEARLY;BYYEARDAY=1,100,200,365;BYDAY=TU,TH"
    assert days(rule, count=3) == ["1998-01-01", "1998-12-31", "2000-07-18"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=YEARLY;BYYEARDAY=366", ["2000-12-31", "2004-12-31"]),
        ("FREQ=YEARLY;BYYEARDAY=-366", ["2000-01-01", "2004-01-01"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["2000-02-29", "2004-02-29"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-31", ["1997-10-01", "1997-12-01"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31,-1", ["1997-09-30", "1997-10-31"]),
        ("FREQ=MONTHLY;BYDAY=5FR", ["1997-10-31", "1998-01-30"]),
        ("FREQ=MONTHLY;BYDAY=-5FR", ["1997-10-03", "1998-01-02"]),
        ("FREQ=YEARLY;BYDAY=53MO", ["2001-12-31", "2007-12-31"]),
        ("FREQ=YEARLY;BYDAY=-53MO", ["2001-01-01", "2007-01-01"]),
        ("FREQ=YEARLY;BYMONTH=1,3;BYDAY=1TU,-1TH", ["1998-01-06", "1998-01-29"]),
        ("FREQ=YEARLY;BYYEARDAY=250,251,252;BYDAY=36MO", ["1997-09-08", "1998-09-07"]),
        ("FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR", ["1998-02-13", "1998-03-13"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", ["1997-09-29", "1997-10-30"]),
        ("FREQ=DAILY;BYMONTH=1;BYMONTHDAY=-1", ["1998-01-31", "1999-01-31"]),
        ("FREQ=WEEKLY;BYMONTH=1", ["1998-01-06", "1998-01-13"]),
        ("FREQ=DAILY;BYWEEKNO=-1;BYDAY=SU", ["1997-12-28", "1999-01-03"]),
        ("FREQ=DAILY;BYYEARDAY=-1", ["1997-12-31", "1998-12-31"]),
        ("FREQ=YEARLY;BYYEARDAY=-5,-4,-3,-2,-1;BYDAY=-1MO", ["1997-12-29", "1998-12-28"]),
        ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=30,31;BYDAY=-1TU", ["1998-03-31", "1999-03-30"]),
    ],
)
def test_days_counted_from_either_end(rule: str, expected: list[str]) -> None:
    assert days(rule, count=2) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=DAILY;BYHOUR=6,18;BYMINUTE=0,30;BYSETPOS=2,-1", ["02 18:30:00", "03 06:30:00", "03 18:30:00"]),
        (
            "FREQ=HOURLY;BYMINUTE=15,45;BYSECOND=15,45;BYSETPOS=3,-3",
            ["02 09:15:45", "02 09:45:15", "02 10:15:45"],
        ),
        ("FREQ=MINUTELY;BYSECOND=15,30,45;BYSETPOS=-1", ["02 09:00:45", "02 09:01:45", "02 09:02:45"]),
        ("FREQ=SECONDLY;BYSECOND=15,30;BYSETPOS=1", ["02 09:00:15", "02 09:00:30", "02 09:01:15"]),
        ("FREQ=SECONDLY;BYSECOND=15,30;BYSETPOS=2", []),
        ("FREQ=HOURLY;INTERVAL=5;BYHOUR=6,18", ["04 06:00:00", "06 18:00:00", "09 06:00:00"]),
        (
            "FREQ=MINUTELY;INTERVAL=25;BYHOUR=9,23;BYMINUTE=0,50",
            ["02 09:00:00", "02 09:50:00", "06 23:00:00"],
        ),
        ("FREQ=MINUTELY;INTERVAL=501", ["02 09:00:00", "02 17:21:00", "03 01:42:00"]),
        ("FREQ=SECONDLY;INTERVAL=90061", ["02 09:00:00", "03 10:01:01", "04 11:02:02"]),
        ("FREQ=SECONDLY;BYHOUR=6;BYMINUTE=6;BYSECOND=6,18", ["03 06:06:06", "03 06:06:18", "04 06:06:06"]),
    ],
)
def test_times_within_the_day(rule: str, expected: list[str]) -> None:
    assert times(rule, count=len(expected) or 1) == expected


def test_a_start_that_the_rule_does_not_mean_is_no_occurrence() -> None:
    assert days("FREQ=WEEKLY;BYDAY=MO", count=1) == ["1997-09-08"]


@pytest.mark.parametrize("seed", range(6))
def test_seeking_finds_what_walking_finds(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        sample = make_sample(random)
        rule = parse_rule(sample.rule)
        whole = list(islice(walls(rule, sample.start, Budget(limit=10**9), last=sample.horizon), 400))
        if not whole:
            continue
        begin = random.choice(whole) + timedelta(seconds=random.randint(-90_000, 90_000))
        expected = [wall for wall in whole if wall >= begin][:20]
        sought = list(islice(walls(rule, sample.start, Budget(), begin), len(expected)))
        assert sought == expected, (sample.rule, sample.start, begin)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=MO,WE,FR",
        "FREQ=MONTHLY;BYDAY=-1FR",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
        "FREQ=HOURLY;INTERVAL=3",
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=SECONDLY;INTERVAL=10",
    ],
)
def test_the_age_of_the_start_costs_nothing(rule: str) -> None:
    budget = Budget()
    next(walls(parse_rule(rule), datetime(1, 1, 1, 9), budget, datetime(2026, 11, 15, 9, 30)))
    assert budget.used < 50


def test_months_that_are_not_listed_are_leapt_over() -> None:
    for rule in ("FREQ=DAILY;BYMONTH=1", "FREQ=HOURLY;BYMONTH=1", "FREQ=SECONDLY;BYMONTH=1"):
        budget = Budget()
        assert next(walls(parse_rule(rule), datetime(1997, 2, 1), budget)) == datetime(1998, 1, 1)
        assert budget.used < 20


@pytest.mark.parametrize("frequency", ["DAILY", "HOURLY;BYHOUR=9", "SECONDLY;BYHOUR=9;BYMINUTE=0;BYSECOND=0"])
@pytest.mark.parametrize(
    ("parts", "year"),
    [
        ("BYMONTHDAY=13;BYDAY=FR", 2055),
        ("BYMONTH=2;BYMONTHDAY=29", 2408),
        ("BYYEARDAY=366", 2408),
        ("BYDAY=MO", 1999),
    ],
)
def test_rare_days_are_found_without_looking_at_the_others(frequency: str, parts: str, year: int) -> None:
    budget = Budget()
    found = list(islice(walls(parse_rule(f"FREQ={frequency};{parts}"), START, budget), 100))
    assert found[-1].year == year
    assert budget.used < 60_000


def test_begin_and_last_belong_to_the_window() -> None:
    nine = datetime(2026, 1, 5, 9)
    assert expanded("FREQ=DAILY", begin=nine, last=nine) == [nine]
    assert expanded("FREQ=DAILY", begin=nine, last=nine - timedelta(seconds=1)) == []
    assert expanded("FREQ=MONTHLY", begin=datetime(2026, 1, 2, 9), last=datetime(2026, 1, 2, 8, 59, 59)) == []


def test_the_calendar_ends_without_a_crash() -> None:
    last_day = datetime(9999, 12, 31, 9)
    assert expanded("FREQ=DAILY", last_day) == [last_day]
    assert expanded("FREQ=YEARLY;INTERVAL=9999999999", START) == [START]
    assert expanded("FREQ=SECONDLY;INTERVAL=9999999999", last_day) == [last_day]
    assert expanded("FREQ=WEEKLY;BYDAY=SU,FR", datetime(9999, 12, 30), 9) == [datetime(9999, 12, 31)]
    assert expanded("FREQ=YEARLY;BYWEEKNO=52;BYDAY=MO,SU", datetime(9999, 1, 1), 9)[-1].year == 9999
    assert expanded("FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO,SU", datetime(1, 1, 1), 2) == [
        datetime(1, 1, 1),
        datetime(1, 1, 7),
    ]
    assert expanded("FREQ=WEEKLY;BYMONTH=12;BYDAY=SU,FR", datetime(9999, 12, 30)) == [datetime(9999, 12, 31)]
    assert expanded("FREQ=DAILY;BYMONTH=1", datetime(9999, 2, 1)) == []


def test_a_rule_that_never_matches_ends_in_an_error_and_not_in_a_busy_processor() -> None:
    budget = Budget()
    with pytest.raises(RecurrenceError, match="steps of work") as caught:
        next(walls(parse_rule("FREQ=DAILY;INTERVAL=7;BYDAY=MO"), START, budget))
    assert caught.value.part == "recurrence"
    assert WORK_MAX < budget.used < WORK_MAX + 50


def test_an_occurrence_pays_for_a_little_more_work() -> None:
    budget = Budget(limit=10)
    budget.spend(10)
    budget.earn()
    budget.spend(WORK_PER_OCCURRENCE)
    with pytest.raises(RecurrenceError):
        budget.spend(1)


def test_many_times_of_many_days_are_never_listed() -> None:
    every = ",".join(map(str, range(60)))
    clock = f"BYHOUR={','.join(map(str, range(24)))};BYMINUTE={every};BYSECOND={every}"
    assert expanded(f"FREQ=YEARLY;{clock};BYSETPOS=-1", START, 1) == [datetime(1997, 9, 2, 23, 59, 59)]
    whole_year = f"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;{clock}"
    assert expanded(f"{whole_year};BYSETPOS=-1", START, 1) == [datetime(1997, 12, 31, 23, 59, 59)]
    assert expanded(whole_year, START, 2) == [START, START + timedelta(seconds=1)]


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1900, 2000, 2026, 9999])
def test_years_and_weeks_agree_with_the_calendar(year: int) -> None:
    assert year_start(year) == date(year, 1, 1).toordinal()
    for day in (date(year, 1, 4), date(year, 6, 15)):
        iso = day.isocalendar()
        assert week_year(day.toordinal(), 0) == iso.year
        assert (day.toordinal() - week_one(iso.year, 0)) // 7 + 1 == iso.week
