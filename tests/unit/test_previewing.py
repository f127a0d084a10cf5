"""A preview tells what clocks do to each occurrence, and what may surprise about a recurrence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from timebell.errors import RecurrenceError, UnknownTimezone
from timebell.rules.previewing import Preview, preview

NOW = datetime(2026, 1, 1, 12, 30, 59, tzinfo=UTC)


def seen(
    recurrence: str, start: str | None = None, timezone: str = "Europe/Berlin", **options: Any
) -> Preview:
    start_local = datetime.fromisoformat(start) if start else None
    return preview(
        recurrence, **{"start_local": start_local, "timezone": timezone, "now": NOW, "count": 3} | options
    )


def notes(told: Preview) -> list[tuple[str, str | None]]:
    return [(line.shown_local.isoformat(timespec="minutes")[5:], line.note) for line in told.occurrences]


@pytest.mark.req("R-4.11", "X-R14")
def test_a_gap_is_told_with_its_length() -> None:
    assert notes(seen("FREQ=DAILY", "2026-03-28T02:30")) == [
        ("03-28T02:30", None),
        ("03-29T03:30", "clocks leave out 02:30 that day, so it is 1 h later"),
        ("03-30T02:30", None),
    ]
    half = seen("FREQ=DAILY", "2026-10-04T02:15:10", "Australia/Lord_Howe", count=1)
    assert notes(half) == [("10-04T02:45", "clocks leave out 02:15:10 that day, so it is 30 min later")]
    assert half.occurrences[0].local == datetime(2026, 10, 4, 2, 15, 10)
    assert half.occurrences[0].offset_seconds == 11 * 3600


def test_what_is_skipped_in_a_gap_is_not_shown() -> None:
    told = seen("FREQ=DAILY", "2026-03-28T02:30", on_gap="skip", count=2)
    assert notes(told) == [
        ("03-28T02:30", None),
        ("03-30T02:30", "clocks were put forward by 1 h since the one before"),
    ]


@pytest.mark.parametrize(("on_fold", "which", "hour"), [("first", "first", 0), ("second", "second", 1)])
def test_a_fold_is_told_with_the_pass_that_counts(on_fold: str, which: str, hour: int) -> None:
    told = seen("FREQ=WEEKLY", "2026-10-25T02:30", on_fold=on_fold, count=1)
    assert notes(told) == [("10-25T02:30", f"clocks show 02:30 twice that day; this is the {which}")]
    assert told.occurrences[0].at == datetime(2026, 10, 25, hour, 30, tzinfo=UTC)


def test_a_change_between_two_occurrences_is_told() -> None:
    assert [note for _, note in notes(seen("FREQ=WEEKLY", "2026-10-21T09:00"))] == [
        None,
        "clocks were put back by 1 h since the one before",
        None,
    ]


def test_cron_is_due_at_the_end_of_a_gap() -> None:
    assert notes(seen("cron 30 2 * * *", "2026-03-29T00:00", count=1)) == [
        ("03-29T03:00", "clocks leave out 02:30 that day, so it is 30 min later")
    ]


def test_elapsed_time_is_due_in_both_passes_of_a_fold() -> None:
    told = seen("every PT1H", "2026-10-25T02:00", count=2)
    assert [line.shown_local.fold for line in told.occurrences] == [0, 1]
    assert told.occurrences[1].note == "clocks were put back by 1 h since the one before"


def test_whether_there_is_more() -> None:
    assert not seen("FREQ=DAILY;COUNT=3", "2026-02-01T09:00").has_more
    assert seen("FREQ=DAILY;COUNT=4", "2026-02-01T09:00").has_more


def test_it_can_begin_later_than_the_start() -> None:
    after = datetime(2026, 6, 1, 7, 0, tzinfo=UTC)
    told = seen("FREQ=DAILY", "2026-02-01T09:00", after=after, count=1)
    assert told.occurrences[0].at == datetime(2026, 6, 2, 7, 0, tzinfo=UTC)
    assert told.warnings == ()


def test_without_a_start_it_begins_with_the_next_minute() -> None:
    told = seen("FREQ=HOURLY", timezone="Asia/Kathmandu", count=1)
    assert told.start_local == datetime(2026, 1, 1, 18, 16)
    assert told.occurrences[0].at == datetime(2026, 1, 1, 12, 31, tzinfo=UTC)


def test_a_start_that_is_no_occurrence_is_warned_of() -> None:
    [warning] = seen("FREQ=WEEKLY;BYDAY=MO", "2026-02-01T09:00").warnings
    assert warning == "the start, 2026-02-01 09:00:00, is not an occurrence itself"
    assert seen("FREQ=WEEKLY;BYDAY=SU", "2026-02-01T09:00").warnings == ()
    assert seen("cron 0 10 * * *", "2026-02-01T09:00").warnings == ()
    assert seen("FREQ=WEEKLY;BYDAY=MO").warnings == ()


def test_an_exdate_that_excludes_nothing_is_warned_of() -> None:
    dates = [datetime(2026, 2, 2, 9, 0), datetime(2026, 2, 2, 9, 1)]
    told = seen("FREQ=DAILY", "2026-02-01T09:00", exdates=dates, count=2)
    assert told.warnings == ("the exdate 2026-02-02 09:01:00 excludes nothing",)
    assert [day[:5] for day, _ in notes(told)] == ["02-01", "02-03"]


def test_what_no_schedule_may_have_is_shown_with_a_warning() -> None:
    told = seen("FREQ=SECONDLY", "2026-02-01T09:00", count=2)
    assert len(told.occurrences) == 2
    [warning] = told.warnings
    assert warning.startswith("a schedule with it would be refused: recurrence: FREQ: ")


def test_it_is_said_in_words_and_with_the_version_of_the_data() -> None:
    told = seen("FREQ=MONTHLY;BYDAY=2TU", "2026-02-10T10:00")
    assert told.description == "every second Tuesday of the month at 10:00, Berlin time"
    assert told.timezone_version.startswith("20")


def test_what_is_not_defined_is_refused() -> None:
    with pytest.raises(RecurrenceError):
        seen("FREQ=DAILY;BYDAY=0MO")
    with pytest.raises(UnknownTimezone, match="Europe/Berlin"):
        seen("FREQ=DAILY", timezone="Berlin")


def test_a_refusal_names_its_field_once() -> None:
    with pytest.raises(RecurrenceError) as refused:
        seen("soon or later")
    assert str(refused.value).count("recurrence:") == 1
    assert refused.value.part == "recurrence"
