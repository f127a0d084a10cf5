"""Rules that spin, swell or crash other engines: each gets a correct answer or a named error, at a bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest

from timebell.errors import InvalidInput, RecurrenceError, UnknownTimezone
from timebell.rules.budget import WORK_MAX, Budget
from timebell.rules.recurrence import Occurrence, expand, read_series

BERLIN = "Europe/Berlin"
START = datetime(2020, 1, 1, 9)
NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)

# What one step too many may cost on top of the allowance.
ONE_STEP = 2_000


@dataclass(frozen=True, slots=True)
class Answer:
    found: list[Occurrence]
    work: int


def ask(
    rule: str,
    start: datetime = START,
    *,
    timezone: str | None = BERLIN,
    limit: int = 5,
    after: datetime | None = None,
) -> Answer:
    budget = Budget()
    try:
        series = read_series(rule, start_local=start, timezone=timezone)
        return Answer(expand(series, limit=limit, after=after, budget=budget), budget.used)
    finally:
        assert budget.used <= budget.limit + ONE_STEP


SIXTY = ",".join(map(str, range(60)))
WHOLE_DAY = f"BYHOUR={','.join(map(str, range(24)))};BYMINUTE={SIXTY};BYSECOND={SIXTY}"

NEXT = [
    ("FREQ=SECONDLY", START, timedelta(seconds=1)),
    ("FREQ=MINUTELY", datetime(1970, 1, 1), timedelta(minutes=1)),
    ("FREQ=DAILY", datetime(1, 1, 1, 12), timedelta(hours=1, minutes=30)),
    ("FREQ=SECONDLY;COUNT=1000000000", START, timedelta(seconds=1)),
    ("FREQ=MINUTELY;UNTIL=99991231T235959Z", START, timedelta(minutes=1)),
    ("FREQ=SECONDLY;INTERVAL=7", datetime(2026, 11, 15), timedelta(seconds=7)),
]


@pytest.mark.parametrize(("rule", "start", "wait"), NEXT)
def test_the_next_of_an_old_and_frequent_rule_costs_next_to_nothing(
    rule: str, start: datetime, wait: timedelta
) -> None:
    answer = ask(rule, start, limit=1, after=NOW)
    assert [one.at - NOW for one in answer.found] == [wait]
    assert answer.work < 50


NEVER = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MONTHLY;BYDAY=TU;BYSETPOS=10",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=40",
    "FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
    "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=10",
    "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=10",
    "FREQ=SECONDLY;INTERVAL=86400;BYHOUR=10",
    "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
    "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=3",
    "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=YEARLY;BYWEEKNO=1;BYMONTH=6;BYDAY=MO",
    "FREQ=YEARLY;BYYEARDAY=" + ",".join(map(str, range(1, 180))) + ";BYMONTH=12",
    "FREQ=MONTHLY;BYDAY="
    + ",".join(f"{n}{day}" for n in range(6, 30) for day in ("MO", "TU", "WE", "TH", "FR")),
    "FREQ=MONTHLY;BYWEEKNO=10;BYYEARDAY=300",
    "FREQ=YEARLY;BYWEEKNO=" + ",".join(map(str, range(2, 40))) + ";BYMONTH=12",
    f"FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30;{WHOLE_DAY}",
    f"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;{WHOLE_DAY}",
    "FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=5",
    "cron 0 0 */31 * MON#5",
]


def outcome(rule: str, after: datetime | None) -> str:
    try:
        return "occurrences" if ask(rule, after=after).found else "nothing"
    except RecurrenceError as error:
        return f"{error.part}: {'too much work' if 'steps of work' in error.reason else error.reason}"


@pytest.mark.parametrize("rule", NEVER)
@pytest.mark.parametrize("after", [None, NOW])
def test_a_rule_that_never_matches_has_no_occurrence_or_says_so(rule: str, after: datetime | None) -> None:
    assert outcome(rule, after) in {"nothing", "recurrence: too much work"}


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=10",
        "FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=5",
    ],
)
def test_steps_that_never_meet_are_seen_at_once(rule: str) -> None:
    assert ask(rule) == Answer([], 0)


ANSWERED = MappingProxyType(
    {
        "FREQ=MONTHLY;BYDAY=MO,2TU": datetime(2020, 1, 6, 9),
        "FREQ=YEARLY;INTERVAL=1000000000": START,
        "FREQ=DAILY;COUNT=1000000000": START,
        "FREQ=DAILY;COUNT=3;": START,
        "freq=daily;count=3": START,
        "FREQ=DAILY;UNTIL=20200103T090000": START,
        "FREQ=DAILY;UNTIL=20200103": START,
        f"FREQ=YEARLY;BYSETPOS=-1;{WHOLE_DAY}": datetime(2020, 1, 1, 23, 59, 59),
        f"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=-1;{WHOLE_DAY}": datetime(2020, 12, 31, 23, 59, 59),
        f"FREQ=DAILY;{WHOLE_DAY}": START,
    }
)


@pytest.mark.parametrize("rule", ANSWERED)
def test_strange_rules_that_mean_something_are_answered(rule: str) -> None:
    answer = ask(rule, limit=100)
    assert answer.found[0].local == ANSWERED[rule]
    assert answer.work <= WORK_MAX


def test_an_end_before_the_start_leaves_nothing() -> None:
    assert ask("FREQ=DAILY;UNTIL=20191231").found == []


def test_the_last_day_of_the_calendar_is_the_last() -> None:
    assert len(ask("FREQ=DAILY", datetime(9999, 12, 31)).found) == 1


def test_leap_days_come_every_four_years_and_not_in_2100() -> None:
    found = ask("FREQ=YEARLY", datetime(2096, 2, 29, 9)).found
    assert [one.local.year for one in found] == [2096, 2104, 2108, 2112, 2116]


REFUSED = [
    ("FREQ=DAILY;INTERVAL=1000000000000000000", "INTERVAL"),
    ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
    ("FREQ=DAILY;INTERVAL=-1", "INTERVAL"),
    ("FREQ=DAILY;COUNT=0", "COUNT"),
    ("FREQ=DAILY;COUNT=-5", "COUNT"),
    ("FREQ=DAILY;COUNT=2;UNTIL=20200102T090000Z", "COUNT"),
    ("FREQ=WEEKLY;BYDAY=" + ",".join(["MO"] * 100_000), "RRULE"),
    ("FREQ=MONTHLY;BYMONTHDAY=" + "9" * 100_000, "RRULE"),
    ("FREQ=DAILY;COUNT=4;COUNT=2", "COUNT"),
    ("FREQ=DAILY;FOO=1", "FOO"),
    ("FREQ=DAILY;X-FOO=1", "X-FOO"),
    ("FREQ=DAILY;CO\r\n UNT=2", "RRULE"),
    ("FREQ=DAILY;COUNT=1\r\nRRULE:FREQ=DAILY;COUNT=4", "RRULE"),
    ("FREQ=DAILY;COUNT=1\nRDATE:20300101T000000", "RRULE"),
    ("FREQ=YEARLY;BYEASTER=0", "BYEASTER"),
    ("FREQ=DAILY;BYHOUR=24", "BYHOUR"),
    ("FREQ=DAILY;BYMINUTE=-1", "BYMINUTE"),
    ("FREQ=DAILY;BYSECOND=60", "BYSECOND"),
    ("FREQ=YEARLY;BYMONTH=13", "BYMONTH"),
    ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY"),
    ("FREQ=YEARLY;BYDAY=54MO", "BYDAY"),
    ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY"),
    ("FREQ=WEEKLY;WKST=XX", "WKST"),
    ("FREQ=MONTHLY;BYSETPOS=2", "BYSETPOS"),
    ("", "RRULE"),
    ("COUNT=3", "FREQ"),
    ("FREQ=DAILY;COUNT=٣", "RRULE"),
    ("FREQ=YEARLY;BYMONTHDAY=15", "BYMONTHDAY"),
]


@pytest.mark.parametrize(("rule", "part"), REFUSED, ids=[rule[:40] for rule, _ in REFUSED])
def test_what_means_nothing_is_refused_by_its_part(rule: str, part: str) -> None:
    with pytest.raises(RecurrenceError) as caught:
        ask(rule)
    assert caught.value.part == part
    assert caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd"])
def test_a_timezone_is_never_a_path(name: str) -> None:
    with pytest.raises(UnknownTimezone):
        ask("FREQ=DAILY", timezone=name)


def test_ten_thousand_exdates_are_a_set() -> None:
    dates = [START + timedelta(days=day) for day in range(10_000)]
    series = read_series("FREQ=DAILY", start_local=START, timezone=BERLIN, exdates=dates)
    budget = Budget()
    found = expand(series, limit=100, budget=budget)
    assert found[0].local == START + timedelta(days=10_000)
    assert len(found) == 100
    with pytest.raises(InvalidInput, match="exdates"):
        read_series("FREQ=DAILY", start_local=START, timezone=BERLIN, exdates=[*dates, START])


def test_counting_far_is_refused_instead_of_done() -> None:
    with pytest.raises(RecurrenceError) as caught:
        ask("FREQ=MINUTELY;BYHOUR=9;COUNT=1000000000", after=NOW)
    assert caught.value.part == "COUNT"
