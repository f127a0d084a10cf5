"""The strict reader of RRULEs: what it takes, and what it refuses by part, reason and remedy."""

from __future__ import annotations

from datetime import datetime

import pytest

from timebell.errors import InvalidInput, RecurrenceError
from timebell.rules.rrule import Day, Frequency, Rule, Until, parse_rule


def refused(text: str) -> RecurrenceError:
    with pytest.raises(RecurrenceError) as caught:
        parse_rule(text)
    return caught.value


def test_every_part_has_its_field() -> None:
    text = (
        "FREQ=YEARLY;INTERVAL=2;COUNT=5;WKST=SU;BYMONTH=3,1;BYYEARDAY=-1,1;BYMONTHDAY=31,-31;"
        "BYDAY=FR,-1MO,+2TU;BYHOUR=9,8;BYMINUTE=30;BYSECOND=59,0;BYSETPOS=-366,366"
    )
    assert parse_rule(text) == Rule(
        frequency=Frequency.YEARLY,
        interval=2,
        count=5,
        week_start=6,
        by_month=(1, 3),
        by_year_day=(-1, 1),
        by_month_day=(-31, 31),
        by_day=(Day(0, -1), Day(1, 2), Day(4)),
        by_hour=(8, 9),
        by_minute=(30,),
        by_second=(0, 59),
        by_set_pos=(-366, 366),
    )
    assert parse_rule("FREQ=YEARLY;BYWEEKNO=53,-53;BYDAY=MO").by_week_no == (-53, 53)


@pytest.mark.parametrize("frequency", list(Frequency))
def test_every_frequency_is_known(frequency: Frequency) -> None:
    assert parse_rule(f"FREQ={frequency}") == Rule(frequency=frequency)


@pytest.mark.parametrize(
    "text",
    [
        "RRULE:FREQ=DAILY;COUNT=3",
        "freq=daily;count=3",
        "rrule:FREQ=Daily;COUNT=3",
        "COUNT=3;FREQ=DAILY",
        "FREQ=DAILY;COUNT=3;",
        "FREQ=DAILY;COUNT=03",
        "FREQ=DAILY;COUNT=3;INTERVAL=1;WKST=MO",
    ],
)
def test_the_same_rule_in_other_words(text: str) -> None:
    assert parse_rule(text) == Rule(frequency=Frequency.DAILY, count=3)


def test_a_value_that_is_given_twice_counts_once() -> None:
    assert parse_rule("FREQ=WEEKLY;BYDAY=MO,MO,TU;BYHOUR=9,9,09") == parse_rule(
        "FREQ=WEEKLY;BYDAY=TU,MO;BYHOUR=9"
    )


@pytest.mark.parametrize(
    ("value", "until"),
    [
        ("20261231", Until(at=datetime(2026, 12, 31, 23, 59, 59), form="date")),
        ("20261231T100000", Until(at=datetime(2026, 12, 31, 10), form="local")),
        ("20261231T100000Z", Until(at=datetime(2026, 12, 31, 10), form="utc")),
    ],
)
def test_the_three_forms_of_until(value: str, until: Until) -> None:
    assert parse_rule(f"FREQ=DAILY;UNTIL={value}").until == until


@pytest.mark.parametrize(
    "value",
    ["2026", "20261301", "20260230", "20261231T240000", "20261231T100060", "20261231Z", "00000101", "NEVER"],
)
def test_an_until_that_is_no_time_is_refused(value: str) -> None:
    assert refused(f"FREQ=DAILY;UNTIL={value}").part == "UNTIL"


