"""When somebody wants peace: quiet hours are written in wall time, and what waits for their end needs an instant.

Quiet hours are one stretch, and nobody is woken within it because clocks were changed. They begin the first time that
the clock shows their start and end the last time that it shows their end. Where the clock skips one of the two, the
moment of the change takes its place.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from timebell.rules.localtime import OnFold, at_instant, aware, end_of_gap, local_at, naive_utc

EVERY_DAY = frozenset(range(7))

# Those of the day before last can touch those of yesterday, and those of today those of tomorrow.
_NEAR_DAYS = [timedelta(days=days) for days in (-2, -1, 0, 1)]
_NEXT_DAY = timedelta(days=1)
_SAME_DAY = timedelta(0)


class Window(NamedTuple):
    """One night of quiet hours: its begin belongs to it, its end does not."""

    begins_at: datetime
    ends_at: datetime


def window_at(
    instant: datetime, start: time, end: time, timezone: ZoneInfo, days: frozenset[int] = EVERY_DAY
) -> Window | None:
    """The quiet hours that an instant lies in, if it does.

    They begin on `days`, Monday is 0, and an `end` before the `start` is on the next day. Where both are the same
    there are none. Nights that touch are one.
    """
    moment = naive_utc(instant, "instant")
    if start == end:
        return None
    try:
        windows = _windows_near(local_at(moment, timezone).date(), start, end, timezone, days)
    except OverflowError:
        # Within two days of where the calendar begins or ends, nobody sleeps.
        return None
    for begins_at, ends_at in windows:
        if begins_at <= moment < ends_at:
            return Window(aware(begins_at), aware(ends_at))
    return None


@lru_cache(maxsize=4096)
def _windows_near(
    today: date, start: time, end: time, timezone: ZoneInfo, days: frozenset[int]
) -> tuple[Window, ...]:
    """The quiet hours around a day, in order. They are remembered, since most people keep the same ones."""
    windows: list[Window] = []
    for day in (today + near for near in _NEAR_DAYS):
        if day.weekday() not in days:
            continue
        last_day = day + (_NEXT_DAY if end < start else _SAME_DAY)
        begins_at = _shown_at(datetime.combine(day, start), timezone, "first")
        ends_at = _shown_at(datetime.combine(last_day, end), timezone, "second")
        if windows and begins_at <= windows[-1].ends_at:
            begins_at = windows.pop().begins_at
        if begins_at < ends_at:
            windows.append(Window(begins_at, ends_at))
    return tuple(windows)


def _shown_at(local: datetime, timezone: ZoneInfo, on_fold: OnFold) -> datetime:
    """The instant at which the clock shows a wall time, or skips it."""
    instant, adjusted = at_instant(local, timezone, on_fold=on_fold)
    if instant is None:
        raise OverflowError("outside the calendar")
    return end_of_gap(local, timezone) if adjusted == "gap" else instant
