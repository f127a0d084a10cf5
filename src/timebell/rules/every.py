"""A recurrence in elapsed time: `every PT15M` is an anchor and whole multiples of one duration after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from timebell.errors import RecurrenceError
from timebell.rules.rrule import shown

_TIME = r"(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?"
_DURATION = re.compile(rf"P(?=[0-9T])(?:([0-9]{{1,9}})W|(?:([0-9]{{1,9}})D)?{_TIME})")
_CALENDAR = re.compile(r"P[0-9]+[YM].*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """A recurrence in elapsed time, which no change of clocks touches. A day is 24 hours here."""

    duration: timedelta


def read_duration(text: str) -> timedelta | None:
    """The fixed time that an ISO 8601 duration stands for, or None where it is none: months and years differ."""
    match = _DURATION.fullmatch(text.strip(" ").upper())
    if not match:
        return None
    weeks, days, hours, minutes, seconds = (int(digits or 0) for digits in match.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return timedelta.max


def is_calendar_duration(text: str) -> bool:
    """Whether it is a duration whose length only a calendar knows."""
    return _CALENDAR.fullmatch(text.strip(" ").upper()) is not None


@lru_cache(maxsize=1024)
def parse_every(text: str) -> Every:
    """Read the ISO 8601 duration that stands after `every`."""
    duration = read_duration(text)
    if duration is None:
        is_calendar = is_calendar_duration(text)
        raise RecurrenceError(
            part="every",
            reason=f"{shown(text)} is "
            + ("no fixed time: months and years differ" if is_calendar else "no duration"),
            remedy="use FREQ=MONTHLY or YEARLY" if is_calendar else "write PT15M, PT1H30M, P1D or P2W",
        )
    if not timedelta(0) < duration <= timedelta(days=36525):
        raise RecurrenceError(
            part="every", reason=f"{shown(text)} is out of range", remedy="use one second to a hundred years"
        )
    return Every(duration=duration)


def elapsed(every: Every, anchor: datetime, after: datetime | None) -> Iterator[datetime]:
    """The anchor plus whole multiples of the duration, from the first that is later than `after`."""
    passed = 0 if after is None or after < anchor else (after - anchor) // every.duration + 1
    try:
        moment = anchor + passed * every.duration
        while True:
            yield moment
            moment += every.duration
    except OverflowError:
        return
