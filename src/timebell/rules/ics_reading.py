"""A reader of iCalendar files (RFC 5545): it takes from a file when somebody is busy, and nothing else of what it says.

Files come from strangers, so the work is bounded before it begins: by the length of the text and of each name in it, by
the number of entries, and by a budget for all recurrences together. It grows with the length of the text, not faster.
What cannot be read is left out and counted under its reason; one odd entry must not cost a person the whole calendar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from timebell.errors import InvalidInput, RecurrenceError
from timebell.rules.every import read_duration
from timebell.rules.localtime import at_instant, aware, timezone_names, zone
from timebell.rules.rrule import parse_rule

TEXT_CHARS_MAX: Final = 1_000_000
ENTRIES_MAX: Final = 5_000
DATES_MAX: Final = 2_000
# Longer than this, an entry is no appointment; a year off is told as less than that.
LONGEST: Final = timedelta(days=366)

_DEPTH_MAX: Final = 10
# No name of a timezone is as long, whoever calls it so; and those of IANA have no more parts.
_ZONE_CHARS_MAX: Final = 200
_ZONE_PARTS_MAX: Final = 3
_WANTED: Final = frozenset(
    [
        "UID",
        "DTSTART",
        "DTEND",
        "DURATION",
        "RRULE",
        "RDATE",
        "EXDATE",
        "RECURRENCE-ID",
        "TRANSP",
        "STATUS",
        "X-MICROSOFT-CDO-BUSYSTATUS",
        "FREEBUSY",
        "TZID",
        "X-LIC-LOCATION",
    ]
)
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_PARAM: Final = re.compile(r';([^=;:]*)=(?:"([^"]*)"?|([^;:]*))')
_REPEATED: Final = frozenset({"RDATE", "EXDATE", "FREEBUSY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyEntry:
    """A time that is taken, once or again. Without a `timezone` it is in that of whoever owns the calendar.

    It lasts `days` by the calendar, which may be of 23 or 25 hours, and `seconds` by the clock. Dates are wall times
    like `start_local`, or instants.
    """

    start_local: datetime
    timezone: str | None = None
    days: int = 0
    seconds: int = 0
    recurrence: str | None = None
    rdates: tuple[datetime, ...] = ()
    exdates: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCalendar:
    """What was found. `free_count` entries take nobody's time; `skipped` says how many were left out, and why."""

    entries: tuple[BusyEntry, ...]
    free_count: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)


class _Moment(NamedTuple):
    """A time as a file has it: on a date, on the wall of a timezone, or at an instant, which is written in UTC."""

    local: datetime
    timezone: str | None
    is_date: bool


class _Line(NamedTuple):
    name: str
    params: Mapping[str, str]
    value: str


class _Unreadable(Exception):
    """An entry that cannot be read, with the reason under which it is counted."""


_Component = dict[str, list[_Line]]


def is_calendar(text: str) -> bool:
    """Whether it means to be one, such as a page to log in on does not."""
    return text.lstrip("\ufeff \r\n\t")[:15].upper() == "BEGIN:VCALENDAR"


