"""What a stranger's calendar says about when somebody is busy: what is read of it, and what is left out."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import InvalidInput
from timebell.rules.calendar_busy import busy_time
from timebell.rules.ics_reading import ENTRIES_MAX, TEXT_CHARS_MAX, BusyEntry, ReadCalendar, read_calendar

AFTER = datetime(2027, 3, 1, tzinfo=UTC)
BEFORE = datetime(2027, 4, 5, tzinfo=UTC)
BERLIN = "Europe/Berlin"

pytestmark = pytest.mark.req("M-7.4")


def calendar(*components: str) -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", *"\n".join(components).split("\n"), "END:VCALENDAR", ""]
    return "\r\n".join(line for line in lines if line)


def event(*lines: str, uid: str = "1") -> str:
    return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", *lines, "END:VEVENT"])


def read(*components: str) -> ReadCalendar:
    return read_calendar(calendar(*components), timezones={"W. Europe Standard Time": BERLIN})


def busy(*components: str, timezone: str = BERLIN) -> list[str]:
    """When somebody is busy, in UTC, as it would be written down in a hurry."""
    found = busy_time(read(*components).entries, timezone=timezone, after=AFTER, before=BEFORE)
    assert not found.skipped_count
    return [f"{start:%m-%d %H:%M}/{end:%m-%d %H:%M}" for start, end in found.spans]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("DTSTART:20270302T090000Z", "DTEND:20270302T100000Z"), "03-02 09:00/03-02 10:00"),
        (("DTSTART:20270302T090000Z", "DURATION:PT1H30M"), "03-02 09:00/03-02 10:30"),
        (
            (f"DTSTART;TZID={BERLIN}:20270302T090000", f"DTEND;TZID={BERLIN}:20270302T100000"),
            "03-02 08:00/03-02 09:00",
        ),
        ((f'DTSTART;TZID="{BERLIN}":20270302T090000', "DURATION:PT1H"), "03-02 08:00/03-02 09:00"),
        (
            ("DTSTART;TZID=W. Europe Standard Time:20270302T090000", "DURATION:PT1H"),
            "03-02 08:00/03-02 09:00",
        ),
        (
            ("DTSTART;TZID=/example.org/2026/Europe/Berlin:20270302T090000", "DURATION:PT1H"),
            "03-02 08:00/03-02 09:00",
        ),
        # On nobody's wall, so on that of whoever owns it.
        (("DTSTART:20270302T090000", "DTEND:20270302T100000"), "03-02 08:00/03-02 09:00"),
        (("DTSTART;VALUE=DATE:20270302",), "03-01 23:00/03-02 23:00"),
        (("DTSTART;VALUE=DATE:20270302", "DTEND;VALUE=DATE:20270304"), "03-01 23:00/03-03 23:00"),
        # The day on which the clocks are put forward has 23 hours.
        (("DTSTART;VALUE=DATE:20270328",), "03-27 23:00/03-28 22:00"),
        (
            (f"DTSTART;TZID=/{'a/' * 50}{BERLIN}:20270302T090000", "DURATION:PT1H"),
            "03-02 08:00/03-02 09:00",
        ),
        ((f"DTSTART;TZID={BERLIN}:20270328T010000", "DURATION:PT2H"), "03-28 00:00/03-28 02:00"),
        ((f"DTSTART;TZID={BERLIN}:20270327T120000", "DURATION:P1D"), "03-27 11:00/03-28 10:00"),
        # From one place to another.
        (
            (f"DTSTART;TZID={BERLIN}:20270302T120000", "DTEND;TZID=America/New_York:20270302T140000"),
            "03-02 11:00/03-02 19:00",
        ),
        (("DTSTART:20270302T090060Z", "DURATION:PT1H"), "03-02 09:00/03-02 10:00"),
    ],
)
def test_when_an_entry_is(lines: tuple[str, ...], expected: str) -> None:
    assert busy(event(*lines)) == [expected]


def test_a_name_for_a_timezone_may_be_explained_in_the_file() -> None:
    zone = "BEGIN:VTIMEZONE\nTZID:Here\nX-LIC-LOCATION:Europe/Berlin\nEND:VTIMEZONE"
    assert busy(zone, event("DTSTART;TZID=Here:20270302T090000", "DURATION:PT1H")) == [
        "03-02 08:00/03-02 09:00"
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ("TRANSP:TRANSPARENT",),
        ("STATUS:CANCELLED",),
        ("X-MICROSOFT-CDO-BUSYSTATUS:FREE",),
        ("TRANSP:OPAQUE", "STATUS:CANCELLED"),
    ],
)
def test_what_takes_no_time_is_counted_and_left_out(lines: tuple[str, ...]) -> None:
    found = read(event("DTSTART:20270302T090000Z", "DURATION:PT1H", *lines))
    assert (found.entries, found.free_count, found.skipped) == ((), 1, {})
    assert read(event("DTSTART:20270302T090000Z")).free_count == 1
    assert read(event("DTSTART:20270302T090000Z", "DTEND:20270302T080000Z")).free_count == 1


def test_a_weekly_entry_keeps_its_wall_time() -> None:
    weekly = event(f"DTSTART;TZID={BERLIN}:20270312T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=4")
    assert busy(weekly) == [
        "03-12 08:00/03-12 09:00",
        "03-19 08:00/03-19 09:00",
        "03-26 08:00/03-26 09:00",
        "04-02 07:00/04-02 08:00",
    ]


def test_dates_are_left_out_added_and_moved() -> None:
    series = event(
        f"DTSTART;TZID={BERLIN}:20270302T090000",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY;UNTIL=20270308T000000Z",
        f"EXDATE;TZID={BERLIN}:20270303T090000,20270304T090000",
        "EXDATE:20270305T080000Z",
        f"RDATE;TZID={BERLIN}:20270320T100000",
        uid="a",
    )
    moved = event(
        f"RECURRENCE-ID;TZID={BERLIN}:20270306T090000", "DTSTART:20270306T150000Z", "DURATION:PT1H", uid="a"
    )
    gone = event(
        "RECURRENCE-ID:20270307T080000Z",
        "DTSTART:20270307T080000Z",
        "DURATION:PT1H",
        "STATUS:CANCELLED",
        uid="a",
    )
    expected = ["03-02 08:00/03-02 09:00", "03-06 15:00/03-06 16:00", "03-20 09:00/03-20 10:00"]
    assert busy(series, moved, gone) == expected
    assert busy(gone, moved, series) == expected, "in whatever order they stand"


def test_the_start_counts_whatever_the_rule_says() -> None:
    """RFC 5545, 3.8.5.3."""
    odd = event("DTSTART:20270303T090000Z", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=2")
    assert busy(odd)[0] == "03-03 09:00/03-03 10:00"


def test_overlapping_times_are_one() -> None:
    components = [
        event("DTSTART:20270302T090000Z", "DURATION:PT1H", uid="a"),
        event("DTSTART:20270302T093000Z", "DURATION:PT1H", uid="b"),
        event("DTSTART:20270302T103000Z", "DURATION:PT1H", uid="c"),
        event("DTSTART:20270302T094000Z", "DURATION:PT5M", uid="d"),
    ]
    assert busy(*components) == ["03-02 09:00/03-02 11:30"]


def test_what_is_outside_the_window_is_cut_off() -> None:
    assert busy(event("DTSTART:20270227T000000Z", "DURATION:P3D")) == ["03-01 00:00/03-02 00:00"]
    assert busy(event("DTSTART:20270228T230000Z", "DURATION:PT2H")) == ["03-01 00:00/03-01 01:00"]
    assert busy(event("DTSTART:20270404T230000Z", "DURATION:PT2H")) == ["04-04 23:00/04-05 00:00"]
    assert busy(event("DTSTART:20200302T090000Z", "DURATION:PT1H")) == []
    long_since = event("DTSTART:19700302T090000Z", "DURATION:PT1H", "RRULE:FREQ=YEARLY")
    assert busy(long_since) == ["03-02 09:00/03-02 10:00"]


def test_what_is_published_as_busy_alone() -> None:
    published = "\n".join(
        [
            "BEGIN:VFREEBUSY",
            "FREEBUSY:20270302T090000Z/20270302T100000Z,20270303T090000Z/PT2H",
            "FREEBUSY;FBTYPE=FREE:20270304T090000Z/PT2H",
            "FREEBUSY;FBTYPE=BUSY-TENTATIVE:20270305T090000Z/PT1H",
            "END:VFREEBUSY",
        ]
    )
    assert busy(published) == [
        "03-02 09:00/03-02 10:00",
        "03-03 09:00/03-03 11:00",
        "03-05 09:00/03-05 10:00",
    ]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("DTSTART;TZID=Middle Earth:20270302T090000", "DURATION:PT1H"), "timezone_unknown"),
        (("DURATION:PT1H",), "time_unreadable"),
        (("DTSTART:20270230T090000Z", "DURATION:PT1H"), "time_unreadable"),
        (("DTSTART:tomorrow", "DURATION:PT1H"), "time_unreadable"),
        (("DTSTART:20270302T090000Z", "DURATION:a while"), "time_unreadable"),
        (("DTSTART:20270302T090000Z", "DTEND:20290302T090000Z"), "too_long"),
        (("DTSTART:20270302T090000Z", "DURATION:P999999999W"), "too_long"),
        (("DTSTART:20270302T090000Z", "DURATION:PT1H", "RRULE:every PT1S"), "recurrence_unreadable"),
        (
            ("DTSTART:20270302T090000Z", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;BYDAY=XX"),
            "recurrence_unreadable",
        ),
        (
            ("DTSTART:20270302T090000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY"),
            "recurrence_unreadable",
        ),
        (
            (
                "RECURRENCE-ID;RANGE=THISANDFUTURE:20270302T090000Z",
                "DTSTART:20270302T090000Z",
                "DURATION:PT1H",
            ),
            "recurrence_unreadable",
        ),
    ],
)
def test_one_odd_entry_costs_nobody_the_rest(lines: tuple[str, ...], reason: str) -> None:
    good = event("DTSTART:20270302T090000Z", "DURATION:PT1H", uid="good")
    found = read(event(*lines, uid="odd"), good)
    assert found.skipped == {reason: 1}
    assert found.entries == (BusyEntry(start_local=datetime(2027, 3, 2, 9), timezone="UTC", seconds=3_600),)


def test_an_alarm_is_not_the_entry() -> None:
    alarm = "BEGIN:VALARM\nDURATION:PT5M\nDTSTART:20270302T010000Z\nEND:VALARM"
    assert busy(event("DTSTART:20270302T090000Z", alarm, "DURATION:PT1H")) == ["03-02 09:00/03-02 10:00"]


def test_lines_are_put_together_again() -> None:
    text = calendar(event("DTSTART:20270302T090000Z", "DURATION:PT1H")).replace("T0900", "T\r\n 0900")
    for form in (text, text.replace("\r\n", "\n"), text.replace("\r\n", "\r"), "\ufeff" + text):
        assert len(read_calendar(form).entries) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with BEGIN:VCALENDAR"),
        ("<!doctype html>", "begins with BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR" + " " * TEXT_CHARS_MAX, "characters"),
        ("BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\nEND:VEVENT\n" * (ENTRIES_MAX + 1), "entries"),
        ("BEGIN:VCALENDAR\n" + "BEGIN:X\n" * 20, "nests"),
    ],
)
def test_what_is_no_calendar_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_calendar(text)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "BEGIN:VEVENT",
                    "END:VEVENT",
                    "BEGIN:VFREEBUSY",
                    "END:VFREEBUSY",
                    "DTSTART:20270302T090000Z",
                    "DURATION:PT1H",
                    "RRULE:FREQ=DAILY",
                    "RRULE:FREQ=SECONDLY",
                    "EXDATE:20270303T090000Z",
                    "DTEND:99991231T235959Z",
                    "DTSTART;VALUE=DATE:00010101",
                    "DTSTART;VALUE=DATE:99991231",
                    "RECURRENCE-ID:20270302T090000Z",
                    "FREEBUSY:/",
                    "TZID;=:",
                    ";;;",
                    "END:VCALENDAR",
                ]
            ),
            st.text(max_size=40),
        ),
        max_size=30,
    )
)
def test_whatever_it_is_made_of_it_is_read_or_refused(lines: list[str]) -> None:
    try:
        found = read_calendar("\n".join(["BEGIN:VCALENDAR", *lines]))
    except InvalidInput:
        return
    busy = busy_time(found.entries, timezone="Asia/Kathmandu", after=AFTER, before=BEFORE)
    edges = [edge for span in busy.spans for edge in span]
    assert edges == sorted({*edges})
    assert all(start < BEFORE and end > AFTER for start, end in busy.spans)


def test_the_work_is_bounded_for_all_entries_together() -> None:
    """Thousands of rules that are due each few seconds, for a year."""
    often = BusyEntry(
        start_local=datetime(2027, 3, 1), timezone="UTC", seconds=1, recurrence="FREQ=SECONDLY;INTERVAL=7"
    )
    found = busy_time([often] * ENTRIES_MAX, timezone="UTC", after=AFTER, before=AFTER + timedelta(days=366))
    assert found.skipped_count > ENTRIES_MAX // 2
    assert len(found.spans) <= 10_000


@pytest.mark.parametrize("start", ["DTSTART;VALUE=DATE:99991231", "DTSTART:99991231T235959Z"])
def test_what_ends_after_all_time_is_not_yet(start: str) -> None:
    length = () if "DATE" in start else ("DURATION:PT1H",)
    assert busy(event(start, *length)) == []


def test_what_comes_too_often_is_known_only_so_far() -> None:
    often = BusyEntry(
        start_local=datetime(2027, 2, 27), timezone="UTC", seconds=60, recurrence="FREQ=MINUTELY;INTERVAL=30"
    )
    year = timedelta(days=366)
    found = busy_time([often], timezone="UTC", after=AFTER, before=AFTER + year)
    last, _ = found.spans[-1]
    assert (found.until, found.skipped_count) == (last, 0)
    assert found.until < AFTER + year
    assert busy_time([], timezone="UTC", after=AFTER, before=AFTER + year).until == AFTER + year


def test_exceptions_are_not_multiplied_by_the_entries_that_they_are_meant_for() -> None:
    """Entries of one name that recur, and as many that take the place of one of them, in a file that is not large."""
    start = datetime(2027, 3, 2, 9)
    recurring = event("DTSTART:20270302T090000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY")
    moved = [f"{start + timedelta(days=day):%Y%m%dT%H%M%SZ}" for day in range(100)]
    instead = [event(f"RECURRENCE-ID:{at}", f"DTSTART:{at}", "DURATION:PT1H") for at in moved]
    assert len(read(recurring, *instead).entries[-1].exdates) == 100
    found = read(*[recurring] * 100, *instead)
    assert (len(found.entries), found.skipped) == (100, {"recurrence_unreadable": 100})


def test_a_line_of_many_parameters_is_read_once() -> None:
    """To cut each off the rest of the line takes time that grows with the square of their number."""
    many = ";X=1" * 200_000
    began = time.process_time()
    assert busy(event(f"DTSTART{many};TZID={BERLIN}:20270302T090000", "DURATION:PT1H")) == [
        "03-02 08:00/03-02 09:00"
    ]
    assert time.process_time() - began < 5


def test_a_long_name_of_a_timezone_is_no_name() -> None:
    """To try every end of it takes time that grows with the square of its length."""
    began = time.process_time()
    long = event(f"DTSTART;TZID={'/'.join('a' * 32_000)}:20270302T090000", "DURATION:PT1H")
    zone = f"BEGIN:VTIMEZONE\nTZID:Here\nX-LIC-LOCATION:{'/'.join('a' * 32_000)}\nEND:VTIMEZONE"
    explained = event("DTSTART;TZID=Here:20270302T090000", "DURATION:PT1H")
    assert read(zone, long, explained).skipped == {"timezone_unknown": 2}
    assert time.process_time() - began < 1
