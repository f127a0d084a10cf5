"""Under which limits a schedule may be written, each with the part, the reason and the remedy of its refusal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timebell.errors import NaiveInstant, RecurrenceError, UnknownTimezone
from timebell.rules.recurrence import Checked, Limits, check_recurrence, occurrences

NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
START = datetime(2026, 11, 16, 9)
BERLIN = "Europe/Berlin"


def check(
    recurrence: str, start: datetime = START, *, until: datetime | None = None, limits: Limits | None = None
) -> Checked:
    return check_recurrence(
        recurrence, start_local=start, timezone=BERLIN, now=NOW, until_local=until, limits=limits
    )


@pytest.mark.parametrize(
    "recurrence",
    [
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=36525",
        "FREQ=YEARLY;INTERVAL=100",
        "FREQ=DAILY;COUNT=10000",
        "FREQ=DAILY;UNTIL=22001231",
        "FREQ=MINUTELY",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
        "FREQ=YEARLY;BYYEARDAY=100",
        "FREQ=HOURLY;BYYEARDAY=100",
        "FREQ=DAILY;BYMONTHDAY=1",
        "every PT1M",
        "every P2W",
        "cron * * * * *",
        "FREQ=DAILY;" + "BYHOUR=" + "9," * 240 + "9",
        "FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SA",
        "FREQ=DAILY;BYDAY=FR;COUNT=10000",
        "FREQ=HOURLY;INTERVAL=24;BYDAY=SA;COUNT=10000",
    ],
)
def test_what_a_schedule_may_have(recurrence: str) -> None:
    assert check(recurrence).upcoming.at > NOW


@pytest.mark.parametrize(
    ("recurrence", "part", "reason"),
    [
        ("FREQ=DAILY;" + "BYHOUR=" + "9," * 300 + "9", "recurrence", "characters"),
        ("FREQ=DAILY;INTERVAL=100001", "INTERVAL", "out of range"),
        ("FREQ=DAILY;INTERVAL=36526", "INTERVAL", "too many years"),
        ("FREQ=WEEKLY;INTERVAL=5218", "INTERVAL", "too many years"),
        ("FREQ=MONTHLY;INTERVAL=1201", "INTERVAL", "too many years"),
        ("FREQ=YEARLY;INTERVAL=101", "INTERVAL", "too many years"),
        ("FREQ=DAILY;COUNT=10001", "COUNT", "out of range"),
        ("FREQ=DAILY;UNTIL=22010101", "UNTIL", "year 2201"),
        ("FREQ=DAILY;UNTIL=20261116T085959", "UNTIL", "before the start"),
        ("FREQ=DAILY;UNTIL=20261116T075959Z", "UNTIL", "before the start"),
        ("FREQ=DAILY;UNTIL=20261115", "UNTIL", "before the start"),
        ("FREQ=SECONDLY;INTERVAL=3600", "FREQ", "SECONDLY is not allowed"),
        ("FREQ=DAILY;BYSECOND=0,59", "FREQ", "too often"),
        ("FREQ=HOURLY;BYMINUTE=0,59;BYSECOND=0,30", "FREQ", "too often"),
        ("every PT59S", "every", "too often"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "recurrence", "nothing is due"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=SU", "recurrence", "nothing is due"),
        ("FREQ=MINUTELY;INTERVAL=1440;BYHOUR=10", "recurrence", "steps of work"),
        ("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SA;BYSECOND=0,30", "FREQ", "too often"),
        ("FREQ=YEARLY;INTERVAL=99;BYMONTH=2;BYMONTHDAY=29", "recurrence", "nothing is due"),
        ("FREQ=MONTHLY;BYYEARDAY=100", "BYYEARDAY", "RFC 5545 forbids"),
        ("FREQ=WEEKLY;BYYEARDAY=100", "BYYEARDAY", "RFC 5545 forbids"),
        ("FREQ=DAILY;BYYEARDAY=100", "BYYEARDAY", "RFC 5545 forbids"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY", "RFC 5545 forbids"),
        ("FREQ=MONTHLY;BYWEEKNO=20;BYDAY=MO", "BYWEEKNO", "RFC 5545 forbids"),
        ("FREQ=YEARLY;BYWEEKNO=20", "BYWEEKNO", "which day"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY", "undefined"),
    ],
)
def test_what_a_schedule_may_not_have(recurrence: str, part: str, reason: str) -> None:
    with pytest.raises(RecurrenceError) as caught:
        check(recurrence)
    assert caught.value.part == part
    assert reason in caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("start", "until", "part"),
    [
        (datetime(1969, 12, 31), None, "start_local"),
        (datetime(2201, 1, 1), None, "start_local"),
        (START, datetime(2201, 1, 1), "until_local"),
        (START, START - timedelta(seconds=1), "until_local"),
    ],
)
def test_years_that_a_schedule_may_not_have(start: datetime, until: datetime | None, part: str) -> None:
    with pytest.raises(RecurrenceError) as caught:
        check("FREQ=DAILY", start, until=until)
    assert caught.value.part == part


def test_a_schedule_that_is_over_is_refused() -> None:
    for recurrence in ("FREQ=DAILY;COUNT=3", "FREQ=DAILY;UNTIL=20200110"):
        with pytest.raises(RecurrenceError, match="nothing is due after 2026-11-15T09:30"):
            check(recurrence, datetime(2020, 1, 1, 9))


def test_dates_have_limits_too() -> None:
    dates = [START + timedelta(days=day) for day in range(1001)]
    for name in ("exdates", "rdates"):
        with pytest.raises(RecurrenceError) as caught:
            check_recurrence("FREQ=DAILY", start_local=START, timezone=BERLIN, now=NOW, **{name: dates})  # type: ignore[arg-type]
        assert caught.value.part == name


def test_a_thousand_exdates_are_looked_at() -> None:
    dates = [START + timedelta(days=day, hours=day % 2) for day in range(1000)]
    checked = check_recurrence("FREQ=DAILY", start_local=START, timezone=BERLIN, now=NOW, exdates=dates)
    assert len(checked.unused_exdates) == 500
    assert checked.first.local == START + timedelta(days=1)


@pytest.mark.parametrize("recurrence", ["FREQ=MINUTELY", "every PT1M", "FREQ=MINUTELY;BYHOUR=2"])
def test_a_thousand_exdates_at_a_change_of_clocks_are_looked_at(recurrence: str) -> None:
    midnight = datetime(2027, 3, 28)
    dates = [midnight + timedelta(minutes=minute) for minute in range(1000)]
    checked = check_recurrence(recurrence, start_local=START, timezone=BERLIN, now=NOW, exdates=dates)
    # What clocks leave out between two and three is what they show between three and four.
    unused = [date for date in dates if date.hour not in (2, 3)] if "BYHOUR" in recurrence else []
    assert list(checked.unused_exdates) == unused


def test_too_much_work_for_exdates_is_said_of_the_exdates() -> None:
    dates = [START + timedelta(days=day) for day in range(1000)]
    with pytest.raises(RecurrenceError) as caught:
        check_recurrence("cron 0 0 29 2 MON#5", start_local=START, timezone=BERLIN, now=NOW, exdates=dates)
    assert caught.value.part == "exdates"
    assert caught.value.remedy == "give fewer"


def test_a_date_at_either_end_of_the_calendar_is_looked_at_without_a_crash() -> None:
    dates = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)]
    checked = check_recurrence("FREQ=DAILY", start_local=START, timezone="UTC", now=NOW, exdates=dates)
    assert checked.unused_exdates == tuple(dates)
    with pytest.raises(RecurrenceError, match="nothing is due after 9999"):
        check_recurrence(
            "FREQ=DAILY;UNTIL=22001231",
            start_local=START,
            timezone=BERLIN,
            now=datetime(9999, 12, 31, tzinfo=UTC),
        )


def test_limits_are_the_operators_to_change() -> None:
    often = check("FREQ=SECONDLY", limits=Limits(secondly=True, spacing=timedelta(seconds=1)))
    assert often.upcoming.local == START
    assert check("FREQ=DAILY;COUNT=20000", limits=Limits(count=20_000)).last_local is not None


def test_the_limits_are_not_those_of_a_mere_look() -> None:
    found = occurrences("FREQ=SECONDLY;INTERVAL=200000", start_local=START, timezone=BERLIN, limit=2)
    assert found[1].at - found[0].at == timedelta(seconds=200_000)


def test_what_is_told_to_whoever_writes_the_schedule() -> None:
    checked = check("FREQ=WEEKLY;BYDAY=TU,TH;COUNT=5", datetime(2026, 11, 9, 9))
    assert checked.first.local == datetime(2026, 11, 10, 9)
    assert checked.upcoming.local == datetime(2026, 11, 17, 9)
    assert checked.last_local == datetime(2026, 11, 24, 9)
    assert not checked.starts_on_recurrence
    assert checked.unused_exdates == ()
    assert check("FREQ=DAILY").starts_on_recurrence


def test_other_bad_input_keeps_its_own_name() -> None:
    with pytest.raises(UnknownTimezone):
        check_recurrence("FREQ=DAILY", start_local=START, timezone="Mars/Olympus", now=NOW)
    with pytest.raises(NaiveInstant, match=r"^now: "):
        check_recurrence("FREQ=DAILY", start_local=START, timezone=BERLIN, now=START)