@pytest.mark.parametrize(
    ("text", "part", "reason"),
    [
        ("COUNT=3", "FREQ", "missing"),
        ("FREQ=FORTNIGHTLY", "FREQ", "no frequency"),
        ("FREQ=DAILY;COUNT=2;COUNT=4", "COUNT", "twice"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20260101", "COUNT", "not both"),
        ("FREQ=DAILY;FOO=1", "FOO", "no such part"),
        ("FREQ=DAILY;X-FOO=1", "X-FOO", "no such part"),
        ("FREQ=DAILY;BYEASTER=0", "BYEASTER", "no such part"),
        ("FREQ=YEARLY;RSCALE=HEBREW", "RSCALE", "no such part"),
        ("FREQ=YEARLY;SKIP=FORWARD", "SKIP", "no such part"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL", "positive"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL", "positive"),
        ("FREQ=DAILY;INTERVAL=+1", "INTERVAL", "positive"),
        ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL", "positive"),
        ("FREQ=DAILY;INTERVAL=10000000000", "INTERVAL", "positive"),
        ("FREQ=DAILY;COUNT=0", "COUNT", "positive"),
        ("FREQ=DAILY;COUNT=", "RRULE", "NAME=VALUE"),
        ("FREQ=DAILY;BYMONTH=0", "BYMONTH", "out of range"),
        ("FREQ=DAILY;BYMONTH=13", "BYMONTH", "out of range"),
        ("FREQ=DAILY;BYMONTH=-1", "BYMONTH", "out of range"),
        ("FREQ=DAILY;BYMONTH=5L", "BYMONTH", "out of range"),
        ("FREQ=DAILY;BYMONTH=1,,2", "BYMONTH", "out of range"),
        ("FREQ=DAILY;BYMONTHDAY=0", "BYMONTHDAY", "out of range"),
        ("FREQ=DAILY;BYMONTHDAY=32", "BYMONTHDAY", "out of range"),
        ("FREQ=DAILY;BYMONTHDAY=-32", "BYMONTHDAY", "out of range"),
        ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY", "out of range"),
        ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO", "out of range"),
        ("FREQ=YEARLY;BYWEEKNO=0", "BYWEEKNO", "out of range"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR", "out of range"),
        ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE", "out of range"),
        ("FREQ=DAILY;BYSECOND=60", "BYSECOND", "out of range"),
        ("FREQ=DAILY;BYHOUR=9;BYSETPOS=0", "BYSETPOS", "out of range"),
        ("FREQ=DAILY;BYHOUR=9;BYSETPOS=367", "BYSETPOS", "out of range"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS", "no other BY part"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY", "no day"),
        ("FREQ=MONTHLY;BYDAY=54MO", "BYDAY", "no day"),
        ("FREQ=MONTHLY;BYDAY=-MO", "BYDAY", "no day"),
        ("FREQ=MONTHLY;BYDAY=MON", "BYDAY", "no day"),
        ("FREQ=MONTHLY;BYDAY=1", "BYDAY", "no day"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "BYDAY", "one of each"),
        ("FREQ=WEEKLY;WKST=XX", "WKST", "no day"),
        ("FREQ=WEEKLY;WKST=1MO", "WKST", "no day"),
        ("FREQ=YEARLY;BYMONTHDAY=15", "BYMONTHDAY", "without BYMONTH"),
        ("FREQ=YEARLY;BYMONTHDAY=13;BYDAY=FR", "BYMONTHDAY", "without BYMONTH"),
        ("", "RRULE", "NAME=VALUE"),
        ("RRULE:", "RRULE", "NAME=VALUE"),
        (";", "RRULE", "NAME=VALUE"),
        ("FREQ=DAILY;;", "RRULE", "NAME=VALUE"),
        ("FREQ", "RRULE", "NAME=VALUE"),
        ("=DAILY", "RRULE", "NAME=VALUE"),
        ("FREQ=DAILY; COUNT=3", "RRULE", "space"),
        ("FREQ=DAILY;CO\r\n UNT=3", "RRULE", "line break"),
        ("FREQ=DAILY\nRDATE:20300101T000000", "RRULE", "line break"),
        ("FREQ=DAILY;COUNT=٣", "RRULE", "ASCII"),
        ("FREQ=DAILY\x00", "RRULE", "control"),
    ],
)
def test_what_is_refused(text: str, part: str, reason: str) -> None:
    error = refused(text)
    assert error.part == part
    assert reason in error.reason
    assert error.remedy
    assert str(error) == f"recurrence: {part}: {error.reason}; {error.remedy}"


def test_a_refusal_is_bad_input_for_the_field_recurrence() -> None:
    error = refused("FREQ=DAILY;BYHOUR=24")
    assert isinstance(error, InvalidInput)
    assert error.field == "recurrence"
    assert "0 to 23" in error.remedy


def test_a_misspelt_part_is_recognised() -> None:
    assert refused("FREQ=DAILY;INTERVALL=2").remedy == "did you mean INTERVAL?"


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYHOUR=" + "9" * 100_000,
        "FREQ=WEEKLY;BYDAY=" + ",".join(["MO"] * 100_000),
        "A" * 500 + "=1",
        "FREQ=" + "Ü" * 1000,
    ],
)
def test_a_refusal_repeats_little_of_a_long_text(text: str) -> None:
    assert len(str(refused(text))) < 300


def test_a_rule_may_be_as_long_as_it_needs() -> None:
    minutes = ",".join(map(str, range(60)))
    text = f"FREQ=HOURLY;BYMINUTE={minutes};BYSECOND={minutes}"
    assert len(parse_rule(text).by_second) == 60
    assert "characters" in refused("FREQ=DAILY;BYHOUR=" + "9," * 600).reason


@pytest.mark.parametrize(
    "text", ["FREQ=YEARLY;BYWEEKNO=20;BYMONTHDAY=15", "FREQ=YEARLY;BYYEARDAY=100;BYMONTHDAY=10"]
)
def test_a_day_of_the_month_that_only_limits_needs_no_month(text: str) -> None:
    assert parse_rule(text).by_month_day


def test_a_number_that_counts_nothing_is_left_out_and_remembered() -> None:
    rule = parse_rule("FREQ=WEEKLY;BYDAY=1MO,-1MO,TU")
    assert rule.by_day == (Day(0), Day(1))
    assert rule.has_idle_numbers
    assert not parse_rule("FREQ=MONTHLY;BYDAY=1MO").has_idle_numbers