def read_calendar(
    text: str, *, timezones: Mapping[str, str] | None = None, look: Callable[[], None] = lambda: None
) -> ReadCalendar:
    """The times that the entries of a file take. `timezones` gives the IANA names for names that others use.

    `look` is called at every line and every date, and may raise to end it.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidInput(
            f"has {len(text)} characters; the limit is {TEXT_CHARS_MAX}, leave out what is long past",
            field="ics",
        )
    if not is_calendar(text):
        raise InvalidInput("is no iCalendar file; it begins with BEGIN:VCALENDAR", field="ics")
    found = list(_components(text, look))
    names = dict(timezones or {})
    for kind, lines in found:
        if kind == "VTIMEZONE" and "X-LIC-LOCATION" in lines and "TZID" in lines:
            names.setdefault(lines["TZID"][0].value, lines["X-LIC-LOCATION"][0].value)
    return _Reader(names, look).read(found)


class _Reader:
    """Reads the components of one file."""

    def __init__(self, names: Mapping[str, str], look: Callable[[], None]) -> None:
        self._names = names
        self._look = look
        self._timezones: dict[str, str | None] = {}
        self._skipped: Counter[str] = Counter()
        self._free_count = 0

    def read(self, components: Iterable[tuple[str, _Component]]) -> ReadCalendar:
        single: list[BusyEntry] = []
        series: dict[str, list[BusyEntry]] = {}
        moved: dict[str, list[datetime]] = {}
        for kind, lines in components:
            try:
                if kind == "VFREEBUSY":
                    single += self._periods(lines)
                elif kind == "VEVENT":
                    uid = _value(lines, "UID")
                    if "RECURRENCE-ID" in lines:
                        # It takes the place of one of its series, whether it takes time or not.
                        moved.setdefault(uid, []).append(self._instead_of(lines))
                    entry = self._event(lines)
                    if entry is None:
                        self._free_count += 1
                    elif entry.recurrence is None or not uid:
                        single.append(entry)
                    else:
                        series.setdefault(uid, []).append(entry)
            except _Unreadable as error:
                self._skipped[str(error)] += 1
        for uid, entries in series.items():
            instead = moved.get(uid, ())
            # All that have one name are meant by each exception, which is a great deal where there are many of both.
            if len(entries) * len(instead) > DATES_MAX:
                self._skipped["recurrence_unreadable"] += len(entries)
                continue
            single += [replace(entry, exdates=(*entry.exdates, *instead)) for entry in entries]
        return ReadCalendar(
            entries=tuple(single), free_count=self._free_count, skipped=dict(sorted(self._skipped.items()))
        )

    def _event(self, lines: _Component) -> BusyEntry | None:
        """The time that an entry takes; None where it takes none."""
        if (
            _value(lines, "TRANSP").upper() == "TRANSPARENT"
            or _value(lines, "STATUS").upper() == "CANCELLED"
            or _value(lines, "X-MICROSOFT-CDO-BUSYSTATUS").upper() == "FREE"
        ):
            return None
        start = self._moment(_only(lines, "DTSTART"))
        days, length = self._length(lines, start)
        if days == 0 and length <= timedelta(0):
            return None
        if timedelta(days=days) + length > LONGEST:
            raise _Unreadable("too_long")
        rdates = self._dates(lines, "RDATE", start)
        recurrence = _only(lines, "RRULE").value if "RRULE" in lines else None
        if recurrence is not None:
            _check_rule(recurrence)
        # The start is an occurrence whatever the rule says (RFC 5545, 3.8.5.3).
        is_series = recurrence is not None or bool(rdates)
        return BusyEntry(
            start_local=start.local,
            timezone=start.timezone,
            days=days,
            seconds=int(length.total_seconds()),
            recurrence=recurrence or ("FREQ=DAILY;COUNT=1" if is_series else None),
            rdates=(start.local, *rdates) if is_series else (),
            exdates=self._dates(lines, "EXDATE", start),
        )

    def _length(self, lines: _Component, start: _Moment) -> tuple[int, timedelta]:
        if "DTEND" in lines:
            end = self._moment(_only(lines, "DTEND"))
            if start.is_date:
                return max(0, (end.local - start.local).days), timedelta(0)
            if end.timezone == start.timezone is None:
                return 0, end.local - start.local
            return 0, _instant(end) - _instant(start)
        if "DURATION" in lines:
            text = _only(lines, "DURATION").value
            duration = read_duration(text.removeprefix("+"))
            if duration is None:
                raise _Unreadable("time_unreadable")
            if text.removeprefix("+").endswith(("D", "W")):
                return duration.days, timedelta(0)
            return 0, duration
        return (1, timedelta(0)) if start.is_date else (0, timedelta(0))

    def _instead_of(self, lines: _Component) -> datetime:
        line = _only(lines, "RECURRENCE-ID")
        if "RANGE" in line.params:
            raise _Unreadable("recurrence_unreadable")
        moment = self._moment(line)
        return moment.local if moment.timezone is None else aware(_instant(moment))

    def _dates(self, lines: _Component, name: str, start: _Moment) -> tuple[datetime, ...]:
        dates: list[datetime] = []
        for line in lines.get(name, ()):
            for text in line.value.split(","):
                moment = self._moment(line._replace(value=text.partition("/")[0]))
                dates.append(_as_date_of(moment, start))
                if len(dates) > DATES_MAX:
                    raise _Unreadable("recurrence_unreadable")
        return tuple(dates)

    def _periods(self, lines: _Component) -> Iterator[BusyEntry]:
        """What is published as busy without saying what it is."""
        count = 0
        for line in lines.get("FREEBUSY", ()):
            if line.params.get("FBTYPE", "BUSY").upper() == "FREE":
                continue
            for text in line.value.split(","):
                count += 1
                if count > ENTRIES_MAX:
                    raise _Unreadable("too_many")
                first, _, last = text.partition("/")
                start = self._moment(line._replace(value=first))
                if last.startswith(("P", "+P")):
                    length = read_duration(last.removeprefix("+")) or timedelta(0)
                else:
                    length = _instant(self._moment(line._replace(value=last))) - _instant(start)
                if timedelta(0) < length <= LONGEST:
                    yield BusyEntry(
                        start_local=start.local, timezone=start.timezone, seconds=int(length.total_seconds())
                    )

    def _moment(self, line: _Line) -> _Moment:
        self._look()
        match = _TIME.fullmatch(line.value.strip())
        if match is None:
            raise _Unreadable("time_unreadable")
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        try:
            # A leap second is no time that a clock here shows.
            local = datetime(year, month, day, hour, minute, min(second, 59))  # noqa: DTZ001
        except ValueError:
            raise _Unreadable("time_unreadable") from None
        if match[4] is None:
            return _Moment(local, None, is_date=True)
        if match[7]:
            return _Moment(local, "UTC", is_date=False)
        tzid = line.params.get("TZID")
        return _Moment(local, None if tzid is None else self._timezone(tzid), is_date=False)

    def _timezone(self, tzid: str) -> str:
        if len(tzid) > _ZONE_CHARS_MAX:
            raise _Unreadable("timezone_unknown")
        if tzid not in self._timezones:
            self._timezones[tzid] = _zone_named(tzid) or _zone_named(self._names.get(tzid, ""))
        found = self._timezones[tzid]
        if found is None:
            raise _Unreadable("timezone_unknown")
        return found


def _zone_named(name: str) -> str | None:
    """The IANA name: as it stands, or at the end of a longer one."""
    if len(name) > _ZONE_CHARS_MAX:
        return None
    parts = name.strip("/").rsplit("/", _ZONE_PARTS_MAX)[-_ZONE_PARTS_MAX:]
    tails = ("/".join(parts[begin:]) for begin in range(len(parts)))
    return next((tail for tail in tails if tail in timezone_names()), None)


def _check_rule(recurrence: str) -> None:
    try:
        parse_rule(recurrence)
    except RecurrenceError:
        raise _Unreadable("recurrence_unreadable") from None


def _as_date_of(moment: _Moment, start: _Moment) -> datetime:
    """A moment as a series that starts at another knows it: its wall time there, or an instant."""
    if moment.is_date and not start.is_date:
        return datetime.combine(moment.local.date(), start.local.time())
    if moment.timezone == start.timezone or moment.timezone is None:
        return moment.local
    return aware(_instant(moment))


def _instant(moment: _Moment) -> datetime:
    """As the rules hold one: in UTC, without tzinfo. What is on nobody's wall is taken as it stands."""
    if moment.timezone is None:
        return moment.local
    found = at_instant(moment.local, zone(moment.timezone)).instant
    if found is None:
        raise _Unreadable("time_unreadable")
    return found


