"""Next: how many times in a second one can ask when a recurrence is due next, whatever the age of its start.

Nothing here needs a database. Each question is about another instant and timezone than the one before, so that no
answer is merely remembered; the text of a recurrence is read once, as in a process that has many schedules with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, product
from typing import Any

from timebell.rules.recurrence import occurrences

RECURRENCES = (
    "FREQ=DAILY",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "FREQ=MONTHLY;BYMONTHDAY=15",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=YEARLY",
    "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
    "FREQ=HOURLY;INTERVAL=3",
    "FREQ=MINUTELY;INTERVAL=15",
    "every PT15M",
    "cron 30 9 * * 1-5",
)
STARTS = tuple(datetime(year, 1, 5, 9, 30) for year in (1970, 2000, 2025))
TIMEZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "UTC",
)

_FROM = datetime(2026, 1, 1, tzinfo=UTC)
_APART = timedelta(hours=8, minutes=47, seconds=13)
_INSTANTS = 1_009
_AT_ONCE = 200


async def following(*, seconds: int) -> dict[str, Any]:
    """Ask about each recurrence with each start for an equal share of the seconds."""
    share = seconds / (len(RECURRENCES) * len(STARTS))
    lines = [_measured(recurrence, start, share) for recurrence, start in product(RECURRENCES, STARTS)]
    return {
        "bench": "next",
        "seconds": seconds,
        "timezones": len(TIMEZONES),
        "recurrences": lines,
        "slowest_per_s": min(line["per_s"] for line in lines),
    }


def _measured(recurrence: str, start: datetime, seconds: float) -> dict[str, Any]:
    moments = _moments()
    _ask(recurrence, start, moments)
    asked = 0
    used = time.process_time()
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        asked += _ask(recurrence, start, moments)
    return {
        "recurrence": recurrence,
        "start_local": start,
        "per_s": round(asked / took),
        "us": round((time.process_time() - used) / asked * 1e6, 1),
    }


def _ask(recurrence: str, start: datetime, moments: Iterator[tuple[datetime, str]]) -> int:
    for after, timezone in islice(moments, _AT_ONCE):
        found = occurrences(recurrence, start_local=start, timezone=timezone, after=after, limit=1)
        assert found, f"{recurrence} has ended"
    return _AT_ONCE


def _moments() -> Iterator[tuple[datetime, str]]:
    """The numbers of instants and of timezones have no common divisor, so every pair comes up."""
    instants = [_FROM + number * _APART for number in range(_INSTANTS)]
    return zip(cycle(instants), cycle(TIMEZONES), strict=False)
