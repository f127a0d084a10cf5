"""Wall time and instants: the only place that knows what a gap and a fold are.

Clocks that are put forward leave a gap of wall times that no clock shows; clocks that are put back show the
wall times of a fold twice. A recurrence speaks of wall times, so each of its occurrences passes through
`at_instant`, which follows RFC 5545: in a gap the offset before it counts, which moves the occurrence forward
by the length of the gap, and in a fold the first of the two.

All timezones come from the `tzdata` package that is installed with Timebell. `zoneinfo` would prefer the copy of
the operating system, which may be years older and differ between two nodes.

Inside the rules an instant is a datetime in UTC without tzinfo, since half of the arithmetic is with wall
times; `aware` gives it its tzinfo at the edge.
"""

from __future__ import annotations

import difflib
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from timebell.errors import InvalidInput, NaiveInstant, UnknownTimezone

zoneinfo.reset_tzpath(to=())
ZoneInfo.clear_cache()

TIMEZONE_VERSION: str = tzdata.IANA_VERSION
NAME_CHARS_MAX = 64

OnGap = Literal["shift", "skip"]
OnFold = Literal["first", "second"]
Adjusted = Literal["gap", "fold"]

# No gap or fold is longer than a day (Samoa skipped one in 2011), so a change of the offset that matters to an
# instant lies within this distance of it.
NEAR = timedelta(hours=25)
FIRST_WALL = datetime(1, 1, 1)  # noqa: DTZ001
LAST_WALL = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001
_NONE = timedelta(0)


class Mapped(NamedTuple):
    """What became of a wall time; no instant where it was skipped or lies outside the years 1 to 9999."""

    instant: datetime | None
    adjusted: Adjusted | None


@lru_cache(maxsize=1)
def timezone_names() -> frozenset[str]:
    """Every name in the pinned data."""
    return frozenset(zoneinfo.available_timezones())


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The timezone of that name. Only a listed name reaches `zoneinfo`, so no path can be smuggled in."""
    if len(name) <= NAME_CHARS_MAX and name in timezone_names():
        return ZoneInfo(name)
    given = name[:NAME_CHARS_MAX]
    near = _near_names(given)
    remedy = f"did you mean {' or '.join(near)}?" if near else "give an IANA name, for example Europe/Berlin"
    raise UnknownTimezone(
        f"{given!a} is not in the timezone data {TIMEZONE_VERSION}; {remedy}", field="timezone"
    )


def _near_names(given: str) -> list[str]:
    """Names that may have been meant: those of the same city first, then those that are spelt alike."""
    names = sorted(timezone_names())
    city = given.rpartition("/")[2].lower().replace(" ", "_")
    cities = [name for name in names if name.lower().rpartition("/")[2] == city]
    return cities[:3] or difflib.get_close_matches(given, names, n=3)


def at_instant(
    local: datetime, timezone: ZoneInfo, on_gap: OnGap = "shift", on_fold: OnFold = "first"
) -> Mapped:
    """The instant at which the clocks of a timezone show a wall time, and whether it is one of the odd ones."""
    before, after = _offsets_at(local, timezone)
    try:
        if before == after:
            return Mapped(local - before, None)
        if before > after:
            # Where the listed changes end and the rule for later years begins, zoneinfo may tell of a fold that
            # never was.
            if local_at(local - before, timezone).replace(fold=0) != local.replace(fold=0):
                return Mapped(local - after, None)
            return Mapped(local - (after if on_fold == "second" else before), "fold")
        return Mapped(None if on_gap == "skip" else local - before, "gap")
    except OverflowError:
        return Mapped(None, None)


def _offsets_at(local: datetime, timezone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets before and after a change of clocks that makes a wall time odd; elsewhere they are the same.

    `zoneinfo` reads a wall time from any datetime, so the detour over an aware one is spared: it took most of the time.
    """
    first = local.replace(fold=0) if local.fold else local
    return timezone.utcoffset(first) or _NONE, timezone.utcoffset(first.replace(fold=1)) or _NONE


