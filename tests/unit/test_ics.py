"""The calendar file keeps to RFC 5545: its lines, their length, and what is escaped in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from icalendar import Calendar, vCalAddress

from timebell.rules.ics import CalendarEntry, CalendarPerson, calendar_file

AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def entry(title: str = "every day", text: str = "", at: datetime = AT) -> CalendarEntry:
    return CalendarEntry(uid="1-2", at=at, title=title, text=text)


def unfolded(file: str) -> list[str]:
    """The lines as a reader puts them together again (RFC 5545, 3.1)."""
    assert file.endswith("\r\n")
    return file.replace("\r\n ", "").removesuffix("\r\n").split("\r\n")


def line_of(name: str, title: str) -> str:
    lines = unfolded(calendar_file([entry(title=title)], made_at=AT))
    [found] = [line.removeprefix(f"{name}:") for line in lines if line.startswith(f"{name}:")]
    return found


def test_a_whole_file() -> None:
    assert unfolded(calendar_file([entry(text="why")], made_at=AT - timedelta(days=1))) == [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Timebell//Timebell//EN",
        "CALSCALE:GREGORIAN",
        "BEGIN:VEVENT",
        "UID:1-2",
        "DTSTAMP:20260328T013000Z",
        "DTSTART:20260329T013000Z",
        "SUMMARY:every day",
        "DESCRIPTION:why",
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
        "END:VCALENDAR",
    ]


def test_an_instant_is_written_in_utc_whatever_its_offset() -> None:
    there = AT.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert "DTSTART:20260329T013000Z" in calendar_file([entry(at=there)], made_at=AT)
    assert "DTSTART:09990101T000000Z" in calendar_file(
        [entry(at=datetime(999, 1, 1, tzinfo=UTC))], made_at=AT
    )


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("Monday, Tuesday", r"Monday\, Tuesday"),
        ("FREQ=DAILY;COUNT=2", r"FREQ=DAILY\;COUNT=2"),
        ("back\\slash", r"back\\slash"),
        ("one\r\ntwo\rthree\nfour", r"one\ntwo\nthree\nfour"),
        ("bell\x07 and\ttab", "bell  and tab"),
        ("a: b", "a: b"),
    ],
)
def test_what_is_escaped(given: str, written: str) -> None:
    assert line_of("SUMMARY", given) == written


@pytest.mark.parametrize(
    "text", ["x" * 300, "é" * 300, "日本" * 150, "a" + "🔔" * 200, "y" * (75 - len("SUMMARY:"))]
)
def test_no_line_is_longer_than_75_octets_and_no_character_is_cut(text: str) -> None:
    file = calendar_file([entry(title=text)], made_at=AT)
    assert max(len(line.encode()) for line in file.split("\r\n")) <= 75
    assert line_of("SUMMARY", text) == text


def test_nothing_can_be_smuggled_in() -> None:
    lines = unfolded(calendar_file([entry(title="x\r\nEND:VEVENT\r\nBEGIN:VALARM")], made_at=AT))
    assert [line for line in lines if line.startswith(("BEGIN", "END"))] == [
        "BEGIN:VCALENDAR",
        "BEGIN:VEVENT",
        "END:VEVENT",
        "END:VCALENDAR",
    ]


def test_a_meeting_says_who_takes_part_and_for_how_long() -> None:
    meeting = CalendarEntry(
        uid="1",
        at=AT,
        ends_at=AT + timedelta(hours=1),
        title="Review",
        location="Room 1; first floor",
        status="CONFIRMED",
        sequence=3,
        is_busy=True,
        organizer=CalendarPerson(uri="mailto:ada@example.org", name="Ada"),
        attendees=[CalendarPerson(uri="urn:uuid:1")],
    )
    lines = unfolded(calendar_file([meeting], made_at=AT, method="REQUEST", name="Ada, at work"))
    assert lines[4:6] == ["METHOD:REQUEST", "X-WR-CALNAME:Ada\\, at work"]
    assert lines[9:-2] == [
        "DTSTART:20260329T013000Z",
        "DTEND:20260329T023000Z",
        "SEQUENCE:3",
        "STATUS:CONFIRMED",
        "SUMMARY:Review",
        "LOCATION:Room 1\\; first floor",
        'ORGANIZER;CN="Ada":mailto:ada@example.org',
        "ATTENDEE;ROLE=REQ-PARTICIPANT;PARTSTAT=ACCEPTED;RSVP=FALSE:urn:uuid:1",
        "TRANSP:OPAQUE",
    ]


@pytest.mark.parametrize(
    "name", ['Ada "the" bell', "Ada\r\nATTENDEE:mailto:eve@example.org", 'x":mailto:eve', "\x00"]
)
def test_a_name_stays_a_name(name: str) -> None:
    person = CalendarPerson(uri="mailto:ada@example.org\r\nX:1", name=name)
    file = calendar_file(
        [CalendarEntry(uid="1", at=AT, title="x", organizer=person, attendees=[person])], made_at=AT
    )
    parsed: Any = Calendar.from_ical(file)
    (event,) = parsed.walk("VEVENT")
    assert str(event["ORGANIZER"]) == "mailto:ada@example.org%0D%0AX:1"
    assert isinstance(event["ATTENDEE"], vCalAddress)
    assert "X" not in event
