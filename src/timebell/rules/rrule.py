"""The RRULE of RFC 5545 as a record, and the strict reader that makes one from its text.

What the RFC forbids or leaves undefined is refused here with the part, the reason and a remedy, because a
guess would ring at the wrong time for years. Three combinations that the RFC forbids have one meaning only
(BYWEEKNO, BYYEARDAY or BYMONTHDAY under a frequency it does not list them for can do nothing but limit), so they
are read; `timebell.rules.recurrence.check_recurrence` refuses them when a schedule is written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, NoReturn

from timebell.errors import RecurrenceError

TEXT_CHARS_MAX = 1024
NUMBER_MAX = 9_999_999_999
SHOWN_CHARS = 40

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Frequency(StrEnum):
    YEARLY = "YEARLY"
    MONTHLY = "MONTHLY"
    WEEKLY = "WEEKLY"
    DAILY = "DAILY"
    HOURLY = "HOURLY"
    MINUTELY = "MINUTELY"
    SECONDLY = "SECONDLY"


class Day(NamedTuple):
    """One value of BYDAY: a weekday, 0 for Monday, and which of them, 0 for every one."""

    weekday: int
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """The last moment of a rule, which still belongs to it.

    In the form `utc` it is an instant, in the form `local` a wall time. In the form `date` it was a day, and
    `at` is the last second of it on the wall.
    """

    at: datetime
    form: Literal["utc", "local", "date"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The parts of an RRULE. The values of a BY part are sorted and each is there once; an empty tuple is no part.

    `has_idle_numbers`: BYDAY numbered its days in a rule whose frequency gives the numbers no meaning. They are left
    out, as every engine does, and a schedule is refused for them.
    """

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: Until | None = None
    by_month: tuple[int, ...] = ()
    by_week_no: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[Day, ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_set_pos: tuple[int, ...] = ()
    week_start: int = 0
    has_idle_numbers: bool = False


# What a BY part may hold: the name of its field, its least and greatest value, and whether it may count from the end.
_RANGES: Mapping[str, tuple[str, int, int, bool]] = MappingProxyType(
    {
        "BYMONTH": ("by_month", 1, 12, False),
        "BYWEEKNO": ("by_week_no", 1, 53, True),
        "BYYEARDAY": ("by_year_day", 1, 366, True),
        "BYMONTHDAY": ("by_month_day", 1, 31, True),
        "BYHOUR": ("by_hour", 0, 23, False),
        "BYMINUTE": ("by_minute", 0, 59, False),
        "BYSECOND": ("by_second", 0, 59, False),
        "BYSETPOS": ("by_set_pos", 1, 366, True),
    }
)
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)
_FOREIGN = MappingProxyType(
    {
        "BYEASTER": "Easter is not part of RFC 5545; give its dates as rdates",
        "RSCALE": "only the Gregorian calendar is known; leave RSCALE out",
        "SKIP": "SKIP belongs to RSCALE; leave it out and choose with on_gap and BYMONTHDAY=-1",
    }
)
# Where a number before a day of BYDAY counts the days of a month or a year.
_NUMBERING = (Frequency.YEARLY, Frequency.MONTHLY)
_VISIBLE = re.compile(r"[!-~]*")
_NUMBER = re.compile(r"([+-]?)([0-9]{1,10})")
_DAY = re.compile(r"([+-]?)([0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_UNTIL = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?")


@lru_cache(maxsize=4096)
def parse_rule(text: str) -> Rule:
    """Read an RRULE, with or without `RRULE:` before it, in capitals or not."""
    parts = _split(text)
    if "FREQ" not in parts:
        _refuse("FREQ", "it is missing", "begin with FREQ=DAILY, WEEKLY, MONTHLY or YEARLY")
    if "COUNT" in parts and "UNTIL" in parts:
        _refuse("COUNT", "RFC 5545 allows COUNT or UNTIL, not both", "leave one of them out")
    frequency = _frequency(parts["FREQ"])
    days = _days(parts["BYDAY"]) if "BYDAY" in parts else ()
    has_idle_numbers = frequency not in _NUMBERING and any(day.ordinal for day in days)
    if has_idle_numbers:
        days = tuple(sorted({Day(day.weekday) for day in days}))
    rule = Rule(
        frequency=frequency,
        interval=_positive("INTERVAL", parts.get("INTERVAL", "1")),
        count=_positive("COUNT", parts["COUNT"]) if "COUNT" in parts else None,
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
        by_day=days,
        has_idle_numbers=has_idle_numbers,
        week_start=_week_start(parts.get("WKST", "MO")),
        **{
            field: _numbers(part, parts[part], least, most, signed)
            for part, (field, least, most, signed) in _RANGES.items()
            if part in parts
        },
    )
    _refuse_combinations(rule)
    return rule


def _refuse(part: str, reason: str, remedy: str) -> NoReturn:
    raise RecurrenceError(part=part, reason=reason, remedy=remedy)


