"""Generated rules against two oracles: the plain model in all of them, dateutil in all that are undisputed.

Where dateutil reads a rule differently, the shape of the rule is one of five that the model names, and for
each of them a test here says what dateutil would have to be asked to give our answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.recurrence_model import (
    WEEKDAYS,
    dateutil_walls,
    disputed_as,
    model_walls,
)
from tests.unit.recurrence_rules import FREQUENCIES, Sample, make_sample
from timebell.rules.budget import Budget
from timebell.rules.localtime import OnFold, OnGap
from timebell.rules.recurrence import expand, last_local, occurrences, read_series, unused_exdates

QUICK = settings(max_examples=50, deadline=None)
LIMIT = 12
SEEDS = range(1, 401)
SEEDS_MANY = range(10_000, 16_000)
DAY = timedelta(days=1)

# Long gaps and folds, short ones, at midnight, and twice a year around a month that moves.
TIMEZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
)


def locals_of(sample: Sample, *, after: datetime | None = None, limit: int = LIMIT) -> list[datetime]:
    found = occurrences(
        sample.rule,
        start_local=sample.start,
        timezone=None,
        after=after,
        before=sample.horizon,
        limit=limit,
    )
    return [occurrence.local for occurrence in found]


def judge(sample: Sample) -> str | None:
    """Hold one rule against both oracles; the name of the dispute if dateutil could not be asked."""
    expected = model_walls(sample.rule, sample.start, sample.horizon, LIMIT)
    assert locals_of(sample) == expected, sample
    dispute = disputed_as(sample.rule, sample.start)
    if expected and dispute is None:
        assert dateutil_walls(sample.rule, sample.start, len(expected)) == expected, sample
    return dispute


def judge_all(seeds: range) -> Counter[str | None]:
    return Counter(judge(make_sample(Random(seed))) for seed in seeds)


@pytest.mark.req("U-9")
def test_hundreds_of_rules_agree() -> None:
    disputes = judge_all(SEEDS)
    assert disputes[None] > 0.9 * len(SEEDS), "most rules must stay undisputed, or dateutil judges nothing"


@pytest.mark.slow
@pytest.mark.req("U-9")
def test_thousands_of_rules_agree() -> None:
    disputes = judge_all(SEEDS_MANY)
    assert disputes[None] > 0.9 * len(SEEDS_MANY)
    assert len(disputes) == 6, "each of the five disputes is met"


@QUICK
@given(st.randoms(use_true_random=False), st.sampled_from(FREQUENCIES))
def test_any_rule_agrees(random: Random, freq: str) -> None:
    judge(make_sample(random, freq))


@pytest.mark.parametrize(
    ("dispute", "rule"),
    [
        ("mixes_days_and_ordinals", "FREQ=MONTHLY;BYDAY=MO,2TU"),
        ("leaves_the_weekday_open", "FREQ=YEARLY;BYWEEKNO=20"),
        ("counts_in_week_years", "FREQ=YEARLY;INTERVAL=2;BYWEEKNO=1;BYDAY=MO,TU,WE,TH,FR,SA,SU"),
        ("meets_the_new_year", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA,SU"),
        ("numbers_a_week_begun", "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1"),
    ],
)
def test_each_dispute_is_a_real_one(dispute: str, rule: str) -> None:
    """dateutil differs from the model here, so no shape is excused that need not be."""
    start, horizon = datetime(1997, 9, 3, 9), datetime(2012, 1, 1)
    expected = model_walls(rule, start, horizon, LIMIT)
    assert disputed_as(rule, start) == dispute
    assert dateutil_walls(rule, start, LIMIT) != expected
    assert locals_of(Sample(rule, start, horizon)) == expected


@pytest.mark.parametrize("seed", range(30))
def test_plain_days_and_ordinals_are_a_union(seed: int) -> None:
    """What dateutil says to the plain days and to the ordinals apart, taken together."""
    random = Random(seed)
    plain, ordinal = random.sample(WEEKDAYS, 2)
    freq = random.choice(["MONTHLY", "YEARLY"])
    rest = random.choice(["", ";BYMONTH=1,5,9", ";INTERVAL=3"])
    number = random.choice([1, 2, 4, -1, -2])
    start = datetime(2001, 3, 5, 17, 20) + random.randint(0, 3000) * DAY
    sample = Sample(f"FREQ={freq}{rest};BYDAY={plain},{number}{ordinal}", start, start + 366 * 4 * DAY)
    apart = [f"FREQ={freq}{rest};BYDAY={days}" for days in (plain, f"{number}{ordinal}")]
    union = {wall for rule in apart for wall in dateutil_walls(rule, start, LIMIT)}
    assert locals_of(sample) == sorted(union)[:LIMIT]


@pytest.mark.parametrize("seed", range(30))
def test_a_week_without_a_day_takes_the_weekday_of_the_start(seed: int) -> None:
    random = Random(seed)
    weeks = ",".join(map(str, random.sample(range(2, 52), 3)))
    start = datetime(2001, 3, 5, 17, 20) + random.randint(0, 3000) * DAY
    rule = f"FREQ=YEARLY;BYWEEKNO={weeks};WKST={random.choice(WEEKDAYS)}"
    spelt_out = f"{rule};BYDAY={WEEKDAYS[start.weekday()]}"
    assert locals_of(Sample(rule, start, start + 366 * 6 * DAY)) == dateutil_walls(spelt_out, start, LIMIT)


@pytest.mark.parametrize("seed", range(30))
def test_weeks_away_from_the_new_year_are_as_dateutil_has_them(seed: int) -> None:
    """All the trouble with week numbers lies in the days around the end of the year."""
    random = Random(seed)
    rule = f"FREQ=YEARLY;BYWEEKNO=1,2,30,-2,52,53;BYDAY=TU,SA;WKST={random.choice(WEEKDAYS)}"
    start = datetime(2001, 3, 5, 17, 20) + random.randint(0, 3000) * DAY
    expected, found = (
        [wall for wall in walls if datetime(wall.year, 1, 5) < wall < datetime(wall.year, 12, 26)]
        for walls in (
            dateutil_walls(rule, start, 60),
            locals_of(Sample(rule, start, start + 366 * 9 * DAY), limit=60),
        )
    )
    shared = min(len(expected), len(found))
    assert shared > 10
    assert found[:shared] == expected[:shared]


@pytest.mark.parametrize("seed", range(30))
def test_a_week_is_numbered_whole(seed: int) -> None:
    """What dateutil says if the start is moved to the first day of its week, and then left out."""
    random = Random(seed)
    days = ",".join(random.sample(WEEKDAYS, 4))
    week_start = random.randrange(7)
    rule = f"FREQ=WEEKLY;INTERVAL={random.choice([1, 2, 3])};BYDAY={days};BYSETPOS={random.choice(['1', '-1', '2,3'])}"
    rule += f";WKST={WEEKDAYS[week_start]}"
    start = datetime(2001, 3, 5, 17, 20) + random.randint(0, 3000) * DAY
    opening = start - ((start.weekday() - week_start) % 7) * DAY
    expected = [wall for wall in dateutil_walls(rule, opening, LIMIT + 4) if wall >= start]
    assert locals_of(Sample(rule, start, start + 366 * 3 * DAY)) == expected[:LIMIT]


@pytest.mark.req("U-9", "R-4.4")
@pytest.mark.parametrize("seed", range(150))
def test_a_seek_finds_what_the_whole_series_has(seed: int) -> None:
    random = Random(seed)
    sample = make_sample(random)
    whole = locals_of(sample, limit=2000)
    is_cut = len(whole) == 2000
    until = whole[-1] if is_cut else sample.horizon
    for _ in range(8):
        point = sample.start + random.uniform(-0.1, 1.0) * (until - sample.start)
        point = random.choice([point.replace(microsecond=0), *whole[: random.randint(0, len(whole))][-1:]])
        later = [wall for wall in whole if wall > point]
        limit = min(5, len(later)) if is_cut else 5
        assert locals_of(sample, after=point, limit=limit) == later[:5], (sample, point)


@pytest.mark.req("R-4.4")
@pytest.mark.parametrize("seed", range(100))
def test_count_and_until_end_the_series(seed: int) -> None:
    random = Random(seed)
    sample = make_sample(random)
    whole = locals_of(sample)
    if not whole:
        return
    number = random.randint(1, len(whole))
    last = whole[number - 1]
    counted = Sample(f"{sample.rule};COUNT={number}", sample.start, sample.horizon)
    assert locals_of(counted) == whole[:number]
    assert last_local(counted.rule, start_local=sample.start) == last
    assert locals_of(counted, after=whole[0]) == whole[1:number]
    for until in (f"{last:%Y%m%dT%H%M%S}", f"{last:%Y%m%dT%H%M%S}Z"):
        bounded = occurrences(
            f"{sample.rule};UNTIL={until}", start_local=sample.start, timezone="UTC", limit=50
        )
        assert [occurrence.local for occurrence in bounded] == whole[:number]
    by_argument = occurrences(
        sample.rule, start_local=sample.start, timezone=None, until_local=last, limit=LIMIT + 5
    )
    assert [occurrence.local for occurrence in by_argument] == whole[:number]
    through_day = [wall for wall in locals_of(sample, limit=100) if wall.date() <= last.date()]
    dated = Sample(f"{sample.rule};UNTIL={last:%Y%m%d}", sample.start, sample.horizon)
    assert locals_of(dated, limit=100) == through_day


def instants(walls: list[datetime], timezone: str, on_gap: OnGap, on_fold: OnFold) -> list[datetime]:
    """The instants at which clocks show wall times, each there once and in their own order."""
    zone = ZoneInfo(timezone)
    found = set()
    for wall in walls:
        near = [wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        showing = [instant for instant in near if instant.astimezone(zone).replace(tzinfo=None) == wall]
        if showing:
            found.add(showing[-1] if on_fold == "second" else showing[0])
        elif on_gap == "shift":
            found.add(near[0])
    return sorted(found)


def last_change(random: Random, zone: ZoneInfo) -> datetime:
    """The first midnight in UTC after the clocks of a timezone changed, in a year chosen by chance."""
    first = datetime(random.randint(2008, 2014), 1, 1, tzinfo=UTC)
    days = [first + number * DAY for number in range(366)]
    changes = [
        later
        for day, later in pairwise(days)
        if day.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset()
    ]
    return random.choice(changes or days)


def near_a_change(random: Random, zone: ZoneInfo) -> datetime:
    """A wall time that the clocks will show, or should have shown, within two hours of a change of theirs."""
    high = last_change(random, zone)
    low = high - DAY
    while high - low > timedelta(minutes=1):
        middle = low + (high - low) / 2
        is_before = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
        low, high = (middle, high) if is_before else (low, middle)
    start = low.astimezone(zone).replace(tzinfo=None) + random.randint(-120, 120) * timedelta(minutes=1)
    return (start - random.randint(0, 3) * DAY).replace(second=random.choice([0, 0, 30]), microsecond=0)


def dense_rule(random: Random) -> str:
    """A rule that is due often enough to meet a change of clocks that is days away."""
    shapes = [
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU",
        "FREQ=MONTHLY;BYMONTHDAY=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "FREQ=DAILY;BYHOUR=0,1,2,3,23;BYMINUTE=0,30",
        "FREQ=DAILY;BYHOUR=0,1,2,3,4;BYSETPOS=-1,2",
        f"FREQ=HOURLY;INTERVAL={random.choice([1, 2, 5])}",
        "FREQ=HOURLY;BYMINUTE=0,15,30,45",
        f"FREQ=MINUTELY;INTERVAL={random.choice([5, 7, 30, 45, 1440])}",
        "FREQ=MINUTELY;BYHOUR=0,1,2,3;INTERVAL=20",
        "FREQ=SECONDLY;INTERVAL=900",
    ]
    return random.choice(shapes)


@pytest.mark.req("U-9", "R-4.11", "X-R12", "X-R14")
@pytest.mark.parametrize("timezone", TIMEZONES)
@pytest.mark.parametrize("seed", range(12))
def test_instants_are_the_wall_times_mapped_one_by_one(seed: int, timezone: str) -> None:
    random = Random(f"{seed} {timezone}")
    on_gap: OnGap = random.choice(["shift", "skip"])
    on_fold: OnFold = random.choice(["first", "second"])
    rule, start = dense_rule(random), near_a_change(random, ZoneInfo(timezone))
    walls = model_walls(rule, start, start + 8 * DAY, 5000)
    # The clocks can move a wall time past the end by a day at most, and those beyond it were not expanded.
    end = (start + 6 * DAY).replace(tzinfo=UTC)
    expected = [instant for instant in instants(walls, timezone, on_gap, on_fold) if instant < end]
    for after in [None, *(start.replace(tzinfo=UTC) + random.uniform(-1, 5) * DAY for _ in range(8))]:
        found = occurrences(
            rule,
            start_local=start,
            timezone=timezone,
            after=after,
            before=end,
            limit=5000,
            on_gap=on_gap,
            on_fold=on_fold,
        )
        later = [instant for instant in expected if after is None or instant > after]
        assert [occurrence.at for occurrence in found] == later, (rule, start, after, on_gap, on_fold)


@pytest.mark.parametrize("timezone", TIMEZONES)
def test_exdates_and_rdates_are_sets_of_instants(timezone: str) -> None:
    """What is excluded is compared after the clocks have had their say, and what is added joins once."""
    random = Random(timezone)
    start = near_a_change(random, ZoneInfo(timezone))
    rule = "FREQ=MINUTELY;INTERVAL=30"
    walls = model_walls(rule, start, start + 8 * DAY, 1000)
    excluded = [*random.sample(walls, 60), start + timedelta(minutes=7)]
    added = [start + random.randint(1, 4000) * timedelta(minutes=1) for _ in range(30)] + walls[:3]
    expected = set(instants(walls, timezone, "shift", "first")) | set(
        instants(added, timezone, "shift", "first")
    )
    expected -= set(instants(excluded, timezone, "shift", "first"))
    end = (start + 6 * DAY).replace(tzinfo=UTC)
    found = occurrences(
        rule, start_local=start, timezone=timezone, exdates=excluded, rdates=added, before=end, limit=1000
    )
    assert [occurrence.at for occurrence in found] == sorted(instant for instant in expected if instant < end)


@pytest.mark.parametrize(
    "end", ["", ";COUNT=70", ";UNTIL={end:%Y%m%dT%H%M%S}", ";UNTIL={end:%Y%m%dT%H%M%S}Z"]
)
@pytest.mark.parametrize("timezone", TIMEZONES)
def test_an_exdate_is_unused_where_the_series_has_no_such_instant(timezone: str, end: str) -> None:
    random = Random(f"{timezone} {end}")
    on_gap: OnGap = random.choice(["shift", "skip"])
    on_fold: OnFold = random.choice(["first", "second"])
    start = near_a_change(random, ZoneInfo(timezone))
    rule = f"FREQ=MINUTELY;INTERVAL=45{end.format(end=start + 2 * DAY)}"
    exdates = [start + random.randint(0, 5 * 96) * timedelta(minutes=15) for _ in range(200)]
    series = read_series(
        rule, start_local=start, timezone=timezone, exdates=exdates, on_gap=on_gap, on_fold=on_fold
    )
    whole = replace(series, excluded=frozenset())
    due = {one.at for one in expand(whole, limit=1000, budget=Budget())}
    used = [date for date in exdates if due & set(instants([date], timezone, on_gap, on_fold))]
    assert len(used) > 10
    assert unused_exdates(series) == [date for date in exdates if date not in used]
