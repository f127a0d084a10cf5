"""Moments and meetings as an iCalendar file (RFC 5545), which every calendar program can open.

Each moment is an entry of its own with its instant in UTC. A recurrence with its timezone would be shorter, but
calendar programs disagree on gaps, folds and rare rules, and a file that is meant to show what Timebell will do
must not depend on what another program makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote

_LINE_BYTES_MAX = 75
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_NOT_IN_URI = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarPerson:
    """Somebody who takes part, known by a URI: `mailto:` where there is an address that the others may know."""

    uri: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEntry:
    """A moment with a title, or a time with an end. Programs that read the file again know the entry by its `uid`.

    Of two with one `uid` the one with the higher `sequence` counts. `is_busy`: it takes its owner's time.
    """

    uid: str
    at: datetime
    title: str
    text: str = ""
    ends_at: datetime | None = None
    location: str = ""
    status: Literal["CONFIRMED", "CANCELLED"] | None = None
    sequence: int | None = None
    is_busy: bool = False
    organizer: CalendarPerson | None = None
    attendees: Sequence[CalendarPerson] = ()


def calendar_file(
    entries: Iterable[CalendarEntry],
    *,
    made_at: datetime,
    method: Literal["REQUEST", "CANCEL"] | None = None,
    name: str = "",
) -> str:
    """The whole file, with the line ends that the format asks for. A `method` makes a message of it (RFC 5546)."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Timebell//Timebell//EN", "CALSCALE:GREGORIAN"]
    if method is not None:
        lines.append(f"METHOD:{method}")
    if name:
        lines.append(f"X-WR-CALNAME:{_escaped(name)}")
    for entry in entries:
        lines += _entry_lines(entry, made_at)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _entry_lines(entry: CalendarEntry, made_at: datetime) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{_escaped(entry.uid)}"
    yield f"DTSTAMP:{_instant(made_at)}"
    yield f"DTSTART:{_instant(entry.at)}"
    if entry.ends_at is not None:
        yield f"DTEND:{_instant(entry.ends_at)}"
    if entry.sequence is not None:
        yield f"SEQUENCE:{entry.sequence}"
    if entry.status is not None:
        yield f"STATUS:{entry.status}"
    yield f"SUMMARY:{_escaped(entry.title)}"
    if entry.text:
        yield f"DESCRIPTION:{_escaped(entry.text)}"
    if entry.location:
        yield f"LOCATION:{_escaped(entry.location)}"
    if entry.organizer is not None:
        yield f"ORGANIZER{_called(entry.organizer)}:{_uri(entry.organizer)}"
    for person in entry.attendees:
        # Whether it takes place was decided elsewhere, and nobody reads what a program would answer.
        yield f"ATTENDEE{_called(person)};ROLE=REQ-PARTICIPANT;PARTSTAT=ACCEPTED;RSVP=FALSE:{_uri(person)}"
    # A moment takes no time, so it leaves its owner free.
    yield f"TRANSP:{'OPAQUE' if entry.is_busy else 'TRANSPARENT'}"
    yield "END:VEVENT"


def _called(person: CalendarPerson) -> str:
    """A parameter has no way to write a quote or a line (RFC 5545, 3.2), so they become what looks like them."""
    name = _CONTROLS.sub(" ", person.name).replace("\n", " ").replace('"', "'").strip()
    return f';CN="{name}"' if name else ""


def _uri(person: CalendarPerson) -> str:
    return _NOT_IN_URI.sub(lambda match: quote(match[0]), person.uri)


def _instant(at: datetime) -> str:
    utc = at.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%dT%H%M%SZ}"


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    return _CONTROLS.sub(" ", escaped.replace("\r\n", "\n").replace("\r", "\n")).replace("\n", "\\n")


def _folded(line: str) -> Iterator[str]:
    """A line of at most 75 octets, and further ones that begin with a space; no character is cut in two."""
    part, length = "", 0
    for character in line:
        width = len(character.encode())
        if length + width > _LINE_BYTES_MAX:
            yield part
            part, length = " ", 1
        part += character
        length += width
    yield part
