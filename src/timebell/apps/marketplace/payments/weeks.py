"""The week of a project: which period a Wednesday pays for, until when it may be paid, and when a week begins. Pure.

Days are those of the project's clock, and instants come out of them in UTC. A week begins with the first instant of its
Monday and ends with that of the next, so that nothing lies between two weeks. Where clocks are put forward at
midnight a day begins later than 00:00.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

from timebell.rules.localtime import at_instant, aware, end_of_gap, local_at, zone

Run = Literal["payments", "warnings", "cutoffs"]

# The two weekdays of the cycle, where Monday is 0.
WEDNESDAY: Final = 2
THURSDAY: Final = 3
# Somebody whose weeks are paid for a shorter time than this has not paid for the next one.
PAID_AHEAD: Final = timedelta(days=7)
_WEEK: Final = timedelta(days=7)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly:
    """When something happens each week by the wall clock."""

    weekday: int
    at: time
    recurrence: str


RUNS: Final[dict[Run, Weekly]] = {
    "payments": Weekly(weekday=WEDNESDAY, at=time(10), recurrence="FREQ=WEEKLY;BYDAY=WE"),
    "warnings": Weekly(weekday=WEDNESDAY, at=time(14), recurrence="FREQ=WEEKLY;BYDAY=WE"),
    "cutoffs": Weekly(weekday=THURSDAY, at=time(0), recurrence="FREQ=WEEKLY;BYDAY=TH"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From one instant, inclusive, to another, exclusive."""

    start: datetime
    end: datetime

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end


def local_date(instant: datetime, timezone: str) -> date:
    """Which day it is there."""
    return local_at(instant.astimezone(UTC).replace(tzinfo=None), zone(timezone)).date()


def first_instant(day: date, timezone: str) -> datetime:
    """When a day begins: at 00:00, or when clocks are put forward over it, as that is done."""
    midnight, place = datetime.combine(day, time()), zone(timezone)
    mapped = at_instant(midnight, place)
    assert mapped.instant is not None, "days are far from the ends of time"
    return aware(end_of_gap(midnight, place) if mapped.adjusted == "gap" else mapped.instant)


def wall_instant(wall: datetime, timezone: str) -> datetime:
    """When clocks there show a wall time, as schedules have it."""
    instant = at_instant(wall, zone(timezone)).instant
    assert instant is not None, "days are far from the ends of time"
    return aware(instant)


def monday_of(day: date) -> date:
    return day - day.weekday() * _DAY


def sunday_of(day: date) -> date:
    """The last day of a day's week."""
    return monday_of(day) + 6 * _DAY


def week_of(day: date, timezone: str) -> Period:
    """The week that has this day. It is an hour longer or shorter where clocks are changed in it."""
    monday = monday_of(day)
    return Period(start=first_instant(monday, timezone), end=first_instant(monday + _WEEK, timezone))


def next_week(day: date, timezone: str) -> Period:
    """What is paid for in the week that has this day."""
    return week_of(day + _WEEK, timezone)


def cutoff_of(day: date, timezone: str) -> datetime:
    """Until when next week may be paid for, exclusive: the first instant of the Thursday in this day's week."""
    return first_instant(monday_of(day) + THURSDAY * _DAY, timezone)


def cutoff_before(period_start: datetime, timezone: str) -> datetime:
    """Until when the week that begins then may be paid for, exclusive."""
    return cutoff_of(local_date(period_start, timezone) - _DAY, timezone)


def funded_until_first(start_date: date, timezone: str) -> datetime:
    """Up to where a new booking counts as paid for: the end of the week in which it begins."""
    return week_of(start_date, timezone).end


def is_unpaid(funded_period_end: datetime, now: datetime) -> bool:
    """Whether next week is still to be paid for, asked on a Wednesday or at the cutoff."""
    return funded_period_end < now + PAID_AHEAD


def last_minute(period_end: datetime, timezone: str) -> datetime:
    """The end of a period as people read it: Sunday, 23:59 on the wall."""
    sunday = local_date(period_end, timezone) - _DAY
    return datetime.combine(sunday, time(23, 59))


def first_run(run: Run, day: date) -> datetime:
    """The wall time of the first run in the week that has this day."""
    weekly = RUNS[run]
    return datetime.combine(monday_of(day) + weekly.weekday * _DAY, weekly.at)
