"""Gaps, folds and the pinned timezone data."""

from __future__ import annotations

import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone

import pytest
import tzdata  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import InvalidInput, NaiveInstant, UnknownTimezone
from timebell.rules.localtime import (
    TIMEZONE_VERSION,
    OnFold,
    OnGap,
    at_instant,
    end_of_gap,
    local_at,
    naive_utc,
    offsets_near,
    plain_local,
    shown_between,
    timezone_names,
    zone,
)

BERLIN = zone("Europe/Berlin")

# A gap and a fold of an hour, of half an hour, at midnight, of a whole day, and of an odd length long ago.
GAPS = [
    ("Europe/Berlin", datetime(2025, 3, 30, 2, 30), datetime(2025, 3, 30, 1, 30), datetime(2025, 3, 30, 1)),
    (
        "Australia/Lord_Howe",
        datetime(2025, 10, 5, 2, 15),
        datetime(2025, 10, 4, 15, 45),
        datetime(2025, 10, 4, 15, 30),
    ),
    ("America/Havana", datetime(2025, 3, 9, 0, 0), datetime(2025, 3, 9, 5), datetime(2025, 3, 9, 5)),
    ("Pacific/Apia", datetime(2011, 12, 30, 9), datetime(2011, 12, 30, 19), datetime(2011, 12, 30, 10)),
]
FOLDS = [
    ("Europe/Berlin", datetime(2025, 10, 26, 2, 30), datetime(2025, 10, 26, 0, 30), timedelta(hours=1)),
    ("Australia/Lord_Howe", datetime(2025, 4, 6, 1, 45), datetime(2025, 4, 5, 14, 45), timedelta(minutes=30)),
    ("America/Havana", datetime(2025, 11, 2, 0, 0), datetime(2025, 11, 2, 4), timedelta(hours=1)),
]


@pytest.mark.req("R-4.11", "X-R14")
@pytest.mark.parametrize(("name", "local", "shifted", "change"), GAPS)
def test_a_wall_time_in_a_gap_moves_forward_by_its_length_or_is_skipped(
    name: str, local: datetime, shifted: datetime, change: datetime
) -> None:
    assert at_instant(local, zone(name)) == (shifted, "gap")
    assert at_instant(local, zone(name), "skip") == (None, "gap")
    assert end_of_gap(local, zone(name)) == change


@pytest.mark.req("R-4.11", "X-R14")
@pytest.mark.parametrize(("name", "local", "first", "length"), FOLDS)
def test_a_wall_time_in_a_fold_is_the_first_or_the_second(
    name: str, local: datetime, first: datetime, length: timedelta
) -> None:
    assert at_instant(local, zone(name)) == (first, "fold")
    assert at_instant(local, zone(name), "shift", "second") == (first + length, "fold")


def test_the_second_pass_of_a_fold_is_marked_on_the_wall() -> None:
    first, second = (local_at(datetime(2025, 10, 26, hour, 30), BERLIN) for hour in (0, 1))
    assert first == second == datetime(2025, 10, 26, 2, 30)
    assert (first.fold, second.fold) == (0, 1)


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [
        # Clocks skip the hour from two, at one in UTC.
        ("2025-03-30T01", "2025-03-30T04", [("30T00", "30T01"), ("30T01", "30T02")]),
        ("2025-03-30T02", "2025-03-30T03", []),
        ("2025-03-30T00", "2025-03-30T02", [("29T23", "30T01")]),
        # They show it twice, until one and until two in UTC.
        ("2025-10-26T02", "2025-10-26T03", [("26T00", "26T01"), ("26T01", "26T02")]),
        ("2025-10-26T02", "2025-10-26T02:30", [("26T00", "26T00:30"), ("26T01", "26T01:30")]),
        ("2025-10-26T03", "2025-10-27", [("26T02", "26T23")]),
        ("2025-06-01T09", "2025-06-01T12", [("01T07", "01T10")]),
    ],
)
def test_the_instants_at_which_clocks_show_a_wall_time_between_two(
    begins: str, ends: str, expected: list[tuple[str, str]]
) -> None:
    month = begins[:8]
    found = shown_between(datetime.fromisoformat(begins), datetime.fromisoformat(ends), BERLIN)
    assert list(found) == [
        (datetime.fromisoformat(month + one), datetime.fromisoformat(month + other))
        for one, other in expected
    ]


