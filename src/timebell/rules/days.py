"""Which days of a year, a month or a week a rule means, counted as ordinals since year 1.

The days of a period are constructed from the part that names the fewest of them, never by looking at each, and
then limited by the other parts, as the table in RFC 5545 section 3.3.10 has it. An ordinal outside the years 1
to 9999 can come of a week that reaches over the edge; it belongs to no date.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol

from timebell.rules.budget import Budget
from timebell.rules.rrule import Day, Frequency, Rule

YEAR_MAX = 9999
DAY_MAX = date.max.toordinal()

_MONTH_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EVERY_DAY = tuple(Day(weekday) for weekday in range(7))
_WORK_PER_LIMITED_DAY = 3
_WORK_PER_MONTH = 4


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def year_start(year: int) -> int:
    """The ordinal of the first of January, also of a year that has no date."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 + 1


def month_length(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month]


def week_one(year: int, week_start: int) -> int:
    """The ordinal of the first day of week 1, which is the first week with four days or more in the year."""
    fourth = year_start(year) + 3
    return fourth - (fourth - 1 - week_start) % 7


def week_year(day: int, week_start: int) -> int:
    """The year to which the week of a day belongs."""
    year = date.fromordinal(day).year
    if day < week_one(year, week_start):
        return year - 1
    return year + 1 if day >= week_one(year + 1, week_start) else year


