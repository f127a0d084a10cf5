"""The wall times that a rule means, from any wall time on, at a cost that does not depend on how old its start is.

A rule is expanded in wall time only; timezones come later. The period to begin with is computed, not walked to.

Every step of work is paid from a budget. A rule that asks for more than that, which in practice is one that
never matches, ends in a named error instead of a busy processor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from math import gcd
from types import MappingProxyType

from timebell.rules.budget import Budget
from timebell.rules.days import open_days, periods
from timebell.rules.localtime import LAST_WALL
from timebell.rules.rrule import Frequency, Rule

DAY_SECONDS = 86_400
_WORK_PER_PERIOD = 5
_WORK_PER_STEP = 3

UNIT_SECONDS = {
    Frequency.DAILY: DAY_SECONDS,
    Frequency.HOURLY: 3600,
    Frequency.MINUTELY: 60,
    Frequency.SECONDLY: 1,
}


def walls(
    rule: Rule, start: datetime, budget: Budget, begin: datetime | None = None, last: datetime | None = None
) -> Iterator[datetime]:
    """The wall times of a rule in order, none before its start or `begin`, none after `last`.

    COUNT and UNTIL are not looked at: both become a `last` wall time for whoever asks.
    """
    begin = start if begin is None or begin < start else begin
    walk = _clock_walls if rule.frequency in UNIT_SECONDS else _calendar_walls
    return walk(rule, start, begin, LAST_WALL if last is None else last, budget)


def _calendar_walls(
    rule: Rule, start: datetime, begin: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    """Walk years, months or weeks. All of one is the set from which BYSETPOS chooses, also before the start."""
    calendar = periods(rule, start, budget)
    interval, chosen = rule.interval, rule.by_set_pos
    origin = calendar.number(start)
    number = origin + (calendar.number(begin) - origin) // interval * interval
    times = _times(
        rule.by_hour or (start.hour,), rule.by_minute or (start.minute,), rule.by_second or (start.second,)
    )
    begin_day, last_day = begin.toordinal(), last.toordinal()
    while calendar.first_day(number) <= last_day:
        budget.spend(_WORK_PER_PERIOD + len(chosen))
        days = calendar.days(number)
        moments = _at_positions(chosen, days, times) if chosen else _all_from(begin, days, times)
        for day, seconds in moments:
            if day > last_day:
                return
            if day >= begin_day:
                wall = datetime.fromordinal(day) + timedelta(seconds=seconds)
                if wall > last:
                    return
                if wall >= begin:
                    yield wall
        number += interval


def _all_from(begin: datetime, days: list[int], times: list[int]) -> Iterator[tuple[int, int]]:
    """All times of all days, without those of the first day that have passed, of which there may be very many."""
    begin_day = begin.toordinal()
    for day in days:
        if day == begin_day:
            first = bisect_left(times, begin.hour * 3600 + begin.minute * 60 + begin.second)
            for seconds in islice(times, first, None):
                yield day, seconds
        elif day > begin_day:
            for seconds in times:
                yield day, seconds


def _clock_walls(
    rule: Rule, start: datetime, begin: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    """Walk days, hours, minutes or seconds by their number since year 1 and leap over those that are ruled out."""
    offsets = _offsets(rule, start)
    if not offsets or not _can_meet(rule, start):
        return
    interval, unit, calendar = rule.interval, UNIT_SECONDS[rule.frequency], open_days(rule, last, budget)
    per_day, next_allowed = DAY_SECONDS // unit, _NEXT_ALLOWED[rule.frequency]
    origin, final = _unit_number(start, unit), _unit_number(last, unit)
    number = origin + (_unit_number(begin, unit) - origin + interval - 1) // interval * interval
    begin_second = _unit_number(begin, 1)
    open_day = 0
    while number <= final:
        budget.spend(_WORK_PER_STEP)
        day, within = divmod(number, per_day)
        if calendar and day != open_day:
            open_day = calendar.first_from(day)
        wanted = open_day * per_day if open_day > day else day * per_day + next_allowed(rule, within)
        if wanted != number:
            number += (wanted - number + interval - 1) // interval * interval
            continue
        midnight = datetime.fromordinal(day)
        passed = bisect_left(offsets, begin_second - number * unit)
        for offset in islice(offsets, passed, None):
            wall = midnight + timedelta(seconds=within * unit + offset)
            if wall > last:
                return
            if wall >= begin:
                yield wall
        number += interval


def _unit_number(wall: datetime, unit: int) -> int:
    """How many whole units lie between the day before year 1 and a wall time."""
    return (wall.toordinal() * DAY_SECONDS + wall.hour * 3600 + wall.minute * 60 + wall.second) // unit


def _times(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> list[int]:
    """Every combination, as seconds of the day and in order."""
    return [hour * 3600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds]


def _positions(wanted: Sequence[int], count: int) -> list[int]:
    """Where BYSETPOS points in a set of so many, in order."""
    places = {position - 1 if position > 0 else count + position for position in wanted}
    return sorted(place for place in places if 0 <= place < count)


def _at_positions(wanted: Sequence[int], days: list[int], times: list[int]) -> Iterator[tuple[int, int]]:
    """What BYSETPOS chooses from all times of all days, which are never listed one by one."""
    for place in _positions(wanted, len(days) * len(times)):
        yield days[place // len(times)], times[place % len(times)]


def _offsets(rule: Rule, start: datetime) -> list[int]:
    """The seconds at which a rule is due within each of its days, hours, minutes or seconds, BYSETPOS applied."""
    minutes, seconds = rule.by_minute or (start.minute,), rule.by_second or (start.second,)
    if rule.frequency is Frequency.DAILY:
        offsets = _times(rule.by_hour or (start.hour,), minutes, seconds)
    elif rule.frequency is Frequency.HOURLY:
        offsets = _times((0,), minutes, seconds)
    elif rule.frequency is Frequency.MINUTELY:
        offsets = list(seconds)
    else:
        offsets = [0]
    if rule.by_set_pos:
        return [offsets[place] for place in _positions(rule.by_set_pos, len(offsets))]
    return offsets


def _can_meet(rule: Rule, start: datetime) -> bool:
    """Whether steps of the interval ever land on a listed value: from 09:00:00, 60 seconds never meet second 30."""
    if rule.frequency is Frequency.HOURLY:
        values, origin, cycle = rule.by_hour, start.hour, 24
    elif rule.frequency is Frequency.MINUTELY:
        values, origin, cycle = rule.by_minute, start.minute, 60
    else:
        values, origin, cycle = rule.by_second, start.second, 60
    step = gcd(rule.interval, cycle)
    return (
        rule.frequency is Frequency.DAILY
        or not values
        or any((value - origin) % step == 0 for value in values)
    )


def _listed(values: tuple[int, ...], least: int, cycle: int) -> int:
    """The first listed value that is not less than `least`; the end of the cycle where there is none."""
    if not values or least in values:
        return least
    place = bisect_left(values, least)
    return values[place] if place < len(values) else cycle


def _next_hour(rule: Rule, within: int) -> int:
    return _listed(rule.by_hour, within, 24)


def _next_minute(rule: Rule, within: int) -> int:
    hour, minute = divmod(within, 60)
    if (allowed := _listed(rule.by_hour, hour, 24)) != hour:
        return allowed * 60
    return hour * 60 + _listed(rule.by_minute, minute, 60)


def _next_second(rule: Rule, within: int) -> int:
    minutes, second = divmod(within, 60)
    if (allowed := _next_minute(rule, minutes)) != minutes:
        return allowed * 60
    return minutes * 60 + _listed(rule.by_second, second, 60)


# The first unit of a day, this one or a later one, that the parts for the time of day do not rule out. It may lie in
# the next day, and a smaller part may still rule it out; the walk looks again wherever it lands.
_NEXT_ALLOWED: Mapping[Frequency, Callable[[Rule, int], int]] = MappingProxyType(
    {
        Frequency.DAILY: lambda rule, within: within,
        Frequency.HOURLY: _next_hour,
        Frequency.MINUTELY: _next_minute,
        Frequency.SECONDLY: _next_second,
    }
)
