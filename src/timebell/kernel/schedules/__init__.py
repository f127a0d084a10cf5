"""Schedules: recurrences and single instants by the wall clock of a place, their occurrences and what those owe."""

from timebell.kernel.schedules.models import (
    CATCH_UP_MAX,
    DATES_MAX,
    RECURRENCE_CHARS_MAX,
    Occurrence,
    Schedule,
    ScheduleChange,
    ScheduleState,
)
from timebell.kernel.schedules.moving import ScheduleMover
from timebell.kernel.schedules.planning import OVER, Planning, Writing
from timebell.kernel.schedules.rows import override_of, schedule_of
from timebell.kernel.schedules.timezones import check_timezones, fingerprint

__all__ = [
    "CATCH_UP_MAX",
    "DATES_MAX",
    "OVER",
    "RECURRENCE_CHARS_MAX",
    "Occurrence",
    "Planning",
    "Schedule",
    "ScheduleChange",
    "ScheduleMover",
    "ScheduleState",
    "Writing",
    "check_timezones",
    "fingerprint",
    "override_of",
    "schedule_of",
]
