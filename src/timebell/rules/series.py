"""A recurrence in its timezone: wall times become instants, in order, each once, as far as anybody asks.

RFC 5545 makes the occurrences a set of instants. Two wall times may share one where clocks are put forward, and
the later of two wall times may then be the earlier instant, so what falls into a gap is held back until the wall
clock is past what it could collide with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import merge
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from timebell.errors import RecurrenceError
from timebell.rules.budget import WORK_MAX, Budget
from timebell.rules.cron import Cron, cron_instants, cron_walls
from timebell.rules.every import Every, elapsed
from timebell.rules.expansion import DAY_SECONDS, UNIT_SECONDS, walls
from timebell.rules.localtime import (
    FIRST_WALL,
    LAST_WALL,
    Adjusted,
    Mapped,
    OnFold,
    OnGap,
    at_instant,
    end_of_gap,
    local_at,
    offset_at,
    offsets_near,
)
from timebell.rules.rrule import Frequency, Rule

# What a gap took away and what follows it can change places for as long as the gap is, which is a day at most.
_GAP_IS_PAST = timedelta(days=2)
_SECOND = timedelta(seconds=1)
_WORK_PER_FOUND = 6
# cronsim reads its expression anew each time, and looks at every day of every month that it names.
_WORK_PER_CRON = 50
_DAYS_PER_WORK = 8
# Counting is done once and remembered, so it may cost more: each occurrence earns what it takes to find a frequent one.
_WORK_PER_COUNTED = 3
_EARNED_PER_COUNTED = 6
_COUNTED_MAX = 10_000


class Found(NamedTuple):
    """An occurrence before it is told to anybody. Its instant is in UTC; without a timezone it is the wall time."""

    instant: datetime
    local: datetime
    adjusted: Adjusted | None


def by_instant(found: Found) -> tuple[datetime, bool]:
    """The order of a series. Of two at one instant the one that the clocks did not move comes first."""
    return found.instant, found.adjusted is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A recurrence with everything that decides which occurrences it has.

    `text`, `exdates` and `rdates` are as they were given. What the dates come to is `excluded`, which are instants, and
    `added`, which are in order.
    """

    text: str
    recurrence: Rule | Every | Cron
    start: datetime
    timezone: ZoneInfo | None
    until: datetime | None = None
    on_gap: OnGap = "shift"
    on_fold: OnFold = "first"
    exdates: tuple[datetime, ...] = ()
    rdates: tuple[datetime, ...] = ()
    excluded: frozenset[datetime] = frozenset()
    added: tuple[Found, ...] = ()

    def mapped(self, local: datetime) -> Mapped:
        if self.timezone is None:
            return Mapped(local, None)
        return at_instant(local, self.timezone, self.on_gap, self.on_fold)

    def found(self, after: datetime | None, before: datetime | None, budget: Budget) -> Iterator[Found]:
        """The occurrences in order, after one instant and before another."""
        if isinstance(self.recurrence, Rule):
            found = _of_rule(self, self.recurrence, after, before, budget)
        elif isinstance(self.recurrence, Every):
            found = _of_every(self, self.recurrence, after, budget)
        else:
            found = _of_cron(self, self.recurrence, after, budget)
        for one in self._with_added(found) if self.added else found:
            if before is not None and one.instant >= before:
                return
            if (after is None or one.instant > after) and one.instant not in self.excluded:
                yield one

    def gives(self, instant: datetime, budget: Budget) -> bool:
        """Whether the recurrence itself is due at an instant, whatever is excluded or added.

        Asked of a rule, it looks at the wall times that become the instant and at none beside them.
        """
        if isinstance(self.recurrence, Rule):
            return _rule_gives(self, self.recurrence, instant, budget)
        bare = replace(self, excluded=frozenset(), added=())
        after = max(instant, FIRST_WALL + _SECOND) - _SECOND
        before = min(instant, LAST_WALL - _SECOND) + _SECOND
        return next(bare.found(after, before, budget), None) is not None

    def _with_added(self, found: Iterator[Found]) -> Iterator[Found]:
        """Single dates among the others; one that is there already adds nothing."""
        latest = None
        for one in merge(found, self.added, key=by_instant):
            if one.instant != latest:
                latest = one.instant
                yield one


def _of_rule(
    series: Series, rule: Rule, after: datetime | None, before: datetime | None, budget: Budget
) -> Iterator[Found]:
    begin, last = _wall_window(series, after, before)
    until = _until_instant(series, rule)
    if until:
        last = _earlier(last, _wall_window(series, None, until)[1])
    for one in _ordered(series, _rule_walls(series, rule, begin, last, budget), budget):
        if until and one.instant > until:
            return
        yield one


def _rule_gives(series: Series, rule: Rule, instant: datetime, budget: Budget) -> bool:
    until = _until_instant(series, rule)
    if until and instant > until:
        return False
    for local in _walls_near(series, instant):
        budget.spend(_WORK_PER_FOUND)
        if series.mapped(local).instant == instant and any(_rule_walls(series, rule, local, local, budget)):
            return True
    return False


def _walls_near(series: Series, instant: datetime) -> set[datetime]:
    """The wall times that can become an instant: what the clocks show then, and what a gap may have moved there."""
    if series.timezone is None:
        return {instant}
    least, greatest = offsets_near(instant, series.timezone)
    if least == greatest:
        return {_moved(instant, least)}
    offsets = (least, offset_at(instant, series.timezone), greatest)
    return {_moved(instant, offset) for offset in offsets}


