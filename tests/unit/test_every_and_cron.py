"""The two kinds of recurrence that are no rules: elapsed time, and the five fields of cron."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timebell.errors import RecurrenceError
from timebell.rules.budget import Budget
from timebell.rules.cron import Cron, parse_cron
from timebell.rules.every import Every, elapsed, is_calendar_duration, parse_every, read_duration
from timebell.rules.localtime import OnFold, OnGap
from timebell.rules.reading import read_recurrence
from timebell.rules.recurrence import Occurrence, expand, occurrences, read_series

BERLIN = "Europe/Berlin"


def due(
    recurrence: str,
    start: datetime,
    count: int = 4,
    *,
    timezone: str | None = BERLIN,
    after: datetime | None = None,
    until: datetime | None = None,
    on_gap: OnGap = "shift",
    on_fold: OnFold = "first",
) -> list[Occurrence]:
    return occurrences(
        recurrence,
        start_local=start,
        timezone=timezone,
        after=after,
        until_local=until,
        limit=count,
        on_gap=on_gap,
        on_fold=on_fold,
    )


def test_what_comes_after_the_anchor_does_not_begin_with_it() -> None:
    anchor, hour = datetime(2027, 3, 1, 9), timedelta(hours=1)
    for after, first in (
        (None, 0),
        (anchor - hour, 0),
        (anchor, 1),
        (anchor + hour / 2, 1),
        (anchor + hour, 2),
    ):
        assert next(elapsed(Every(duration=hour), anchor, after)) == anchor + first * hour


def instants(found: list[Occurrence]) -> list[str]:
    return [f"{one.at:%d %H:%M}" for one in found]


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT15M", timedelta(minutes=15)),
        ("pt1h30m", timedelta(minutes=90)),
        ("PT90S", timedelta(seconds=90)),
        ("P1D", timedelta(hours=24)),
        ("P1DT12H", timedelta(hours=36)),
        ("P2W", timedelta(days=14)),
        (" PT15M ", timedelta(minutes=15)),
    ],
)
def test_durations(text: str, duration: timedelta) -> None:
    assert parse_every(text) == Every(duration=duration)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("P1M", "months and years differ"),
        ("P1Y", "months and years differ"),
        ("P1Y2M3D", "months and years differ"),
        ("15M", "no duration"),
        ("P", "no duration"),
        ("PT", "no duration"),
        ("P1DT", "no duration"),
        ("P1W2D", "no duration"),
        ("PT-15M", "no duration"),
        ("PT1.5H", "no duration"),
        ("PT\u0661\u0665M", "no duration"),
        ("", "no duration"),
        ("PT15M PT15M", "no duration"),
        ("PT0S", "out of range"),
        ("P36526D", "out of range"),
        ("P999999999W", "out of range"),
    ],
)
def test_durations_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(RecurrenceError, match=reason) as caught:
        read_recurrence(f"every {text}")
    assert caught.value.part == "every"
    assert caught.value.remedy


def test_elapsed_time_does_not_care_about_clocks() -> None:
    found = due("every P1D", datetime(2025, 3, 29, 9), 3)
    assert [one.at for one in found] == [datetime(2025, 3, day, 8, tzinfo=UTC) for day in (29, 30, 31)]
    assert [one.local.hour for one in found] == [9, 10, 10]
    assert {one.adjusted for one in found} == {None}


def test_elapsed_time_is_due_in_both_passes_of_a_fold() -> None:
    found = due("every PT1H", datetime(2025, 10, 26, 1), 4)
    assert instants(found) == ["25 23:00", "26 00:00", "26 01:00", "26 02:00"]
    assert [(one.local.hour, one.local.fold) for one in found] == [(1, 0), (2, 0), (2, 1), (3, 0)]


def test_elapsed_time_is_counted_from_its_anchor_however_old() -> None:
    after = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
    series = read_series("every PT7M", start_local=datetime(1970, 1, 1), timezone="UTC")
    budget = Budget()
    (found,) = expand(series, after=after, limit=1, budget=budget)
    assert (found.at - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(minutes=7) == timedelta(0)
    assert after < found.at <= after + timedelta(minutes=7)
    assert budget.used < 10


def test_an_anchor_in_a_gap_is_shifted_even_if_gaps_are_skipped() -> None:
    assert instants(due("every PT1H", datetime(2025, 3, 30, 2, 30), 2, on_gap="skip")) == [
        "30 01:30",
        "30 02:30",
    ]


def test_elapsed_time_ends_with_its_schedule_and_with_the_calendar() -> None:
    start = datetime(2026, 1, 1, 9)
    assert len(due("every PT1H", start, 9, until=datetime(2026, 1, 1, 11))) == 3
    assert len(due("every P36525D", datetime(9950, 1, 1), 9)) == 1
    assert [one.at for one in due("every PT1H", start, 2, timezone=None)] == [
        start,
        start + timedelta(hours=1),
    ]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("0 9 * * 1", ("0", "9", "*", "*", "1")),
        ("  0  9 * *   mon ", ("0", "9", "*", "*", "MON")),
        ("@daily", ("0", "0", "*", "*", "*")),
        ("@midnight", ("0", "0", "*", "*", "*")),
        ("@Hourly", ("0", "*", "*", "*", "*")),
        ("@weekly", ("0", "0", "*", "*", "0")),
        ("@monthly", ("0", "0", "1", "*", "*")),
        ("@yearly", ("0", "0", "1", "1", "*")),
        ("@annually", ("0", "0", "1", "1", "*")),
    ],
)
def test_the_five_fields(text: str, fields: tuple[str, str, str, str, str]) -> None:
    assert parse_cron(text) == Cron(fields=fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 9 * *",
        "0 0 9 * * 1",
        "60 9 * * 1",
        "0 24 * * *",
        "0 9 30 2 *",
        "*/0 * * * *",
        "5-1 * * * *",
        "1#2/3 * * * *",
        "0 0 * * L",
        "0 0 L/L * *",
        "0 9 * * FUNDAY",
        "0\t9 * * 1",
        "0 9 * *\n1",
        "\u0660 9 * * 1",
        "@reboot",
        "@every",
        "* " * 200,
    ],
)
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(RecurrenceError) as caught:
        read_recurrence(f"cron {text}")
    assert caught.value.part == "cron"
    assert len(str(caught.value)) < 300


def test_which_word_means_which_kind() -> None:
    assert isinstance(read_recurrence("CRON 0 9 * * 1"), Cron)
    assert isinstance(read_recurrence("Every PT15M"), Every)
    assert read_recurrence("@daily") == read_recurrence("cron @daily")
    for text in ("0 9 * * 1", "daily at nine", " every PT15M"):
        with pytest.raises(RecurrenceError, match="begins with no known word"):
            read_recurrence(text)


def test_cron_begins_with_its_start() -> None:
    assert instants(due("cron 0 9 * * 1", datetime(2026, 1, 5, 9), 2)) == ["05 08:00", "12 08:00"]
    assert instants(due("cron */5 * * * *", datetime(2026, 1, 5, 9), 2)) == ["05 08:00", "05 08:05"]
    assert instants(due("cron 0 9 * * 1", datetime(2026, 1, 5, 9, 0, 1), 1)) == ["12 08:00"]
    assert instants(due("cron 0 9 * * 1", datetime(2026, 1, 5, 9), 1, timezone=None)) == ["05 09:00"]


def test_cron_in_a_gap_is_due_at_the_first_minute_after_it() -> None:
    start = datetime(2025, 3, 29, 12)
    (gap, following) = due("cron 30 2 * * *", start, 2)
    assert (gap.at, gap.local, gap.adjusted) == (
        datetime(2025, 3, 30, 1, tzinfo=UTC),
        datetime(2025, 3, 30, 2, 30),
        "gap",
    )
    assert following.at == datetime(2025, 3, 31, 0, 30, tzinfo=UTC)
    assert instants(due("cron 30 2 * * *", start, 1, on_gap="skip")) == ["31 00:30"]
    assert instants(due("cron 0,30 2,3 * * *", start, 3)) == ["30 01:00", "30 01:30", "31 00:00"]
    assert instants(due("cron 0 9 * * *", datetime(2011, 12, 29, 12), 2, timezone="Pacific/Apia")) == [
        "30 10:00",
        "30 19:00",
    ]


def test_cron_at_a_named_time_is_due_once_in_a_fold() -> None:
    start = datetime(2025, 10, 25, 12)
    assert instants(due("cron 30 2 * * *", start, 2)) == ["26 00:30", "27 01:30"]
    assert instants(due("cron 30 2 * * *", start, 2, on_fold="second")) == ["26 01:30", "27 01:30"]
    within = datetime(2025, 10, 26, 0, 45, tzinfo=UTC)
    assert instants(due("cron 30 2 * * *", start, 1, after=within)) == ["27 01:30"]
    assert instants(due("cron 30 2 * * *", start, 1, after=within, on_fold="second")) == ["26 01:30"]


def test_cron_with_a_star_follows_elapsed_time() -> None:
    found = due("cron 30 * * * *", datetime(2025, 10, 26, 1), 4)
    assert instants(found) == ["25 23:30", "26 00:30", "26 01:30", "26 02:30"]
    assert [one.local.fold for one in found] == [0, 0, 1, 0]
    assert instants(due("cron 30 * * * *", datetime(2025, 3, 30, 1), 2)) == ["30 00:30", "30 01:30"]


def test_cron_on_a_day_that_begins_in_a_gap() -> None:
    # In Havana the clocks went from 23:59:59 on Saturday to 01:00 on Sunday.
    hours = due("cron 0 * 9 3 *", datetime(2025, 3, 8, 12), 2, timezone="America/Havana")
    assert [one.local for one in hours] == [datetime(2025, 3, 9, 1), datetime(2025, 3, 9, 2)]
    first = due("cron */30 0 9 3 *", datetime(2025, 3, 8, 12), 1, timezone="America/Havana")
    assert [one.local for one in first] == [datetime(2026, 3, 9)]


def test_cron_stops_looking() -> None:
    assert due("cron 0 0 */31 * MON#5", datetime(2026, 1, 1)) == []
    assert due("cron 0 0 1 1 *", datetime(9999, 6, 1)) == []
    assert due("cron * * 1 1 *", datetime(9999, 6, 1)) == []
    assert len(due("cron 0 0 * * *", datetime(1, 1, 1), 3)) == 3
    series = read_series("cron 0 0 */28 2 MON#5", start_local=datetime(2026, 1, 1), timezone=BERLIN)
    budget = Budget(limit=5000)
    with pytest.raises(RecurrenceError, match="steps of work"):
        expand(series, limit=100, budget=budget)


def test_cron_ends_with_its_schedule() -> None:
    until = datetime(2026, 1, 6, 9)
    assert len(due("cron 0 9 * * *", datetime(2026, 1, 5, 9), 9, until=until)) == 2
    assert len(due("cron */30 9 * * *", datetime(2026, 1, 5, 9), 9, until=until)) == 3


@pytest.mark.parametrize(
    ("text", "duration", "is_calendar"),
    [
        ("PT0S", timedelta(0), False),
        (" pt1h ", timedelta(hours=1), False),
        ("P999999999W", timedelta.max, False),
        ("P1M", None, True),
        ("P1Y2D", None, True),
        ("-PT1H", None, False),
        ("PT", None, False),
        ("PT0.5S", None, False),
        ("an hour", None, False),
    ],
)
def test_a_duration_by_itself(text: str, duration: timedelta | None, is_calendar: bool) -> None:
    assert read_duration(text) == duration
    assert is_calendar_duration(text) is is_calendar
