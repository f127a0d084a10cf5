"""Occurrences in their timezone: bounds, ends, single dates, gaps and folds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from timebell.errors import InvalidInput, NaiveInstant, RecurrenceError, UnknownTimezone
from timebell.rules.budget import Budget
from timebell.rules.localtime import OnFold, OnGap
from timebell.rules.recurrence import (
    Occurrence,
    describe,
    expand,
    last_local,
    occurrences,
    read_series,
    unused_exdates,
)

BERLIN = "Europe/Berlin"
START = datetime(2026, 1, 5, 9)


def due(
    recurrence: str,
    start: datetime = START,
    *,
    timezone: str | None = BERLIN,
    exdates: Sequence[datetime] = (),
    rdates: Sequence[datetime] = (),
    until_local: datetime | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
    limit: int = 5,
    on_gap: OnGap = "shift",
    on_fold: OnFold = "first",
) -> list[Occurrence]:
    return occurrences(
        recurrence,
        start_local=start,
        timezone=timezone,
        exdates=exdates,
        rdates=rdates,
        until_local=until_local,
        after=after,
        before=before,
        limit=limit,
        on_gap=on_gap,
        on_fold=on_fold,
    )


def instants(found: list[Occurrence]) -> list[str]:
    return [f"{one.at:%d %H:%M}" for one in found]


def at(day: int, hour: int, minute: int = 0, *, month: int = 1, year: int = 2026) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.req("U-9", "R-8.1")
def test_nine_on_the_wall_stays_nine_on_the_wall() -> None:
    found = due("FREQ=WEEKLY", datetime(2026, 3, 16, 9), limit=3)
    assert [one.at for one in found] == [at(16, 8, month=3), at(23, 8, month=3), at(30, 7, month=3)]
    assert [one.local for one in found] == [datetime(2026, 3, day, 9) for day in (16, 23, 30)]
    assert found[0] == Occurrence(at=at(16, 8, month=3), local=datetime(2026, 3, 16, 9), adjusted=None)


@pytest.mark.req("R-4.2", "X-R12")
def test_both_bounds_are_exclusive_instants() -> None:
    assert instants(due("FREQ=DAILY", after=at(5, 8), before=at(8, 8))) == ["06 08:00", "07 08:00"]
    just_before, just_after = at(5, 8) - timedelta(microseconds=1), at(7, 8) + timedelta(microseconds=1)
    assert instants(due("FREQ=DAILY", after=just_before, before=just_after)) == [
        "05 08:00",
        "06 08:00",
        "07 08:00",
    ]
    assert due("FREQ=DAILY", after=at(7, 8), before=at(7, 8)) == []
    assert due("FREQ=DAILY", before=at(5, 8)) == []
    assert instants(due("FREQ=DAILY", after=at(1, 0), limit=1)) == ["05 08:00"]


def test_without_a_timezone_everything_is_wall_time() -> None:
    found = due("FREQ=DAILY", timezone=None, after=START, before=START + timedelta(days=2))
    assert found == [Occurrence(at=datetime(2026, 1, 6, 9), local=datetime(2026, 1, 6, 9))]
    later = START + timedelta(microseconds=1)
    assert len(due("FREQ=DAILY", timezone=None, before=later)) == 1
    with pytest.raises(InvalidInput, match=r"^after: "):
        due("FREQ=DAILY", timezone=None, after=at(5, 8))


def test_what_is_refused_by_name() -> None:
    with pytest.raises(NaiveInstant, match=r"^after: "):
        due("FREQ=DAILY", after=START)
    with pytest.raises(NaiveInstant, match=r"^before: "):
        due("FREQ=DAILY", before=START)
    with pytest.raises(InvalidInput, match=r"^start_local: "):
        due("FREQ=DAILY", at(5, 8))
    with pytest.raises(InvalidInput, match=r"^start_local: 2026-01-05 is no date with a time of day"):
        due("FREQ=DAILY", date(2026, 1, 5))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^until_local: "):
        due("FREQ=DAILY", until_local=at(5, 8))
    with pytest.raises(UnknownTimezone):
        due("FREQ=DAILY", timezone="Mars/Olympus")
    with pytest.raises(InvalidInput, match=r"^limit: "):
        due("FREQ=DAILY", limit=-1)
    with pytest.raises(InvalidInput, match=r"^limit: "):
        due("FREQ=DAILY", limit=10**6)
    with pytest.raises(InvalidInput, match=r"^on_gap: "):
        due("FREQ=DAILY", on_gap="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^on_fold: "):
        due("FREQ=DAILY", on_fold="both")  # type: ignore[arg-type]
    with pytest.raises(RecurrenceError, match=r"exdates: .*time of day"):
        due("FREQ=DAILY", exdates=[date(2026, 1, 5)])  # type: ignore[list-item]
    with pytest.raises(RecurrenceError, match="rdates: there are too many"):
        due("FREQ=DAILY", rdates=[START] * 10_001)
    assert due("FREQ=DAILY", limit=0) == []


@pytest.mark.req("R-4.11", "X-R14")
def test_a_gap_shifts_one_occurrence_and_not_those_after_it() -> None:
    found = due("FREQ=DAILY", datetime(2025, 3, 29, 2, 30), limit=3)
    assert [(one.local.hour, one.adjusted) for one in found] == [(2, None), (2, "gap"), (2, None)]
    assert instants(found) == ["29 01:30", "30 01:30", "31 00:30"]
    assert instants(due("FREQ=DAILY", datetime(2025, 3, 29, 2, 30), limit=2, on_gap="skip")) == [
        "29 01:30",
        "31 00:30",
    ]


@pytest.mark.req("R-4.11", "X-R14")
def test_a_fold_is_due_once() -> None:
    start = datetime(2025, 10, 25, 2, 30)
    found = due("FREQ=DAILY", start, limit=3)
    assert instants(found) == ["25 00:30", "26 00:30", "27 01:30"]
    assert [one.adjusted for one in found] == [None, "fold", None]
    assert instants(due("FREQ=DAILY", start, limit=2, on_fold="second")) == ["25 00:30", "26 01:30"]


def test_a_start_in_a_gap_does_not_keep_the_shifted_hour() -> None:
    assert instants(due("FREQ=DAILY", datetime(2025, 3, 30, 2, 30), limit=2)) == ["30 01:30", "31 00:30"]


def test_two_wall_times_at_one_instant_are_one_occurrence_that_was_not_moved() -> None:
    found = due("FREQ=HOURLY", datetime(2025, 3, 30, 1), limit=3)
    assert instants(found) == ["30 00:00", "30 01:00", "30 02:00"]
    assert [one.local.hour for one in found] == [1, 3, 4]
    assert {one.adjusted for one in found} == {None}


def test_occurrences_come_in_the_order_of_their_instants() -> None:
    found = due("FREQ=MINUTELY;INTERVAL=25", datetime(2025, 3, 30, 1, 30), limit=8)
    assert [one.at for one in found] == sorted({one.at for one in found})
    # 02:20 was moved to 03:20 and so comes after 03:10, which was not.
    assert [f"{one.local:%H:%M}" for one in found] == [
        "01:30",
        "01:55",
        "03:10",
        "02:20",
        "03:35",
        "02:45",
        "04:00",
        "04:25",
    ]


def test_a_rule_that_always_falls_into_a_gap_is_answered_without_holding_back() -> None:
    series = read_series(
        "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU", start_local=datetime(2020, 3, 29, 2, 30), timezone=BERLIN
    )
    budget = Budget()
    found = expand(series, limit=3, budget=budget)
    assert [(one.at.year, one.adjusted) for one in found] == [(2020, "gap"), (2021, "gap"), (2022, "gap")]
    assert budget.used < 100


def test_a_whole_day_that_was_left_out() -> None:
    found = due("FREQ=DAILY", datetime(2011, 12, 29, 9), timezone="Pacific/Apia", limit=3)
    assert instants(found) == ["29 19:00", "30 19:00", "31 19:00"]
    assert [one.local.day for one in found] == [29, 31, 1]
    skipped = due("FREQ=DAILY", datetime(2011, 12, 29, 9), timezone="Pacific/Apia", limit=3, on_gap="skip")
    assert skipped == found


def test_hours_of_the_wall_clock_are_not_due_in_the_second_pass() -> None:
    assert instants(due("FREQ=HOURLY", datetime(2025, 10, 26, 1), limit=3)) == [
        "25 23:00",
        "26 00:00",
        "26 02:00",
    ]


@pytest.mark.parametrize(
    ("until", "days"),
    [
        ("20260107T090000", 3),
        ("20260107T085959", 2),
        ("20260107T080000Z", 3),
        ("20260107T075959Z", 2),
        ("20260107", 3),
        ("20260104", 0),
    ],
)
@pytest.mark.req("R-4.4", "X-R13")
def test_until_still_belongs_to_the_rule(until: str, days: int) -> None:
    assert len(due(f"FREQ=DAILY;UNTIL={until}", limit=9)) == days
    assert len(due(f"FREQ=DAILY;UNTIL={until}", limit=9, after=at(4, 0))) == days


def test_until_in_utc_without_a_timezone_is_read_on_the_wall() -> None:
    assert len(due("FREQ=DAILY;UNTIL=20260107T090000Z", timezone=None)) == 3


def test_until_on_the_wall_does_not_care_what_a_gap_made_of_it() -> None:
    start = datetime(2025, 3, 29, 2, 30)
    assert len(due("FREQ=DAILY;UNTIL=20250330T023000", start)) == 2
    assert len(due("FREQ=DAILY;UNTIL=20250330T012959Z", start)) == 1


@pytest.mark.req("R-4.4", "X-R13")
def test_the_earlier_end_wins() -> None:
    assert len(due("FREQ=DAILY;UNTIL=20260110", until_local=datetime(2026, 1, 7, 9), limit=9)) == 3
    assert len(due("FREQ=DAILY;UNTIL=20260106", until_local=datetime(2026, 1, 7, 9), limit=9)) == 2
    assert len(due("FREQ=DAILY;COUNT=2", until_local=datetime(2026, 1, 7, 9), limit=9)) == 2
    assert len(due("FREQ=DAILY;COUNT=9", until_local=datetime(2026, 1, 7, 9), limit=9)) == 3


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=MO,TH",
        "FREQ=MONTHLY;BYDAY=-1FR",
        "FREQ=HOURLY;INTERVAL=7;BYMINUTE=0,30",
    ],
)
def test_counting_ends_at_the_same_place_from_wherever_one_looks(rule: str) -> None:
    whole = due(f"{rule};COUNT=7", limit=20)
    assert len(whole) == 7
    assert whole == due(rule, limit=7)
    for place, one in enumerate(whole):
        assert due(f"{rule};COUNT=7", after=one.at, limit=20) == whole[place + 1 :]
    assert last_local(f"{rule};COUNT=7", start_local=START) == whole[-1].local


def test_count_counts_wall_times_that_share_an_instant_or_were_excluded() -> None:
    assert len(due("FREQ=HOURLY;COUNT=4", datetime(2025, 3, 30, 1))) == 3
    assert len(due("FREQ=DAILY;COUNT=4", exdates=[START])) == 3
    assert len(due("FREQ=DAILY;COUNT=4", rdates=[START, START + timedelta(hours=1)])) == 5
    assert len(due("FREQ=DAILY;COUNT=3", datetime(2025, 3, 29, 2, 30), on_gap="skip")) == 2


def test_only_a_count_has_a_last_wall_time() -> None:
    assert last_local("FREQ=DAILY", start_local=START) is None
    assert last_local("every PT15M", start_local=START) is None
    assert last_local("FREQ=DAILY;COUNT=1000000000", start_local=START) == datetime(9999, 12, 31, 23, 59, 59)
    assert last_local("FREQ=YEARLY;COUNT=9", start_local=datetime(9998, 1, 1)) == datetime(9999, 1, 1)
    with pytest.raises(RecurrenceError, match="COUNT: counting to 1000000000 is too much work"):
        last_local("FREQ=MINUTELY;BYHOUR=9;COUNT=1000000000", start_local=START)


def test_an_exdate_is_compared_as_the_instant_it_became() -> None:
    start = datetime(2025, 3, 29, 2, 30)
    for gone in (
        datetime(2025, 3, 30, 2, 30),
        datetime(2025, 3, 30, 3, 30),
        datetime(2025, 3, 30, 1, 30, tzinfo=UTC),
    ):
        assert instants(due("FREQ=DAILY", start, exdates=[gone], limit=2)) == ["29 01:30", "31 00:30"]


def test_an_rdate_adds_what_is_not_there_yet() -> None:
    extra = [
        datetime(2026, 1, 6, 10),
        datetime(2026, 1, 5, 9),
        datetime(2026, 1, 1, 9),
        datetime(2026, 1, 6, 10),
    ]
    assert instants(due("FREQ=DAILY", rdates=extra, limit=4)) == [
        "01 08:00",
        "05 08:00",
        "06 08:00",
        "06 09:00",
    ]
    assert instants(due("FREQ=DAILY;COUNT=1", rdates=extra, after=at(5, 8))) == ["06 09:00"]
    assert instants(due("FREQ=DAILY;COUNT=1", rdates=extra, exdates=[datetime(2026, 1, 6, 10)])) == [
        "01 08:00",
        "05 08:00",
    ]
    assert instants(due("FREQ=DAILY;COUNT=1", rdates=[at(9, 8)])) == ["05 08:00", "09 08:00"]


@pytest.mark.req("X-R13")
def test_until_local_ends_rdates_too_and_until_does_not() -> None:
    late = [datetime(2026, 1, 9, 9)]
    assert len(due("FREQ=DAILY;UNTIL=20260106", rdates=late)) == 3
    assert len(due("FREQ=DAILY", until_local=datetime(2026, 1, 6, 9), rdates=late)) == 2


def test_exdates_that_exclude_nothing_are_reported() -> None:
    mistyped, in_gap = datetime(2026, 1, 6, 10), datetime(2025, 3, 30, 2, 30)
    dates = [START, mistyped, datetime(2026, 1, 7, 9)]
    series = read_series("FREQ=DAILY", start_local=START, timezone=BERLIN, exdates=dates)
    assert unused_exdates(series) == [mistyped]
    skipping = read_series(
        "FREQ=DAILY",
        start_local=datetime(2025, 3, 29, 2, 30),
        timezone=BERLIN,
        exdates=[in_gap],
        on_gap="skip",
    )
    assert unused_exdates(skipping) == [in_gap]


def test_whole_seconds_are_all_that_a_recurrence_can_say() -> None:
    start = START.replace(microsecond=999)
    assert due("FREQ=DAILY", start, exdates=[start], limit=1)[0].local == datetime(2026, 1, 6, 9)


@pytest.mark.parametrize("name", ["Asia/Tokyo", "America/New_York", "UTC"])
def test_the_ends_of_the_calendar_in_any_timezone(name: str) -> None:
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
    assert len(due("FREQ=DAILY", first, timezone=name, limit=3)) == 3
    assert len(due("FREQ=DAILY", last, timezone=name, limit=3)) <= 1
    assert due("FREQ=DAILY", first, timezone=name, after=datetime.max.replace(tzinfo=UTC)) == []
    assert len(due("FREQ=DAILY", last, timezone=name, after=datetime.min.replace(tzinfo=UTC))) <= 1


def test_a_start_in_elapsed_time_must_be_an_instant() -> None:
    for recurrence in ("every PT1H", "cron * * * * *"):
        with pytest.raises(RecurrenceError, match=r"start_local: .*years 1 to 9999"):
            due(recurrence, datetime(1, 1, 1), timezone="Asia/Tokyo")


def test_a_long_answer_is_no_reason_to_give_up() -> None:
    assert len(due("FREQ=DAILY", limit=12_000)) == 12_000


def test_describe_stands_beside_occurrences() -> None:
    assert "Tuesday" in describe("FREQ=MONTHLY;BYDAY=2TU")