def test_nothing_of_a_day_is_shown_that_a_timezone_skips() -> None:
    apia, day = zone("Pacific/Apia"), timedelta(days=1)
    friday = datetime(2011, 12, 30)
    assert shown_between(friday, friday + day, apia) == ()
    (thursday,) = shown_between(friday - day, friday, apia)
    (saturday,) = shown_between(friday + day, friday + 2 * day, apia)
    assert thursday[1] == saturday[0] == datetime(2011, 12, 30, 10)


def test_any_other_wall_time_is_one_instant() -> None:
    assert at_instant(datetime(2025, 7, 1, 12), BERLIN) == (datetime(2025, 7, 1, 10), None)
    assert at_instant(datetime(2060, 7, 1, 12), BERLIN) == (datetime(2060, 7, 1, 10), None)


@pytest.mark.parametrize(
    ("local", "name"),
    [(datetime(1, 1, 1), "Asia/Tokyo"), (datetime(9999, 12, 31, 23), "America/New_York")],
)
def test_what_lies_outside_the_calendar_in_utc_has_no_instant(local: datetime, name: str) -> None:
    assert at_instant(local, zone(name)).instant is None


@given(
    name=st.sampled_from(sorted(timezone_names())),
    minutes=st.integers(0, 200 * 365 * 1440),
    distance=st.integers(-3000, 3000),
    on_gap=st.sampled_from(["shift", "skip"]),
    on_fold=st.sampled_from(["first", "second"]),
)
@settings(max_examples=300, deadline=None)
def test_the_offsets_near_an_instant_bound_its_wall_times(
    name: str, minutes: int, distance: int, on_gap: OnGap, on_fold: OnFold
) -> None:
    instant = datetime(1850, 1, 1) + timedelta(minutes=minutes)
    least, greatest = offsets_near(instant, zone(name))
    local = instant + least + timedelta(minutes=distance)
    mapped = at_instant(local, zone(name), on_gap, on_fold).instant
    if mapped is not None and mapped > instant:
        assert local > instant + least
    if mapped is not None and mapped < instant:
        assert local < instant + greatest


def test_the_timezones_are_those_of_the_installed_package() -> None:
    assert tzdata.IANA_VERSION == TIMEZONE_VERSION
    assert zoneinfo.TZPATH == ()


def test_importing_the_rules_is_enough_to_leave_the_system_copy() -> None:
    program = (
        "import zoneinfo; early = zoneinfo.ZoneInfo('Europe/Berlin'); import timebell.rules.localtime as l;"
        "assert zoneinfo.TZPATH == () and l.zone('Europe/Berlin') is not early"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Kolkata", "Asia/Kolkata"),
        ("America/New York", "America/New_York"),
        ("Europe/Tokyo", "Asia/Tokyo"),
    ],
)
def test_an_unknown_timezone_is_refused_with_near_names(name: str, near: str) -> None:
    with pytest.raises(UnknownTimezone, match=f"did you mean .*{near}") as caught:
        zone(name)
    assert caught.value.field == "timezone"


@pytest.mark.parametrize(
    "name",
    [
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/localtime",
        "UTC+4",
        "+02:00",
        "",
        "Europe/Berlin\0",
        "x" * 70,
        "Ü" * 9,
    ],
)
def test_what_is_no_name_never_reaches_the_files(name: str) -> None:
    with pytest.raises(UnknownTimezone) as caught:
        zone(name)
    assert len(str(caught.value)) < 300


def test_every_listed_timezone_can_be_had() -> None:
    assert len(timezone_names()) > 500
    assert all(zone(name).key == name for name in timezone_names())


def test_an_instant_needs_an_offset_and_a_wall_time_has_none() -> None:
    with pytest.raises(NaiveInstant, match=r"^after: "):
        naive_utc(datetime(2026, 1, 1), "after")
    with pytest.raises(InvalidInput, match=r"^start_local: .*tzinfo"):
        plain_local(datetime(2026, 1, 1, tzinfo=UTC), "start_local")
    with pytest.raises(InvalidInput, match=r"^after: .*years 1 to 9999"):
        naive_utc(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "after")
    assert plain_local(datetime(2026, 1, 1, 9, 0, 0, 5), "start_local") == datetime(2026, 1, 1, 9)