def _components(text: str, look: Callable[[], None]) -> Iterator[tuple[str, _Component]]:
    """The lines of each component, as far as they say when. What lies deeper in it, such as an alarm, is apart."""
    stack: list[tuple[str, _Component]] = []
    count = 0
    for whole in _unfolded(text):
        look()
        head, colon, value = whole.partition(":")
        name = head.partition(";")[0].upper()
        if name == "BEGIN" and colon:
            if len(stack) >= _DEPTH_MAX:
                raise InvalidInput(f"nests deeper than {_DEPTH_MAX}; export it again", field="ics")
            stack.append((value.strip().upper(), {}))
        elif name == "END" and stack:
            kind, lines = stack.pop()
            if kind in ("VEVENT", "VFREEBUSY", "VTIMEZONE"):
                count += 1
                if count > ENTRIES_MAX:
                    raise InvalidInput(
                        f"has more than {ENTRIES_MAX} entries; leave out what is long past", field="ics"
                    )
                yield kind, lines
        elif name in _WANTED and stack:
            kept = stack[-1][1].setdefault(name, [])
            if not kept or name in _REPEATED:
                kept.append(_line(name, whole))
            elif name == "RRULE":
                # Two rules of one entry were taken out of the format.
                kept[0] = kept[0]._replace(value="")


def _unfolded(text: str) -> Iterator[str]:
    parts: list[str] = []
    for line in text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith((" ", "\t")) and parts:
            parts.append(line[1:])
            continue
        if parts:
            yield "".join(parts)
        parts = [line]
    yield "".join(parts)


def _line(name: str, whole: str) -> _Line:
    """A line in its parts. A value of a parameter may be quoted, and then hold what would end it otherwise."""
    params: dict[str, str] = {}
    end = len(name)
    while (found := _PARAM.match(whole, end)) is not None:
        key, quoted, plain = found.groups()
        params[key.upper()] = plain if quoted is None else quoted
        end = found.end()
    return _Line(name, params, whole[end:].removeprefix(":"))


def _value(lines: _Component, name: str) -> str:
    return lines[name][0].value.strip() if name in lines else ""


def _only(lines: _Component, name: str) -> _Line:
    if name not in lines:
        raise _Unreadable("time_unreadable")
    return lines[name][0]
