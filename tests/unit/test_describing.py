"""Recurrences in plain English."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.recurrence_model import model_walls, parts_of, rule_of
from tests.unit.recurrence_rules import make_sample
from timebell.errors import InvalidInput, RecurrenceError, UnknownTimezone
from timebell.rules.describing import describe

QUICK = settings(max_examples=60, deadline=None)
TEN = datetime(2026, 9, 1, 10, 0)
HALF_PAST_EIGHT = datetime(2026, 9, 7, 8, 30)
LEAP_DAY = datetime(2024, 2, 29, 7, 5, 30)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=DAILY", "every day at 10:00"),
        ("RRULE:FREQ=DAILY;INTERVAL=2", "every other day at 10:00"),
        ("FREQ=DAILY;INTERVAL=10;COUNT=5", "every 10 days at 10:00, 5 times"),
        ("FREQ=DAILY;COUNT=1", "every day at 10:00, once"),
        ("FREQ=DAILY;BYMONTH=1,2,3", "every day in January, February and March at 10:00"),
        ("FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR", "every weekday at 10:00"),
        ("FREQ=DAILY;BYMONTHDAY=-1", "every month on the last day at 10:00"),
        ("FREQ=WEEKLY", "every Tuesday at 10:00"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "every weekday at 10:00"),
        ("FREQ=WEEKLY;BYDAY=SU,SA", "every Saturday and Sunday at 10:00"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "every day at 10:00"),
        ("FREQ=WEEKLY;INTERVAL=3", "every 3 weeks on Tuesday at 10:00"),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
            "every other week on Tuesday and Sunday at 10:00, weeks beginning on Sunday",
        ),
        ("FREQ=WEEKLY;BYDAY=TU,SU;WKST=SU", "every Tuesday and Sunday at 10:00"),
        ("FREQ=MONTHLY", "every month on the 1st at 10:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=2,3,4,-1", "every month on the 2nd to the 4th and the last day at 10:00"),
        (
            "FREQ=MONTHLY;BYMONTHDAY=11,12,13,22,23",
            "every month on the 11th to the 13th, the 22nd and the 23rd at 10:00",
        ),
        ("FREQ=MONTHLY;BYDAY=2TU", "every second Tuesday of the month at 10:00"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "on the last Friday of the month at 10:00"),
        ("FREQ=MONTHLY;BYDAY=-2MO", "on the second-to-last Monday of the month at 10:00"),
        (
            "FREQ=MONTHLY;BYDAY=1MO,3MO,-1FR",
            "on the first and third Monday and the last Friday of the month at 10:00",
        ),
        ("FREQ=MONTHLY;BYDAY=MO,2TU", "on every Monday and the second Tuesday of the month at 10:00"),
        ("FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", "every other month on every Tuesday at 10:00"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "every month on the 13th at 10:00, if it is a Friday"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "on the last weekday of the month at 10:00"),
        ("FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=1", "on the first day of the weekend of the month at 10:00"),
        (
            "FREQ=MONTHLY;INTERVAL=3;BYDAY=TU,TH;BYSETPOS=3",
            "every 3 months on the third Tuesday or Thursday of the month at 10:00",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYSETPOS=-1",
            "every month on the 28th to the 31st at 10:00, only the last of these in each month",
        ),
        ("FREQ=YEARLY", "every year on 1 September at 10:00"),
        ("FREQ=YEARLY;BYMONTH=6,7", "every year on the 1st of June and July at 10:00"),
        ("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24,25", "every year on 24 and 25 December at 10:00"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1", "every year on the last day of February at 10:00"),
        (
            "FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU",
            "every year on the last Sunday of March and October at 10:00",
        ),
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "every Thursday in March at 10:00"),
        ("FREQ=YEARLY;BYDAY=20MO", "every year on the 20th Monday of the year at 10:00"),
        (
            "FREQ=YEARLY;BYMONTH=11;BYDAY=TH;BYSETPOS=4",
            "every year on the fourth Thursday of November at 10:00",
        ),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "every 4 years on 2 to 8 November at 10:00, if it is a Tuesday",
        ),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "every year on Monday of week 20 at 10:00"),
        ("FREQ=DAILY;BYWEEKNO=20", "every day in week 20 at 10:00"),
        ("FREQ=WEEKLY;BYWEEKNO=20", "every week on Tuesday of week 20 at 10:00"),
        ("FREQ=YEARLY;BYWEEKNO=-1", "every year on Tuesday of the last week of the year at 10:00"),
        (
            "FREQ=YEARLY;BYYEARDAY=1,100,-1",
            "every year on day 1, day 100 and the last day of the year at 10:00",
        ),
        (
            "FREQ=YEARLY;BYYEARDAY=1,2,3;BYDAY=MO",
            "every year on day 1 to day 3 of the year at 10:00, if it is a Monday",
        ),
    ],
)
def test_days(rule: str, words: str) -> None:
    assert describe(rule, TEN) == words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=DAILY;BYHOUR=8,17", "every day at 08:00 and 17:00"),
        ("FREQ=DAILY;BYHOUR=8,17;BYMINUTE=0,30", "every day at 08:00, 08:30, 17:00 and 17:30"),
        ("FREQ=DAILY;BYSECOND=15", "every day at 10:00:15"),
        (
            "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40",
            "every day in the hours of 09:00 to 16:00 at 0, 20 and 40 minutes past the hour",
        ),
        (
            "FREQ=DAILY;BYHOUR=1,3,5,7,9,11,13",
            "every day in the hours of 01:00, 03:00, 05:00, 07:00, 09:00, 11:00 and 13:00 on the hour",
        ),
        ("FREQ=HOURLY", "every hour"),
        ("FREQ=HOURLY;BYMINUTE=0", "every hour on the hour"),
        ("FREQ=HOURLY;INTERVAL=2;BYMINUTE=15,45", "every 2 hours at 15 and 45 minutes past the hour"),
        ("FREQ=HOURLY;BYDAY=MO,TU,WE,TH,FR", "every hour on each weekday"),
        ("FREQ=MINUTELY;INTERVAL=15", "every 15 minutes"),
        ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11", "every 20 minutes from 09:00 to 11:59"),
        (
            "FREQ=MINUTELY;BYHOUR=9,12;BYMINUTE=30",
            "every minute in the hours of 09:00 and 12:00 in minute 30 of the hour",
        ),
        ("FREQ=SECONDLY;BYSECOND=0,30", "every second at seconds 0 and 30 of the minute"),
        (
            "FREQ=DAILY;BYHOUR=6,18;BYSETPOS=-1",
            "every day at 06:00 and 18:00, only the last of these in each day",
        ),
    ],
)
def test_times(rule: str, words: str) -> None:
    assert describe(rule, TEN) == words


def test_what_the_start_gives_is_said_only_with_the_start() -> None:
    assert describe("FREQ=YEARLY", LEAP_DAY) == "every year on 29 February at 07:05:30"
    assert (
        describe("FREQ=HOURLY", LEAP_DAY)
        == "every hour at 5 minutes past the hour at second 30 of the minute"
    )
    assert describe("FREQ=YEARLY") == "every year"
    assert describe("FREQ=WEEKLY") == "every week"
    assert describe("FREQ=DAILY;BYHOUR=9") == "every day in the hour of 09:00"
    assert describe("FREQ=MONTHLY;BYDAY=-1FR") == "on the last Friday of the month"


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("20261231", "until 31 December 2026"),
        ("20261231T235959", "until 31 December 2026"),
        ("20261231T120000", "until 31 December 2026 at 12:00"),
        ("20261231T000000Z", "until 31 December 2026 at 00:00 UTC"),
    ],
)
def test_until(until: str, words: str) -> None:
    rule = f"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;UNTIL={until}"
    assert describe(rule, HALF_PAST_EIGHT) == f"every other week on Monday and Wednesday at 08:30, {words}"


@pytest.mark.parametrize(
    ("timezone", "words"),
    [
        ("Europe/Berlin", "Berlin time"),
        ("America/New_York", "New York time"),
        ("America/Argentina/Buenos_Aires", "Buenos Aires time"),
        ("UTC", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Etc/GMT+5", "GMT+5"),
    ],
)
def test_the_timezone_is_called_by_its_city(timezone: str, words: str) -> None:
    assert (
        describe("FREQ=MONTHLY;BYDAY=2TU", TEN, timezone)
        == f"every second Tuesday of the month at 10:00, {words}"
    )
    assert describe("FREQ=DAILY;COUNT=3", TEN, timezone) == f"every day at 10:00, {words}, 3 times"
    assert describe("FREQ=MINUTELY;INTERVAL=15", TEN, timezone) == "every 15 minutes"


@pytest.mark.parametrize(
    ("recurrence", "words"),
    [
        ("every PT15M", "every 15 minutes"),
        ("every PT60M", "every hour"),
        ("every PT1H30M", "every 1 hour and 30 minutes"),
        ("every PT1H1M1S", "every 1 hour, 1 minute and 1 second"),
        ("every P1D", "every 24 hours"),
        ("every P2W", "every 14 days of 24 hours"),
    ],
)
def test_elapsed_time_is_not_called_a_day(recurrence: str, words: str) -> None:
    assert describe(recurrence, TEN, "Europe/Berlin") == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 9 * * 1", "every Monday at 09:00"),
        ("5 4 * * MON-FRI", "every weekday at 04:05"),
        ("0 0 * * 0,6", "every Saturday and Sunday at 00:00"),
        ("@daily", "every day at 00:00"),
        ("@hourly", "every hour"),
        ("@monthly", "every month on the 1st at 00:00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "every hour at 0, 7, 14, 21, 28, 35, 42, 49 and 56 minutes past the hour"),
        ("15 */6 * * *", "every 6 hours at 15 minutes past the hour"),
        ("0,30 9-17 * * *", "every 30 minutes from 09:00 to 17:59"),
        ("30 8 1,15 1-3 *", "every month on the 1st and the 15th in January, February and March at 08:30"),
        ("0 9 13 * 5", "every month on the 13th and every Friday at 09:00"),
        ("0 9 */2 * 5", "every month on the 1st, the 3rd"),
        ("0 0 L * *", "at 00:00 on the last day of every month"),
        ("0 9 * * 1#2", "at 09:00 on the second Monday of the month"),
    ],
)
def test_the_fields_of_cron(expression: str, words: str) -> None:
    said = describe(f"cron {expression}", timezone="Europe/Berlin")
    assert said.startswith(words)
    assert said.endswith(("Berlin time", "minutes", "hour", "minute"))


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(RecurrenceError):
        describe("FREQ=FORTNIGHTLY")
    with pytest.raises(UnknownTimezone):
        describe("FREQ=DAILY", TEN, "Europe/Berlln")
    with pytest.raises(InvalidInput, match="start_local"):
        describe("FREQ=DAILY", TEN.replace(tzinfo=UTC))


@QUICK
@given(st.randoms(use_true_random=False), st.booleans())
def test_every_rule_can_be_said(random: Random, has_start: bool) -> None:
    sample = make_sample(random)
    said = describe(sample.rule, sample.start if has_start else None, "Asia/Kolkata")
    assert re.fullmatch(r"(every|on) \S+( \S+)*", said), said
    assert not re.search(r", ,|,,|\bNone\b|\bzeroth\b| (and|or)[, ]*$", said), said


@QUICK
@given(st.randoms(use_true_random=False))
def test_two_rules_that_are_said_alike_are_due_alike(random: Random) -> None:
    """A part that left no trace in the words would let someone confirm another rule than the one they have."""
    sample = make_sample(random, random.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"]))
    parts = parts_of(sample.rule)
    for name in parts.keys() - {"FREQ", "WKST"}:
        fewer = rule_of({other: value for other, value in parts.items() if other != name})
        try:
            alike = describe(fewer, sample.start) == describe(sample.rule, sample.start)
        except RecurrenceError:
            continue
        if alike:
            assert due(fewer, sample.start, sample.horizon) == due(sample.rule, sample.start, sample.horizon)


def due(rule: str, start: datetime, horizon: datetime) -> list[datetime]:
    return model_walls(rule, start, horizon, limit=10)
