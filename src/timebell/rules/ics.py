"""Moments as an iCalendar file (RFC 5545), which every calendar program can open.

Each moment is an entry of its own with its instant in UTC. A recurrence with its timezone would be shorter, but
calendar programs disagree on gaps, folds and rare rules, and a file that is meant to show what Timebell will do
must not depend on what another program makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_LINE_BYTES_MAX = 75
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEntry:
    """A moment with a title. Programs that read the file again know the entry by its `uid`."""

    uid: str
    at: datetime
    title: str
    text: str = ""


def calendar_file(entries: Iterable[CalendarEntry], *, made_at: datetime) -> str:
    """The whole file, with the line ends that the format asks for."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Timebell//Timebell//EN", "CALSCALE:GREGORIAN"]
    for entry in entries:
        lines += _entry_lines(entry, made_at)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _entry_lines(entry: CalendarEntry, made_at: datetime) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{_escaped(entry.uid)}"
    yield f"DTSTAMP:{_instant(made_at)}"
    yield f"DTSTART:{_instant(entry.at)}"
    yield f"SUMMARY:{_escaped(entry.title)}"
    if entry.text:
        yield f"DESCRIPTION:{_escaped(entry.text)}"
    # A moment takes no time, so it leaves its owner free.
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


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
