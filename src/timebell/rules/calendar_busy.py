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
    """Spans that neither overlap nor touch, the earliest first. Up to `until` none is missing but what `skipped_count`
    entries would have come to, which were too much work; there may be more after it than are kept."""

    spans: Sequence[Span]
    until: datetime
    skipped_count: int = 0


def busy_time(entries: Iterable[BusyEntry], *, timezone: str, after: datetime, before: datetime) -> BusyTime:
    """When the owner of these entries, who lives in a timezone, is busy between two instants."""
    work_left = CALENDAR_WORK_MAX
    spans: list[Span] = []
    until = before
    skipped_count = 0
    for entry in entries:
        budget = Budget(limit=min(WORK_MAX, work_left))
        starts: list[datetime] = []
        try:
            starts = _starts(entry, timezone, after, before, budget)
        except TimebellError:
            skipped_count += 1
        if len(starts) == SPANS_MAX:
            until = min(until, aware(starts[-1]))
        spans += _spans(entry, timezone, starts, after, before)
        work_left = max(0, work_left - budget.used - _ENTRY_WORK - WORK_PER_OCCURRENCE * len(starts))
    joined = _joined(spans)
    if len(joined) > SPANS_MAX:
        until = min(until, joined[SPANS_MAX][0])
    return BusyTime(spans=joined[:SPANS_MAX], until=until, skipped_count=skipped_count)


def _starts(
    entry: BusyEntry, timezone: str, after: datetime, before: datetime, budget: Budget
) -> list[datetime]:
    """When an entry begins that may lie between the instants: the first so often, if there is no end to it."""
    name = entry.timezone or timezone
    if entry.recurrence is None:
        at = at_instant(entry.start_local, zone(name)).instant
        return [] if at is None else [at]
    series = read_series(
        entry.recurrence,
        start_local=entry.start_local,
        timezone=name,
        rdates=entry.rdates,
        exdates=entry.exdates,
    )
    # A day by the calendar may be longer than 24 hours.
    begin = after - timedelta(days=entry.days + 2, seconds=entry.seconds)
    found = expand(series, after=begin, before=before, limit=SPANS_MAX, budget=budget)
    return [naive_utc(one.at, "at") for one in found]


def _spans(
    entry: BusyEntry, timezone: str, starts: Iterable[datetime], after: datetime, before: datetime
) -> Iterator[Span]:
    """What of an entry lies between the instants."""
    for start in starts:
        # What begins too late may end when no calendar can tell, so it is not asked.
        if aware(start) < before and (end := aware(_end(start, entry, entry.timezone or timezone))) > after:
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
