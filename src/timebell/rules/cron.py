"""A recurrence in the five fields of cron, with the manners of cron.

cron and RRULE differ when clocks change. A time in a gap is due at the first minute after it, not shifted by its
length. An expression with a star for its minute or hour follows elapsed time, so it is due in both passes of
a fold; any other is due in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from timebell.errors import RecurrenceError
from timebell.rules.localtime import FIRST_WALL, aware, local_at
from timebell.rules.rrule import shown

TEXT_CHARS_MAX = 256

_NAMES = MappingProxyType(
    {
        "@YEARLY": "0 0 1 1 *",
        "@ANNUALLY": "0 0 1 1 *",
        "@MONTHLY": "0 0 1 * *",
        "@WEEKLY": "0 0 * * 0",
        "@DAILY": "0 0 * * *",
        "@MIDNIGHT": "0 0 * * *",
        "@HOURLY": "0 * * * *",
    }
)
_SECOND = timedelta(seconds=1)
_FIRST_FOUND = FIRST_WALL + _SECOND
# cronsim wants to be told where to begin even when it is only asked whether an expression is sound.
_ANY_MOMENT = datetime(2000, 1, 1)  # noqa: DTZ001


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """The five fields of a cron expression in capitals: minute, hour, day of the month, month, day of the week."""

    fields: tuple[str, str, str, str, str]

    @property
    def expression(self) -> str:
        return " ".join(self.fields)

    @property
    def names_times(self) -> bool:
        """Whether it says at which times of the day it is due, and so is due once where clocks are put back."""
        return not (self.fields[0].startswith("*") or self.fields[1].startswith("*"))


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> Cron:
    """Read what stands after `cron`: five fields, or a name such as `@daily`."""
    if len(text) > TEXT_CHARS_MAX or not text.isascii() or not text.isprintable():
        raise RecurrenceError(
            part="cron",
            reason="it is too long or has a character outside printable ASCII",
            remedy=f"write at most {TEXT_CHARS_MAX} characters on one line",
        )
    expression = text.strip(" ").upper()
    if expression.startswith("@") and expression not in _NAMES:
        known = ", ".join(name.lower() for name in _NAMES)
        raise RecurrenceError(
            part="cron", reason=f"{shown(text)} is no name of a time", remedy=f"use {known}"
        )
    fields = tuple(_NAMES.get(expression, expression).split(" "))
    fields = tuple(field for field in fields if field)
    if len(fields) != 5:
        raise RecurrenceError(
            part="cron",
            reason=f"it has {len(fields)} fields",
            remedy="write minute, hour, day of the month, month and day of the week, such as 0 9 * * 1",
        )
    cron = Cron(fields=(fields[0], fields[1], fields[2], fields[3], fields[4]))
    try:
        CronSim(cron.expression, _ANY_MOMENT)
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        raise RecurrenceError(
            part="cron",
            reason=f"{shown(text)}: {str(error).lower() or 'a field is wrong'}",
            remedy="correct that field",
        ) from None
    return cron


def cron_walls(cron: Cron, begin: datetime) -> Iterator[datetime]:
    """The wall times that an expression names, from `begin` on."""
    try:
        yield from CronSim(cron.expression, _just_before(begin))
    except (OverflowError, ValueError):
        return


def cron_instants(cron: Cron, begin: datetime, timezone: ZoneInfo) -> Iterator[datetime]:
    """The instants at which an expression in elapsed time is due, from the instant `begin` on."""
    try:
        moments = CronSim(cron.expression, aware(_just_before(begin)).astimezone(timezone))
        for moment in moments:
            instant = moment.astimezone(UTC).replace(tzinfo=None)
            local = local_at(instant, timezone)
            # Where the day itself begins in a gap, cronsim names the midnight that the clocks left out.
            if local == moment.replace(tzinfo=None) or _is_due(moments, local):
                yield instant
    except (OverflowError, ValueError):
        return


def _just_before(begin: datetime) -> datetime:
    """Where cronsim must begin to find `begin` itself, since it looks for what is later."""
    return max(begin, _FIRST_FOUND) - _SECOND


def _is_due(moments: CronSim, local: datetime) -> bool:
    is_time = local.hour in moments.hours and local.minute in moments.minutes
    return is_time and local.month in moments.months and moments.match_day(local.date())