class DayLimits:
    """The parts of a rule that rule days out."""

    def __init__(self, rule: Rule, budget: Budget) -> None:
        self.budget = budget
        self.week_start = rule.week_start
        self.months = rule.by_month
        self.by_week_no = frozenset(rule.by_week_no)
        self.by_year_day = frozenset(rule.by_year_day)
        self.by_month_day = frozenset(rule.by_month_day)
        self.by_day = frozenset(rule.by_day)
        # BYDAY counts within the month if there is one to speak of, or else within the year.
        self.counts_in_month = bool(rule.by_month) or rule.frequency is Frequency.MONTHLY

    def kept(self, days: Sequence[int]) -> list[int]:
        self.budget.spend(_WORK_PER_LIMITED_DAY * len(days))
        return [day for day in days if 1 <= day <= DAY_MAX and self.allow(day)]

    def allow(self, day: int) -> bool:
        """Whether no part rules the day out."""
        on = date.fromordinal(day)
        if self.months and on.month not in self.months:
            return False
        if self.by_month_day:
            from_end = on.day - month_length(on.year, on.month) - 1
            if on.day not in self.by_month_day and from_end not in self.by_month_day:
                return False
        if self.by_day and not self._list(day, on):
            return False
        if self.by_year_day:
            from_start, from_end = day - year_start(on.year) + 1, day - year_start(on.year + 1)
            if from_start not in self.by_year_day and from_end not in self.by_year_day:
                return False
        if self.by_week_no:
            year = week_year(day, self.week_start)
            first, following = week_one(year, self.week_start), week_one(year + 1, self.week_start)
            from_start, from_end = (day - first) // 7 + 1, (day - following) // 7
            if from_start not in self.by_week_no and from_end not in self.by_week_no:
                return False
        return True

    def _list(self, day: int, on: date) -> bool:
        weekday = (day - 1) % 7
        if self.counts_in_month:
            before, behind = on.day - 1, month_length(on.year, on.month) - on.day
        else:
            before, behind = day - year_start(on.year), year_start(on.year + 1) - 1 - day
        return (
            Day(weekday) in self.by_day
            or Day(weekday, before // 7 + 1) in self.by_day
            or Day(weekday, -(behind // 7) - 1) in self.by_day
        )


class Periods(Protocol):
    """Years, months or weeks in a row, each with a number."""

    def number(self, wall: datetime) -> int:
        """The period that a wall time lies in."""

    def first_day(self, number: int) -> int:
        """A day that is not later than the first of the period."""

    def days(self, number: int) -> list[int]:
        """The days that the rule means in the period, in order."""


def periods(rule: Rule, start: datetime, budget: Budget) -> Periods:
    """The periods of a rule. What it leaves out about its days is taken from its start."""
    if rule.frequency is Frequency.WEEKLY:
        return _Weeks(rule, start, budget)
    if rule.frequency is Frequency.MONTHLY:
        return _Months(rule, start, budget)
    return _WeekYears(rule, start, budget) if rule.by_week_no else _Years(rule, start, budget)


def _names_no_day(rule: Rule) -> bool:
    return not (rule.by_day or rule.by_month_day or rule.by_year_day)


def _limits(rule: Rule, budget: Budget, needed: bool) -> DayLimits | None:
    return DayLimits(rule, budget) if needed else None


class _Years:
    def __init__(self, rule: Rule, start: datetime, budget: Budget) -> None:
        is_open = _names_no_day(rule)
        self.rule = rule
        self.budget = budget
        self.months = rule.by_month or ((start.month,) if is_open else ())
        self.month_days = (start.day,) if is_open else rule.by_month_day
        named = bool(rule.by_year_day) + bool(rule.by_month_day) + bool(rule.by_day)
        self.limits = _limits(rule, budget, named > 1 or bool(rule.by_year_day and rule.by_month))

    def number(self, wall: datetime) -> int:
        return wall.year

    def first_day(self, number: int) -> int:
        return year_start(number)

    def days(self, number: int) -> list[int]:
        rule = self.rule
        if rule.by_year_day:
            found = _counted(rule.by_year_day, year_start(number), year_start(number + 1), self.budget)
        elif self.months:
            found = []
            for month in self.months:
                found += _of_month(number, month, self.month_days, rule.by_day, self.budget)
        else:
            found = _weekdays(rule.by_day, year_start(number), year_start(number + 1), self.budget)
        return self.limits.kept(found) if self.limits else found


class _WeekYears:
    """Years of whole weeks, which begin with week 1 and so up to three days before or after the first of January."""

    def __init__(self, rule: Rule, start: datetime, budget: Budget) -> None:
        self.rule = rule
        self.budget = budget
        self.weekdays = rule.by_day or ((Day(start.weekday()),) if _names_no_day(rule) else _EVERY_DAY)
        others = rule.by_month or rule.by_year_day or rule.by_month_day
        self.limits = _limits(rule, budget, bool(others))

    def number(self, wall: datetime) -> int:
        return week_year(wall.toordinal(), self.rule.week_start)

    def first_day(self, number: int) -> int:
        return week_one(number, self.rule.week_start)

    def days(self, number: int) -> list[int]:
        first, following = self.first_day(number), self.first_day(number + 1)
        found = []
        for week in _counted(self.rule.by_week_no, 0, (following - first) // 7, self.budget):
            begin = first + 7 * week
            found += _weekdays(self.weekdays, begin, begin + 7, self.budget)
        return self.limits.kept(found) if self.limits else found


class _Months:
    """Months, numbered by twelve times their year plus their place in it, which counts from 0.

    Without a start every day is meant that no part rules out.
    """

    def __init__(self, rule: Rule, start: datetime | None, budget: Budget) -> None:
        self.rule = rule
        self.budget = budget
        self.weekdays, self.month_days = rule.by_day, rule.by_month_day
        if start and _names_no_day(rule):
            if rule.by_week_no:
                self.weekdays = (Day(start.weekday()),)
            else:
                self.month_days = (start.day,)
        named = bool(rule.by_year_day) + bool(rule.by_month_day) + bool(rule.by_day)
        self.limits = _limits(rule, budget, named > 1 or bool(rule.by_week_no))

    def number(self, wall: datetime) -> int:
        return wall.year * 12 + wall.month - 1

    def first_day(self, number: int) -> int:
        return year_start(number // 12) + number % 12 * 28

    def days(self, number: int) -> list[int]:
        year, place = divmod(number, 12)
        if self.rule.by_month and place + 1 not in self.rule.by_month:
            return []
        if self.rule.by_year_day:
            found = _year_days_of_month(year, place + 1, self.rule.by_year_day, self.budget)
        else:
            found = _of_month(year, place + 1, self.month_days, self.weekdays, self.budget)
        return self.limits.kept(found) if self.limits else found


class _Weeks:
    """Weeks, numbered since year 1 by the day on which they begin."""

    def __init__(self, rule: Rule, start: datetime, budget: Budget) -> None:
        self.week_start = rule.week_start
        self.budget = budget
        self.weekdays = rule.by_day or ((Day(start.weekday()),) if _names_no_day(rule) else _EVERY_DAY)
        others = rule.by_month or rule.by_week_no or rule.by_year_day or rule.by_month_day
        self.limits = _limits(rule, budget, bool(others))

    def number(self, wall: datetime) -> int:
        return (wall.toordinal() - 1 - self.week_start) // 7

    def first_day(self, number: int) -> int:
        return 7 * number + 1 + self.week_start

    def days(self, number: int) -> list[int]:
        begin = self.first_day(number)
        found = _weekdays(self.weekdays, begin, begin + 7, self.budget)
        return self.limits.kept(found) if self.limits else found


class OpenDays:
    """The days that no part rules out in a rule which walks by days or by the clock, listed a month at a time."""

    def __init__(self, rule: Rule, last_day: int, budget: Budget) -> None:
        self.months = _Months(rule, None, budget)
        self.by_month = rule.by_month
        self.last_day = last_day
        self.budget = budget
        self.first = self.following = 0
        self.days: list[int] = []

    def first_from(self, day: int) -> int:
        """The first of them from a day on, or a day after the last where there is none."""
        while day <= self.last_day:
            if not self.first <= day < self.following:
                on = date.fromordinal(day)
                if self.by_month and on.month not in self.by_month:
                    day = self._next_listed_month(on)
                    continue
                self._list_month(on.year, on.month)
            place = bisect_left(self.days, day)
            if place < len(self.days):
                return self.days[place]
            day = self.following
        return day

    def _next_listed_month(self, on: date) -> int:
        self.budget.spend(1)
        later = [month for month in self.by_month if month > on.month]
        if later:
            return date(on.year, later[0], 1).toordinal()
        return date(on.year + 1, self.by_month[0], 1).toordinal() if on.year < YEAR_MAX else DAY_MAX + 1

    def _list_month(self, year: int, month: int) -> None:
        self.budget.spend(_WORK_PER_MONTH)
        self.first = date(year, month, 1).toordinal()
        self.following = self.first + month_length(year, month)
        self.days = self.months.days(year * 12 + month - 1)


def open_days(rule: Rule, last: datetime, budget: Budget) -> OpenDays | None:
    """The days on which a rule that walks by days or by the clock may be due; None where it may be on every day."""
    parts = (rule.by_month, rule.by_week_no, rule.by_year_day, rule.by_month_day, rule.by_day)
    return OpenDays(rule, last.toordinal(), budget) if any(parts) else None


def _of_month(
    year: int, month: int, month_days: tuple[int, ...], weekdays: tuple[Day, ...], budget: Budget
) -> list[int]:
    """The days of a month that one part names, or all of them."""
    first = date(year, month, 1).toordinal()
    following = first + month_length(year, month)
    if month_days:
        return _counted(month_days, first, following, budget)
    return _weekdays(weekdays, first, following, budget) if weekdays else list(range(first, following))


def _year_days_of_month(year: int, month: int, year_days: tuple[int, ...], budget: Budget) -> list[int]:
    """The days of a month that are listed by their number in the year."""
    first = date(year, month, 1).toordinal()
    following = first + month_length(year, month)
    in_year = _counted(year_days, year_start(year), year_start(year + 1), budget)
    return [day for day in in_year if first <= day < following]


def _counted(numbers: tuple[int, ...], first: int, following: int, budget: Budget) -> list[int]:
    """The places in a span that are counted from its start by positive and from its end by negative numbers."""
    budget.spend(len(numbers))
    places = {first + number - 1 if number > 0 else following + number for number in numbers}
    return sorted(place for place in places if first <= place < following)


def _weekdays(days: tuple[Day, ...], first: int, following: int, budget: Budget) -> list[int]:
    """The days of a span that BYDAY lists: all of a weekday, or the one with its number from the start or the end."""
    found: list[int] = []
    for weekday, ordinal in days:
        earliest = first + (weekday + 1 - first) % 7
        if not ordinal:
            found.extend(range(earliest, following, 7))
            continue
        if ordinal > 0:
            day = earliest + 7 * (ordinal - 1)
        else:
            day = following - 1 - (following - 2 - weekday) % 7 + 7 * (ordinal + 1)
        if first <= day < following:
            found.append(day)
    budget.spend(len(days) + len(found) // 4)
    return sorted(set(found)) if len(days) > 1 else found
