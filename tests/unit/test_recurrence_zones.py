"""Wall-time rules in every timezone of the pinned data: one occurrence per local date, none lost, none doubled."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from tests.unit.recurrence_model import model_walls
from timebell.rules.localtime import timezone_names
from timebell.rules.recurrence import Occurrence, occurrences

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
QUARTER = timedelta(minutes=15)
WEEK = "MO,TU,WE,TH,FR,SA,SU"
MONTH = ",".join(map(str, range(1, 32)))
YEAR = ",".join(map(str, range(1, 13)))

# Rules that are due on every date, each by another way, at the times of day that clocks like to change at.
EVERY_DATE = [
    ("FREQ=DAILY", time(0, 0)),
    ("FREQ=DAILY", time(2, 30)),
    ("FREQ=DAILY", time(23, 30)),
    (f"FREQ=WEEKLY;BYDAY={WEEK}", time(1, 30)),
    (f"FREQ=MONTHLY;BYMONTHDAY={MONTH}", time(0, 30)),
    (f"FREQ=YEARLY;BYMONTH={YEAR};BYDAY={WEEK}", time(3, 0)),
    ("FREQ=HOURLY;BYHOUR=2", time(2, 0)),
    ("FREQ=MINUTELY;INTERVAL=1440", time(0, 15)),
]
# Rules that are due on some dates, with a weekday and a month that most changes of clocks fall on.
SOME_DATES = [
    ("FREQ=WEEKLY;BYDAY=SU", time(2, 30)),
    ("FREQ=MONTHLY;BYDAY=-1SU,1SU,2SU", time(2, 0)),
    ("FREQ=YEARLY;BYMONTH=3,4,9,10,11;BYDAY=-1SU,1SU,2SU,-1FR", time(0, 0)),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", time(0, 45)),
]
SHAPES = EVERY_DATE + SOME_DATES
SHAPE_NAMES = [f"{rule[5:25]}-{at:%H%M}" for rule, at in SHAPES]

# Changes at midnight, of half an hour, of a whole day, at dates that move, against the sun, and without return.
AWKWARD = (
    *("Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Juba", "Africa/Khartoum"),
    *("Africa/Sao_Tome", "Africa/Tripoli", "Africa/Windhoek"),
    *("America/Asuncion", "America/Caracas", "America/Godthab", "America/Grand_Turk", "America/Havana"),
    *("America/Mexico_City", "America/Montevideo", "America/New_York", "America/Santiago"),
    *("America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns", "America/Vancouver"),
    *("Antarctica/Casey", "Antarctica/Troll"),
    *("Asia/Amman", "Asia/Beirut", "Asia/Damascus", "Asia/Gaza", "Asia/Kathmandu"),
    *("Asia/Pyongyang", "Asia/Tehran"),
    *("Atlantic/Azores", "Australia/Lord_Howe"),
    *("Europe/Berlin", "Europe/Dublin", "Europe/Istanbul", "Europe/Moscow"),
    *("Pacific/Apia", "Pacific/Chatham", "Pacific/Easter", "Pacific/Fakaofo"),
)

# Every name that is not whole hours from UTC in 2026; the last two are so for half of the year.
OFF_THE_HOUR = (
    *("America/St_Johns", "Canada/Newfoundland", "Pacific/Marquesas", "Pacific/Chatham", "NZ-CHAT"),
    *("Asia/Calcutta", "Asia/Kolkata", "Asia/Colombo", "Asia/Kabul", "Asia/Tehran", "Iran"),
    *("Asia/Kathmandu", "Asia/Katmandu", "Asia/Rangoon", "Asia/Yangon", "Indian/Cocos"),
    *("Australia/Adelaide", "Australia/South", "Australia/Broken_Hill", "Australia/Yancowinna"),
    *("Australia/Darwin", "Australia/North", "Australia/Eucla"),
    *("Australia/Lord_Howe", "Australia/LHI"),
)


@lru_cache(maxsize=1)
def distinct_timezones() -> list[str]:
    """One name for each set of rules: the many names of one timezone share their data to the byte."""
    by_data = {}
    for name in sorted(timezone_names()):
        by_data[files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()] = name
    return sorted(by_data.values())


def shown(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


@lru_cache(maxsize=1024)
def dates_left_out(timezone: str, first: date, last: date) -> frozenset[date]:
    """The dates that a timezone never had, as Samoa never had 30 December 2011."""
    zone = ZoneInfo(timezone)
    noons = [datetime.combine(first + number * DAY, time(12)) for number in range((last - first).days + 1)]
    return frozenset(
        noon.date() for noon in noons if shown(noon.replace(tzinfo=zone).astimezone(UTC), zone) != noon
    )


@lru_cache(maxsize=64)
def walls_of(rule: str, at: time, first: date, last: date) -> list[datetime]:
    """When a rule is due by the calendar alone: on every date between two, or on those that the model finds."""
    if (rule, at) in EVERY_DATE:
        dates = (first + number * DAY for number in range((last - first).days + 1))
        return [datetime.combine(day, at) for day in dates]
    return model_walls(rule, datetime.combine(first, at), datetime.combine(last, time()) + DAY, 10_000)


def complaint(one: Occurrence, zone: ZoneInfo) -> str | None:
    """What is wrong with an occurrence, judged by what the clocks show at instants and by nothing else."""
    near = (one.local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    showing = sorted(instant for instant in set(near) if shown(instant, zone) == one.local)
    if not showing:
        before, after = (shown(one.at + days * DAY, zone) - days * DAY for days in (-1, 1))
        is_shifted = shown(one.at, zone) - one.local == after - before > timedelta(0)
        return None if is_shifted and one.adjusted == "gap" else "not moved by the length of the gap"
    if one.at != showing[0]:
        return "the clocks do not show it then, or not for the first time"
    return None if one.adjusted == ("fold" if len(showing) == 2 else None) else "a fold is told wrongly"


def complaints(found: list[Occurrence], zone: ZoneInfo) -> list[tuple[Occurrence, str]]:
    """All that is wrong, looking closely only where the distance from UTC changes or is said to."""
    distances = [one.local - one.at.replace(tzinfo=None) for one in found]
    close = [
        one
        for place, one in enumerate(found)
        if one.adjusted or len(set(distances[max(place - 1, 0) : place + 2])) > 1 or place % 30 == 0
    ]
    return [(one, words) for one in close if (words := complaint(one, zone))]


def check_timezone(timezone: str, rule: str, at: time, first: date, last: date) -> None:
    found = occurrences(
        rule,
        start_local=datetime.combine(first, at),
        timezone=timezone,
        until_local=datetime.combine(last, at),
        limit=10_000,
    )
    # A date that a timezone left out gives its occurrence to the next; where both are due they are one.
    missing = dates_left_out(timezone, first, last)
    expected = {wall + DAY if wall.date() in missing else wall for wall in walls_of(rule, at, first, last)}
    named = [one.local + DAY if one.local.date() in missing else one.local for one in found]
    assert named == sorted(expected), (timezone, rule, at)
    assert all(earlier.at < later.at for earlier, later in pairwise(found)), (timezone, rule, at)
    assert not complaints(found, ZoneInfo(timezone)), (timezone, rule, at)


@pytest.mark.req("U-9", "R-4.11", "X-R14")
@pytest.mark.parametrize(("rule", "at"), SHAPES, ids=SHAPE_NAMES)
def test_awkward_timezones(rule: str, at: time) -> None:
    for timezone in AWKWARD:
        check_timezone(timezone, rule, at, date(2011, 1, 1), date(2012, 1, 31))


@pytest.mark.slow
@pytest.mark.req("U-9", "R-4.11", "X-R14")
@pytest.mark.parametrize(("rule", "at"), SHAPES, ids=SHAPE_NAMES)
def test_all_timezones_for_ten_years(rule: str, at: time) -> None:
    for timezone in distinct_timezones():
        check_timezone(timezone, rule, at, date(2021, 1, 1), date(2030, 12, 31))


@pytest.mark.slow
@pytest.mark.req("U-9", "R-4.11")
@pytest.mark.parametrize(("rule", "at"), SHAPES, ids=SHAPE_NAMES)
def test_awkward_timezones_for_twenty_years(rule: str, at: time) -> None:
    for timezone in AWKWARD:
        check_timezone(timezone, rule, at, date(2001, 1, 1), date(2020, 12, 31))


@lru_cache(maxsize=1)
def quarter_hours() -> list[datetime]:
    """Every quarter of an hour that is a Wednesday or a Thursday of 2026 somewhere."""
    opening = datetime(2025, 12, 31, tzinfo=UTC)
    instants = (opening + number * QUARTER for number in range(367 * 96))
    return [instant for instant in instants if instant.weekday() in {1, 2, 3}]


def found_by_looking(timezone: str) -> dict[tuple[int, time], list[datetime]]:
    """When the clocks first show each weekday and time in 2026, by looking every quarter of an hour."""
    zone = ZoneInfo(timezone)
    firsts: dict[datetime, datetime] = {}
    for instant in quarter_hours():
        wall = shown(instant, zone)
        if wall.hour in {0, 10, 14} and wall.minute == 0 and wall.year == 2026:
            firsts.setdefault(wall, instant)
    found: defaultdict[tuple[int, time], list[datetime]] = defaultdict(list)
    for wall, instant in firsts.items():
        found[wall.weekday(), wall.time()].append(instant)
    return found


def weekly(timezone: str, weekday: str, at: time) -> list[datetime]:
    found = occurrences(
        f"FREQ=WEEKLY;BYDAY={weekday}",
        start_local=datetime.combine(date(2025, 1, 1), at),
        timezone=timezone,
        after=datetime.combine(date(2026, 1, 1), time(), ZoneInfo(timezone)) - timedelta(seconds=1),
        before=datetime.combine(date(2027, 1, 1), time(), ZoneInfo(timezone)),
        limit=100,
    )
    return [occurrence.at for occurrence in found]


@pytest.mark.req("X-J1")
def test_23_names_are_never_on_the_hour_and_two_for_half_of_the_year() -> None:
    remainders = {
        name: {instant.astimezone(ZoneInfo(name)).minute for instant in quarter_hours()[:: 96 * 4]}
        for name in timezone_names()
    }
    assert {name for name, minutes in remainders.items() if minutes != {0}} == set(OFF_THE_HOUR)
    assert {name for name, minutes in remainders.items() if 0 not in minutes} == set(OFF_THE_HOUR[:23])


@pytest.mark.req("J-1.1", "J-2.1", "J-3.1", "X-J1")
@pytest.mark.parametrize("timezone", OFF_THE_HOUR)
def test_weekly_rules_in_half_hour_and_quarter_hour_timezones(timezone: str) -> None:
    """Wednesday 10:00 and 14:00 and Thursday 00:00, in a year with 52 Wednesdays and 53 Thursdays."""
    check_weekly_rules(timezone)


@pytest.mark.slow
@pytest.mark.req("J-1.1", "J-2.1", "J-3.1", "X-J1")
def test_weekly_rules_in_all_timezones() -> None:
    for timezone in distinct_timezones():
        check_weekly_rules(timezone)


def check_weekly_rules(timezone: str) -> None:
    expected = found_by_looking(timezone)
    wednesday, thursday = 2, 3
    assert weekly(timezone, "WE", time(10)) == expected[wednesday, time(10)], timezone
    assert weekly(timezone, "WE", time(14)) == expected[wednesday, time(14)], timezone
    assert weekly(timezone, "TH", time(0)) == expected[thursday, time(0)], timezone
    assert [len(expected[day, time(hour)]) for day, hour in ((2, 10), (2, 14), (3, 0))] == [52, 52, 53], (
        timezone
    )


@pytest.mark.req("J-3.1", "R-4.11")
def test_a_midnight_that_does_not_exist_is_the_first_instant_of_its_day() -> None:
    """On Thursday 22 March 2018 clocks in Tehran went from 00:00 to 01:00."""
    (found,) = occurrences(
        "FREQ=WEEKLY;BYDAY=TH",
        start_local=datetime(2018, 1, 4),
        timezone="Asia/Tehran",
        after=datetime(2018, 3, 20, tzinfo=UTC),
        limit=1,
    )
    assert found == Occurrence(
        at=datetime(2018, 3, 21, 20, 30, tzinfo=UTC), local=datetime(2018, 3, 22), adjusted="gap"
    )
    zone = ZoneInfo("Asia/Tehran")
    assert shown(found.at, zone) == datetime(2018, 3, 22, 1)
    assert shown(found.at - timedelta(seconds=1), zone).date() == date(2018, 3, 21)


@pytest.mark.req("R-4.11")
@pytest.mark.parametrize("timezone", ["America/Nuuk", "America/Godthab"])
def test_a_fold_that_only_the_rule_for_later_years_knows(timezone: str) -> None:
    """Greenland did not put its clocks back in 2023, though the rule that begins at that hour says it did.

    zoneinfo gives 23:30 the offset of a summer time that Greenland first had in the year after.
    """
    found = occurrences(
        "FREQ=DAILY",
        start_local=datetime(2023, 1, 1, 23, 30),
        timezone=timezone,
        after=datetime(2023, 10, 27, 12, tzinfo=UTC),
        limit=3,
    )
    assert [one.at for one in found] == [datetime(2023, 10, day, 1, 30, tzinfo=UTC) for day in (28, 29, 30)]
    assert [one.adjusted for one in found] == [None, None, None]


@pytest.mark.req("R-4.11", "X-R14")
@pytest.mark.parametrize(
    ("timezone", "local", "at", "adjusted"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:30", "gap"),
        ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30", "fold"),
        ("America/New_York", "2026-03-08T02:30", "2026-03-08T07:30", "gap"),
        ("America/New_York", "2026-11-01T01:30", "2026-11-01T05:30", "fold"),
        ("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:45", "gap"),
        ("Australia/Lord_Howe", "2026-04-05T01:45", "2026-04-04T14:45", "fold"),
        ("America/Havana", "2026-03-08T00:30", "2026-03-08T05:30", "gap"),
        ("Pacific/Apia", "2011-12-30T09:00", "2011-12-30T19:00", "gap"),
    ],
)
def test_gaps_and_folds_by_hand(timezone: str, local: str, at: str, adjusted: str) -> None:
    wall = datetime.fromisoformat(local)
    (found,) = occurrences("FREQ=DAILY;COUNT=1", start_local=wall, timezone=timezone)
    assert found.at == datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert (found.local, found.adjusted) == (wall, adjusted)
