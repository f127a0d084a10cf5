"""When the clocks of a place first show a wall time, found out by asking the standard library and nothing of ours."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_ASKED_AT = tuple(timedelta(hours=hours) for hours in (-26, -13, 0, 13, 26))
_MINUTE = timedelta(minutes=1)


def shown(instant: datetime, place: ZoneInfo) -> datetime:
    return instant.astimezone(place).replace(tzinfo=None, fold=0)


def first_shown(wall: datetime, place: ZoneInfo) -> datetime:
    """The first instant at which clocks show this wall time; where none does, the first of those that are later."""
    near = wall.replace(tzinfo=UTC)
    offsets = {(near + each).astimezone(place).utcoffset() for each in _ASKED_AT}
    tried = sorted(near - offset for offset in offsets if offset is not None)
    for instant in tried:
        if shown(instant, place) == wall:
            return instant
    instant = tried[0]
    while shown(instant, place) >= wall:
        instant -= _MINUTE
    while shown(instant, place) < wall:
        instant += _MINUTE
    return instant


def runs_of(weekday: int, at: time, place: ZoneInfo, first_monday: date, weeks: int) -> list[datetime]:
    """One instant for each week."""
    day = first_monday + timedelta(days=weekday)
    return [first_shown(datetime.combine(day + timedelta(days=7 * week), at), place) for week in range(weeks)]
