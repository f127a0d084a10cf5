"""From the entries of a calendar to the spans of time in which its owner is busy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from timebell.errors import TimebellError
from timebell.rules.budget import WORK_MAX, WORK_PER_OCCURRENCE, Budget
from timebell.rules.ics_reading import BusyEntry
from timebell.rules.localtime import at_instant, aware, local_at, naive_utc, zone
from timebell.rules.recurrence import expand, read_series

# About a second for all entries of a calendar together: as much as a thousand take that recur each week.
CALENDAR_WORK_MAX: Final = 2_000_000
SPANS_MAX: Final = 10_000
# What one entry costs that does not recur; reading it and reading a rule are of this order.
_ENTRY_WORK: Final = 100

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyTime:
    """Spans that neither overlap nor touch, the earliest first. `skipped_count` entries were too much work, or have a
    rule that nobody can read; `is_cut`: there would have been more spans than are kept."""

    spans: Sequence[Span]
    skipped_count: int = 0
    is_cut: bool = False


def busy_time(entries: Iterable[BusyEntry], *, timezone: str, after: datetime, before: datetime) -> BusyTime:
    """When the owner of these entries, who lives in a timezone, is busy between two instants."""
    work_left = CALENDAR_WORK_MAX
    spans: list[Span] = []
    skipped_count = 0
    for entry in entries:
        budget = Budget(limit=min(WORK_MAX, work_left))
        found: list[Span] = []
        try:
            found += _spans(entry, timezone, after, before, budget)
        except TimebellError:
            skipped_count += 1
        spans += found
        work_left = max(0, work_left - budget.used - _ENTRY_WORK - WORK_PER_OCCURRENCE * len(found))
    joined = _joined(spans)
    return BusyTime(spans=joined[:SPANS_MAX], skipped_count=skipped_count, is_cut=len(joined) > SPANS_MAX)


def _spans(
    entry: BusyEntry, timezone: str, after: datetime, before: datetime, budget: Budget
) -> Iterator[Span]:
    """What of an entry lies between the instants."""
    name = entry.timezone or timezone
    length = timedelta(days=entry.days, seconds=entry.seconds)
    # A day by the calendar may be longer than 24 hours.
    begin = after - length - timedelta(days=2)
    if entry.recurrence is None:
        starts = [at] if (at := at_instant(entry.start_local, zone(name)).instant) is not None else []
    else:
        series = read_series(
            entry.recurrence,
            start_local=entry.start_local,
            timezone=name,
            rdates=entry.rdates,
            exdates=entry.exdates,
        )
        found = expand(series, after=begin, before=before, limit=SPANS_MAX, budget=budget)
        starts = [naive_utc(one.at, "at") for one in found]
    for start in starts:
        end = aware(_end(start, entry, name))
        if end > after and aware(start) < before:
            yield max(aware(start), after), min(end, before)


def _end(start: datetime, entry: BusyEntry, timezone: str) -> datetime:
    if entry.days == 0:
        return start + timedelta(seconds=entry.seconds)
    there = zone(timezone)
    local = local_at(start, there).replace(fold=0) + timedelta(days=entry.days)
    return at_instant(local, there).instant or start + timedelta(days=entry.days)


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