def shown(text: str) -> str:
    """A value as an error message may repeat it: short, quoted and on one line."""
    return ascii(text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "...")


def _split(text: str) -> dict[str, str]:
    """The parts by name, each there once."""
    if len(text) > TEXT_CHARS_MAX:
        _refuse("RRULE", f"it has {len(text)} characters", f"use at most {TEXT_CHARS_MAX}")
    if not _VISIBLE.fullmatch(text):
        _refuse(
            "RRULE",
            "a space, a line break, a control character or one outside ASCII is in it",
            "write one line of visible ASCII characters, and give RDATE and EXDATE as rdates and exdates",
        )
    parts: dict[str, str] = {}
    for piece in text.upper().removeprefix("RRULE:").removesuffix(";").split(";"):
        name, separator, value = piece.partition("=")
        if not (name and separator and value):
            _refuse("RRULE", f"{shown(piece)} is not NAME=VALUE", "write parts such as FREQ=DAILY;INTERVAL=2")
        if name not in _PARTS:
            near = difflib.get_close_matches(name[:SHOWN_CHARS], _PARTS, n=1)
            remedy = (
                f"did you mean {near[0]}?" if near else f"leave it out; the parts are {', '.join(_PARTS)}"
            )
            _refuse(name[:SHOWN_CHARS], "RFC 5545 knows no such part", _FOREIGN.get(name, remedy))
        if name in parts:
            _refuse(name, "it is given twice", "give each part once, with its values separated by commas")
        parts[name] = value
    return parts


def _frequency(value: str) -> Frequency:
    try:
        return Frequency(value)
    except ValueError:
        _refuse("FREQ", f"{shown(value)} is no frequency", f"use one of {', '.join(Frequency)}")


def _positive(part: str, value: str) -> int:
    match = _NUMBER.fullmatch(value)
    if not match or match[1] or not int(match[2]):
        _refuse(part, f"{shown(value)} is not a positive whole number", f"use 1 to {NUMBER_MAX}, in digits")
    return int(match[2])


def _numbers(part: str, values: str, least: int, most: int, signed: bool) -> tuple[int, ...]:
    numbers = set()
    for value in values.split(","):
        match = _NUMBER.fullmatch(value)
        if not match or (match[1] and not signed) or not least <= int(match[2]) <= most:
            span = f"{least} to {most}" + (f" or -{most} to -{least}" if signed else "")
            _refuse(part, f"{shown(value)} is out of range", f"use whole numbers from {span}")
        numbers.add(int(match[0]))
    return tuple(sorted(numbers))


def _days(values: str) -> tuple[Day, ...]:
    days = set()
    for value in values.split(","):
        match = _DAY.fullmatch(value)
        if not match or (match[1] and not match[2]) or (match[2] and not 1 <= int(match[2]) <= 53):
            _refuse(
                "BYDAY",
                f"{shown(value)} is no day",
                "use MO, TU, WE, TH, FR, SA or SU, or 1MO to 53MO or -1MO",
            )
        ordinal = int(match[1] + match[2]) if match[2] else 0
        days.add(Day(WEEKDAYS.index(match[3]), ordinal))
    return tuple(sorted(days))


def _week_start(value: str) -> int:
    if value not in WEEKDAYS:
        _refuse("WKST", f"{shown(value)} is no day", f"use one of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(value)


def _until(value: str) -> Until:
    match = _UNTIL.fullmatch(value)
    if match:
        year, month, day, hour, minute, second = (int(digits or 0) for digits in match.groups()[:6])
        try:
            at = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
        except ValueError:
            pass
        else:
            if match[4] is None:
                return Until(at=datetime.combine(at, time(23, 59, 59)), form="date")
            return Until(at=at, form="utc" if match[7] else "local")
    _refuse(
        "UNTIL",
        f"{shown(value)} is no date and no time",
        "write 20261231, 20261231T235959 or, in UTC, 20261231T235959Z",
    )


def _refuse_combinations(rule: Rule) -> None:
    """Refuse the combinations that mean nothing, or two things."""
    frequency = rule.frequency
    if rule.by_week_no and any(day.ordinal for day in rule.by_day):
        _refuse("BYDAY", "a week has one of each day", "leave the number out beside BYWEEKNO")
    others = (rule.by_month, rule.by_week_no, rule.by_year_day, rule.by_month_day, rule.by_day)
    if rule.by_set_pos and not any((*others, rule.by_hour, rule.by_minute, rule.by_second)):
        _refuse("BYSETPOS", "there is no other BY part to choose from", "add one, or leave BYSETPOS out")
    if (
        frequency is Frequency.YEARLY
        and rule.by_month_day
        and not (rule.by_month or rule.by_week_no or rule.by_year_day)
    ):
        _refuse(
            "BYMONTHDAY",
            "in a YEARLY rule without BYMONTH some read one month and some every month",
            "add BYMONTH, or use FREQ=MONTHLY",
        )