def _until_instant(series: Series, rule: Rule) -> datetime | None:
    """The instant of an UNTIL in UTC. Without a timezone it is read on the wall, as the other forms are."""
    return rule.until.at if rule.until and rule.until.form == "utc" and series.timezone else None


def _rule_walls(
    series: Series, rule: Rule, begin: datetime | None, last: datetime | None, budget: Budget
) -> Iterator[datetime]:
    """The wall times of a rule between two, as far as its ends on the wall allow."""
    last = _earlier(last, series.until)
    if rule.until and not _until_instant(series, rule):
        last = _earlier(last, rule.until.at)
    if rule.count and begin and begin > series.start:
        last = _earlier(last, last_counted(rule, series.start))
        return walls(rule, series.start, budget, begin, last)
    return islice(walls(rule, series.start, budget, begin, last), rule.count)


def _wall_window(
    series: Series, after: datetime | None, before: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """The least and the greatest wall time that can lie between two instants."""
    begin, last = after, before
    if series.timezone is not None:
        if after is not None:
            begin = _moved(after, offsets_near(after, series.timezone)[0])
        if before is not None:
            last = _moved(before, offsets_near(before, series.timezone)[1])
    return begin, last


def _moved(instant: datetime, offset: timedelta) -> datetime:
    try:
        return instant + offset
    except OverflowError:
        return LAST_WALL if offset > timedelta(0) else FIRST_WALL


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)


def _ordered(series: Series, found: Iterable[datetime], budget: Budget) -> Iterator[Found]:
    """Map wall times, which come in order, to instants in order, each once."""
    held: deque[Found] = deque()
    for local in found:
        budget.spend(_WORK_PER_FOUND)
        instant, adjusted = series.mapped(local)
        if instant is None:
            continue
        if adjusted == "gap":
            while held and local - held[0].local > _GAP_IS_PAST:
                yield held.popleft()
            held.append(Found(instant, local, adjusted))
            continue
        while held and held[0].instant <= instant:
            early = held.popleft()
            if early.instant < instant:
                yield early
        yield Found(instant, local, adjusted)
    yield from held


@lru_cache(maxsize=4096)
def last_counted(rule: Rule, start: datetime) -> datetime | None:
    """The wall time of the last occurrence that COUNT allows, or None where the calendar ends before the first."""
    assert rule.count is not None
    parts = (rule.by_month, rule.by_week_no, rule.by_year_day, rule.by_month_day, rule.by_day)
    times = (rule.by_hour, rule.by_minute, rule.by_second, rule.by_set_pos)
    unit = 7 * DAY_SECONDS if rule.frequency is Frequency.WEEKLY else UNIT_SECONDS.get(rule.frequency)
    if unit and not any((*parts, *times)):
        try:
            return start + timedelta(seconds=unit * rule.interval * (rule.count - 1))
        except OverflowError:
            return LAST_WALL
    budget = Budget(limit=WORK_MAX + _EARNED_PER_COUNTED * min(rule.count, _COUNTED_MAX))
    last = None
    try:
        for wall in islice(walls(rule, start, budget), rule.count):
            budget.spend(_WORK_PER_COUNTED)
            last = wall
    except RecurrenceError:
        raise RecurrenceError(
            part="COUNT",
            reason=f"counting to {rule.count} is too much work",
            remedy="use UNTIL, or a lower COUNT",
        ) from None
    return last


def _anchor(series: Series, timezone: ZoneInfo) -> datetime:
    """The instant of the start. In a gap it is always shifted, since there must be one to count from."""
    instant = at_instant(series.start, timezone, "shift", series.on_fold).instant
    if instant is None:
        raise RecurrenceError(
            part="start_local",
            reason=f"{series.start.isoformat()} is outside the years 1 to 9999 in UTC",
            remedy="choose another start",
        )
    return instant


def _of_every(series: Series, every: Every, after: datetime | None, budget: Budget) -> Iterator[Found]:
    timezone = series.timezone
    anchor = _anchor(series, timezone) if timezone else series.start
    for instant in elapsed(every, anchor, after):
        budget.spend(_WORK_PER_FOUND)
        try:
            local = local_at(instant, timezone) if timezone else instant
        except OverflowError:
            return
        if series.until and local > series.until:
            return
        yield Found(instant, local, None)


def _of_cron(series: Series, cron: Cron, after: datetime | None, budget: Budget) -> Iterator[Found]:
    budget.spend(_WORK_PER_CRON)
    if series.timezone is not None and not cron.names_times:
        yield from _of_cron_in_elapsed_time(series, cron, after, series.timezone, budget)
        return
    begin = max(series.start, _wall_window(series, after, None)[0] or series.start)
    latest, previous = None, begin
    for local in cron_walls(cron, begin):
        budget.spend(_WORK_PER_FOUND + (local - previous).days // _DAYS_PER_WORK)
        previous = local
        if series.until and local > series.until:
            return
        instant, adjusted = series.mapped(local)
        if instant is not None and adjusted == "gap" and series.timezone is not None:
            instant = end_of_gap(local, series.timezone)
        if instant is not None and instant != latest:
            latest = instant
            yield Found(instant, local, adjusted)


def _of_cron_in_elapsed_time(
    series: Series, cron: Cron, after: datetime | None, timezone: ZoneInfo, budget: Budget
) -> Iterator[Found]:
    begin = _anchor(series, timezone)
    begin = max(begin, after or begin)
    for instant in cron_instants(cron, begin, timezone):
        budget.spend(_WORK_PER_FOUND + (instant - begin).days // _DAYS_PER_WORK)
        begin = instant
        local = local_at(instant, timezone)
        if series.until and local > series.until:
            return
        yield Found(instant, local, None)
