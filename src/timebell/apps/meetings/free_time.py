"""When people are free: pure arithmetic with spans of time.

Hours are written in wall time, each in a timezone of their own, and a person is available when the clocks there show
one of them; all else is done with instants. Inside, a span is a pair of instants in UTC without tzinfo, as the rules
have them: its begin belongs to it, its end does not. The spans of a list are in order and do not touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from timebell.apps.meetings.models import Slot
from timebell.errors import InvalidInput
from timebell.rules.localtime import FIRST_WALL, aware, naive_utc, shown_between, zone

Span = tuple[datetime, datetime]

MIDNIGHT: Final = timedelta(0)
DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(weeks=1)
_WEEKDAYS: Final = 7
# Nobody proposes to meet at 10:07 because somebody else is done then.
_GRID: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Hours of a weekday, on every one of these or only on the first, from a date to another, both included.

    `day_of_week` counts as the source does, from 0 for Sunday. `start` and `end` are that long after midnight, so that
    what goes on to the end of a day ends at 24:00.
    """

    day_of_week: int
    start: timedelta
    end: timedelta
    timezone: str
    is_recurring: bool = True
    valid_from: date | None = None
    valid_until: date | None = None

    def days(self, first: date, last: date) -> Iterator[date]:
        """The dates within two others that these hours are on."""
        since = self.valid_from or first
        day = max(since, first) if self.is_recurring else since
        day += timedelta(days=(self.day_of_week - day.isoweekday()) % _WEEKDAYS)
        until = min(last, self.valid_until or last, last if self.is_recurring else day)
        while day <= until:
            if day >= first:
                yield day
            day += _WEEK


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Hours in which a person may be met."""

    id: UUID
    user_id: UUID
    hours: Hours
    revision: int
    created_at: datetime
    updated_at: datetime


def clock_of(after_midnight: timedelta) -> str:
    """As clocks show it, and 24:00 at the end of a day; with seconds only where there are any."""
    minutes, seconds = divmod(int(after_midnight.total_seconds()), 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def check_hours(hours: Hours) -> None:
    """Refuse hours that would never be, by the name of the field that is wrong."""
    if not 0 <= hours.day_of_week < _WEEKDAYS:
        raise InvalidInput("must be 0 (Sunday) to 6 (Saturday)", field="day_of_week")
    if not hours.start < hours.end:
        raise InvalidInput(
            "must be after start_time; for hours over midnight make two blocks, one that ends at 24:00 and one on "
            "the next day that starts at 00:00",
            field="end_time",
        )
    zone(hours.timezone)
    since, until = hours.valid_from, hours.valid_until
    if since is not None and until is not None and until < since:
        raise InvalidInput("must not be before valid_from", field="valid_until")
    if hours.is_recurring:
        return
    if since is None:
        raise InvalidInput(
            "is needed where is_recurring is false; give the date, or one in the week before it",
            field="valid_from",
        )
    if until is not None and not any(hours.days(since, until)):
        raise InvalidInput(
            "leaves no such weekday since valid_from; give a later date or none", field="valid_until"
        )


def free_slots(
    people: Iterable[Sequence[Hours]],
    busy: Iterable[Slot],
    window: Slot,
    *,
    duration: timedelta,
    interval: timedelta,
    limit: int,
) -> list[Slot]:
    """The first slots within a window at which everybody is available and nobody is busy."""
    whole = _span(window)
    free = [whole]
    for hours in people:
        free = in_common(free, available(hours, whole))
    free = without(free, joined(_span(slot) for slot in busy))
    return slots_in(free, duration=duration, interval=interval, limit=limit)


def available(hours: Sequence[Hours], window: Span) -> list[Span]:
    """When a person with these hours may be met; without any at all it is always."""
    if not hours:
        return [window]
    # No timezone is further than a day from UTC.
    first, last = window[0].date() - DAY, window[1].date() + DAY
    spans = joined(span for one in hours for span in _spans_of(one, first, last))
    return in_common(spans, [window])


@lru_cache(maxsize=10_000)
def _spans_of(hours: Hours, first: date, last: date) -> tuple[Span, ...]:
    """They are remembered, since who looks for a time to meet looks again, and everybody looks at the same weeks."""
    timezone = zone(hours.timezone)
    midnights = [datetime.combine(day, time()) for day in hours.days(first, last)]
    return tuple(
        span
        for midnight in midnights
        for span in shown_between(midnight + hours.start, midnight + hours.end, timezone)
    )


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans that are in order and do not touch."""
    ordered: list[Span] = []
    for begin, end in sorted(spans):
        if ordered and begin <= ordered[-1][1]:
            if end > ordered[-1][1]:
                ordered[-1] = (ordered[-1][0], end)
        else:
            ordered.append((begin, end))
    return ordered


def in_common(ours: Sequence[Span], theirs: Sequence[Span]) -> list[Span]:
    """The time that is in both."""
    both: list[Span] = []
    mine, other = 0, 0
    while mine < len(ours) and other < len(theirs):
        begin = max(ours[mine][0], theirs[other][0])
        end = min(ours[mine][1], theirs[other][1])
        if begin < end:
            both.append((begin, end))
        if ours[mine][1] == end:
            mine += 1
        else:
            other += 1
    return both


def without(free: Sequence[Span], busy: Sequence[Span]) -> list[Span]:
    """The time of the first that is not in the second."""
    left: list[Span] = []
    place = 0
    for begin, end in free:
        while place < len(busy) and busy[place][1] <= begin:
            place += 1
        at = place
        while at < len(busy) and busy[at][0] < end:
            if begin < busy[at][0]:
                left.append((begin, busy[at][0]))
            begin = busy[at][1]
            at += 1
        if begin < end:
            left.append((begin, end))
    return left


def slots_in(free: Iterable[Span], *, duration: timedelta, interval: timedelta, limit: int) -> list[Slot]:
    """Slots that fit in, one after each interval. They begin at round times, but where one fits only exactly."""
    slots: list[Slot] = []
    for begin, end in free:
        start = _rounded(begin)
        if end - start < duration:
            start = begin
        while end - start >= duration:
            if len(slots) == limit:
                return slots
            slots.append(Slot(aware(start), aware(start + duration)))
            start += interval
    return slots


def _rounded(instant: datetime) -> datetime:
    over = (instant - FIRST_WALL) % _GRID
    return instant + (_GRID - over) if over else instant


def _span(slot: Slot) -> Span:
    return naive_utc(slot.start, "start"), naive_utc(slot.end, "end")
