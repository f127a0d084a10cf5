"""The preview of a recurrence, before anything is written: when it is due and what clocks do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from timebell.errors import RecurrenceError
from timebell.rules.budget import Budget
from timebell.rules.localtime import TIMEZONE_VERSION, Adjusted, OnFold, OnGap, local_at, naive_utc, zone
from timebell.rules.recurrence import (
    Occurrence,
    check_series,
    describe,
    expand,
    read_series,
    unused_exdates,
)
from timebell.rules.rrule import Rule

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewLine:
    """One occurrence: the wall time that the recurrence means, what clocks show when it is due, and why they differ."""

    at: datetime
    local: datetime
    shown_local: datetime
    offset_seconds: int
    adjusted: Adjusted | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The next occurrences of a recurrence, what it is called in plain English, and what may surprise about it."""

    recurrence: str
    description: str
    timezone: str
    timezone_version: str
    start_local: datetime
    occurrences: tuple[PreviewLine, ...]
    has_more: bool
    warnings: tuple[str, ...]


def preview(
    recurrence: str,
    *,
    timezone: str,
    now: datetime,
    count: int,
    start_local: datetime | None = None,
    after: datetime | None = None,
    until_local: datetime | None = None,
    exdates: Sequence[datetime] = (),
    rdates: Sequence[datetime] = (),
    on_gap: OnGap = "shift",
    on_fold: OnFold = "first",
) -> Preview:
    """Look at any recurrence that is defined. One that no schedule may have is shown all the same, with a warning.

    Without a start it begins with the next whole minute, and where that falls is nothing to warn of.
    """
    start = start_local or _next_minute(now, timezone)
    series = read_series(
        recurrence,
        start_local=start,
        timezone=timezone,
        exdates=exdates,
        rdates=rdates,
        until_local=until_local,
        on_gap=on_gap,
        on_fold=on_fold,
    )
    found = expand(series, after=after, limit=count + 1, budget=Budget())
    warnings = []
    is_off = isinstance(series.recurrence, Rule) and found and found[0].local != series.start
    if start_local and after is None and is_off:
        warnings.append(f"the start, {series.start:%Y-%m-%d %H:%M:%S}, is not an occurrence itself")
    warnings += [f"the exdate {date:%Y-%m-%d %H:%M:%S} excludes nothing" for date in unused_exdates(series)]
    try:
        check_series(series, now=now)
    except RecurrenceError as error:
        warnings.append(f"a schedule with it would be refused: {error}")
    return Preview(
        recurrence=recurrence,
        description=describe(recurrence, start, timezone),
        timezone=timezone,
        timezone_version=TIMEZONE_VERSION,
        start_local=series.start,
        occurrences=tuple(preview_lines(found[:count], zone(timezone))),
        has_more=len(found) > count,
        warnings=tuple(warnings),
    )


def _next_minute(now: datetime, timezone: str) -> datetime:
    later = naive_utc(now, "now").replace(second=0, microsecond=0) + timedelta(minutes=1)
    return local_at(later, zone(timezone)).replace(fold=0)


def preview_lines(occurrences: Sequence[Occurrence], timezone: ZoneInfo) -> list[PreviewLine]:
    """Each occurrence with a note where clocks were changed under it, or between it and the one before."""
    lines: list[PreviewLine] = []
    for one in occurrences:
        instant = naive_utc(one.at, "at")
        shown = local_at(instant, timezone)
        offset = shown.replace(fold=0) - instant
        before = timedelta(seconds=lines[-1].offset_seconds) if lines else offset
        lines.append(
            PreviewLine(
                at=one.at,
                local=one.local,
                shown_local=shown,
                offset_seconds=offset // timedelta(seconds=1),
                adjusted=one.adjusted,
                note=_note(one, shown, offset - before),
            )
        )
    return lines


def _note(one: Occurrence, shown: datetime, change: timedelta) -> str | None:
    if one.adjusted == "gap" and shown.replace(fold=0) != one.local.replace(fold=0):
        return f"clocks leave out {_time(one.local)} that day, so it is {_length(shown - one.local)} later"
    if one.adjusted == "fold":
        return f"clocks show {_time(shown)} twice that day; this is the {('first', 'second')[shown.fold]}"
    if change == _NONE:
        return None
    way = "forward" if change > _NONE else "back"
    return f"clocks were put {way} by {_length(abs(change))} since the one before"


def _time(local: datetime) -> str:
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def _length(duration: timedelta) -> str:
    """Clocks are changed by hours and minutes; in old data by seconds too."""
    seconds = duration // timedelta(seconds=1)
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    return " ".join(f"{amount} {unit}" for amount, unit in parts if amount)