def local_at(instant: datetime, timezone: ZoneInfo) -> datetime:
    """What the clocks of a timezone show at an instant, with `fold` set in the second pass of a fold."""
    return timezone.fromutc(instant.replace(tzinfo=timezone)).replace(tzinfo=None)


def offset_at(instant: datetime, timezone: ZoneInfo) -> timedelta:
    """How far the clocks of a timezone are ahead of UTC at an instant."""
    try:
        return timezone.fromutc(instant.replace(tzinfo=timezone)).utcoffset() or _NONE
    except OverflowError:
        return instant.replace(tzinfo=timezone).utcoffset() or _NONE


def offsets_near(instant: datetime, timezone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The least and the greatest offset from a day before an instant to a day after it.

    Every wall time that `at_instant` maps to a later instant is greater than the instant plus the least of
    them, and every one that it maps to an earlier instant is less than the instant plus the greatest.
    """
    return _offsets_around(instant.replace(minute=0, second=0, microsecond=0), timezone)


@lru_cache(maxsize=4096)
def _offsets_around(hour: datetime, timezone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """As `offsets_near`, for all instants of an hour, since many schedules ask about the same one."""
    following = timedelta(hours=1)
    try:
        moments = (hour - NEAR, hour, hour + following, hour + following + NEAR)
    except OverflowError:
        return -NEAR, NEAR
    offsets = [offset_at(moment, timezone) for moment in moments]
    return min(offsets), max(offsets)


def end_of_gap(local: datetime, timezone: ZoneInfo) -> datetime:
    """The instant of the change that took a wall time away, which is the first that follows it on the clocks."""
    before, after = _offsets_at(local, timezone)
    return _change_between(local - after, local - before, timezone)


def shown_between(
    begins: datetime, ends: datetime, timezone: ZoneInfo
) -> tuple[tuple[datetime, datetime], ...]:
    """The instants at which the clocks of a timezone show a wall time from one on and before another of that day.

    That is one span, but where clocks are changed meanwhile there may be two, or none: what they skip is never shown,
    and what they show twice is shown on both sides of the change.
    """
    before, after = _offsets_at(begins, timezone)[0], _offsets_at(ends, timezone)[1]
    if before == after:
        return ((begins - before, ends - after),)
    first, last = begins - max(before, after), ends - min(before, after)
    before, after = offset_at(first, timezone), offset_at(last, timezone)
    if before == after:
        return ((begins - before, ends - after),)
    change = _change_between(first, last, timezone)
    spans = (begins - before, min(ends - before, change)), (max(begins - after, change), ends - after)
    return tuple(span for span in spans if span[0] < span[1])


def _change_between(early: datetime, late: datetime, timezone: ZoneInfo) -> datetime:
    """The first instant with another offset than the early one has; the late one has another."""
    before = offset_at(early, timezone)
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if offset_at(middle, timezone) == before:
            early = middle
        else:
            late = middle
    return late


def aware(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC)


def show_instant(instant: datetime) -> str:
    """As RFC 3339 writes it, in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def naive_utc(instant: datetime, field: str) -> datetime:
    """An instant as the rules hold it. One without an offset is refused by the name of its field."""
    if instant.tzinfo is None:
        raise NaiveInstant(
            "a datetime without an offset is no instant; give one, for example in UTC", field=field
        )
    try:
        return instant.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise InvalidInput(
            f"{instant.isoformat()} is outside the years 1 to 9999 in UTC; choose another", field=field
        ) from None


def plain_local(local: datetime, field: str) -> datetime:
    """A wall time in whole seconds, which is all that a recurrence can say. An aware one is refused."""
    if not isinstance(local, datetime):
        raise InvalidInput(f"{local} is no date with a time of day; give a datetime", field=field)
    if local.tzinfo is not None:
        raise InvalidInput(
            "a wall time has no offset; leave its tzinfo out and name the timezone apart from it", field=field
        )
    return local.replace(microsecond=0, fold=0) if local.microsecond or local.fold else local
