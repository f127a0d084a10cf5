"""When a recurrence is due: the one door through which schedules, previews and tests ask.

A recurrence is an RRULE of RFC 5545 on the wall clock of a timezone, `every` with a duration in elapsed time, or
`cron` with five fields. `occurrences` answers for any of them that is defined; `check_recurrence` also holds one
against the limits under which a schedule may be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import NoReturn

from timebell.errors import InvalidInput, RecurrenceError
from timebell.rules.budget import WORK_MAX, WORK_PER_OCCURRENCE, Budget
from timebell.rules.describing import describe
from timebell.rules.every import Every
from timebell.rules.expansion import UNIT_SECONDS
from timebell.rules.localtime import (
    LAST_WALL,
    Adjusted,
    OnFold,
    OnGap,
    aware,
    local_at,
    naive_utc,
    plain_local,
    zone,
)
from timebell.rules.reading import read_recurrence
from timebell.rules.rrule import Frequency, Rule, shown
from timebell.rules.series import Found, Series, by_instant, last_counted

__all__ = [
    "Checked",
    "Limits",
    "Occurrence",
    "check_recurrence",
    "check_series",
    "describe",
    "expand",
    "last_local",
    "occurrences",
    "read_series",
    "unused_exdates",
]

LIMIT_MAX = 100_000
DATES_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One occurrence: when it is due, the wall time that the recurrence gave it, and whether clocks came between.

    `at` is in UTC; without a timezone it is the wall time itself. `local` is the wall time that a rule means, even
    if a gap moved the occurrence, and stays when the data of a timezone change. What follows elapsed time is due in
    both passes of a fold, and the second has `local.fold` set.
    """

    at: datetime
    local: datetime
    adjusted: Adjusted | None = None


def occurrences(
    recurrence: str,
    *,
    start_local: datetime,
    timezone: str | None,
    exdates: Iterable[datetime] = (),
    rdates: Iterable[datetime] = (),
    until_local: datetime | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
    limit: int = 100,
    on_gap: OnGap = "shift",
    on_fold: OnFold = "first",
) -> list[Occurrence]:
    """The first occurrences after one instant and before another, from the start on if `after` is not given.

    Both bounds are exclusive and aware, or naive where there is no timezone. `until_local` is inclusive and ends
    everything, RDATEs too, while UNTIL ends the rule alone.
    """
    series = read_series(
        recurrence,
        start_local=start_local,
        timezone=timezone,
        exdates=exdates,
        rdates=rdates,
        until_local=until_local,
        on_gap=on_gap,
        on_fold=on_fold,
    )
    return expand(series, after=after, before=before, limit=limit, budget=Budget())


def read_series(
    recurrence: str,
    *,
    start_local: datetime,
    timezone: str | None,
    exdates: Iterable[datetime] = (),
    rdates: Iterable[datetime] = (),
    until_local: datetime | None = None,
    on_gap: OnGap = "shift",
    on_fold: OnFold = "first",
) -> Series:
    """Read a recurrence and all that belongs to it, once for as many questions as there are."""
    if on_gap not in ("shift", "skip"):
        raise InvalidInput("use shift or skip", field="on_gap")
    if on_fold not in ("first", "second"):
        raise InvalidInput("use first or second", field="on_fold")
    series = Series(
        text=recurrence,
        recurrence=read_recurrence(recurrence),
        start=plain_local(start_local, "start_local"),
        timezone=None if timezone is None else zone(timezone),
        until=None if until_local is None else plain_local(until_local, "until_local"),
        on_gap=on_gap,
        on_fold=on_fold,
    )
    if not (exdates or rdates):
        return series
    series = replace(series, exdates=_bounded(exdates, "exdates"), rdates=_bounded(rdates, "rdates"))
    added = [one for one in _singles(series, series.rdates, "rdates") if _is_within(one, series.until)]
    return replace(
        series,
        excluded=frozenset(one.instant for one in _singles(series, series.exdates, "exdates")),
        added=tuple(sorted(added, key=by_instant)),
    )


def _is_within(one: Found, until: datetime | None) -> bool:
    return until is None or one.local <= until


def expand(
    series: Series,
    *,
    after: datetime | None = None,
    before: datetime | None = None,
    limit: int,
    budget: Budget,
) -> list[Occurrence]:
    """As `occurrences`, of a series that was read before and within a budget of the caller's."""
    if not 0 <= limit <= LIMIT_MAX:
        raise InvalidInput(f"{limit} is out of range; use 0 to {LIMIT_MAX}", field="limit")
    found = series.found(_bound(series, after, "after"), _bound(series, before, "before"), budget)
    result: list[Occurrence] = []
    for one in islice(found, limit):
        at = one.instant if series.timezone is None else aware(one.instant)
        result.append(Occurrence(at=at, local=one.local, adjusted=one.adjusted))
        budget.earn()
    return result


def last_local(recurrence: str, *, start_local: datetime) -> datetime | None:
    """The wall time at which COUNT ends a recurrence, so that nobody has to count again; None without a COUNT."""
    rule = read_recurrence(recurrence)
    if not isinstance(rule, Rule) or rule.count is None:
        return None
    return last_counted(rule, plain_local(start_local, "start_local"))


def unused_exdates(series: Series) -> list[datetime]:
    """The dates that exclude nothing, as one does that was mistyped."""
    added = {one.instant for one in series.added}
    budget = Budget(limit=WORK_MAX + WORK_PER_OCCURRENCE * len(series.exdates))
    unused = []
    try:
        for date in series.exdates:
            single = _single(series, date, "exdates")
            if single is None or not (single.instant in added or series.gives(single.instant, budget)):
                unused.append(date)
    except RecurrenceError:
        if budget.is_spent:
            _refuse("exdates", "to see what each of them excludes is too much work", "give fewer")
        raise
    return unused


def _refuse(part: str, reason: str, remedy: str) -> NoReturn:
    raise RecurrenceError(part=part, reason=reason, remedy=remedy)


def _bound(series: Series, moment: datetime | None, name: str) -> datetime | None:
    if moment is None or (series.timezone is None and moment.tzinfo is None):
        return moment
    return naive_utc(moment, name) if series.timezone else plain_local(moment, name)


def _bounded(dates: Iterable[datetime], name: str) -> tuple[datetime, ...]:
    listed = tuple(islice(dates, DATES_MAX + 1))
    if len(listed) > DATES_MAX:
        _refuse(name, "there are too many", f"give at most {DATES_MAX}")
    return listed


def _singles(series: Series, dates: Iterable[datetime], name: str) -> list[Found]:
    found = [_single(series, one, name) for one in dates]
    return [one for one in found if one is not None]


def _single(series: Series, moment: datetime, name: str) -> Found | None:
    """A date that is given alone: a wall time, or an instant. None where the clocks leave it out."""
    if not isinstance(moment, datetime):
        _refuse(name, f"{shown(str(moment))} has no time of day", "give a datetime")
    if moment.tzinfo is not None and series.timezone is not None:
        given = naive_utc(moment, name).replace(microsecond=0)
        return Found(given, local_at(given, series.timezone), None)
    local = plain_local(moment, name)
    instant, adjusted = series.mapped(local)
    return None if instant is None else Found(instant, local, adjusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a recurrence may ask for when a schedule is written. Each is an operator's to change."""

    text_chars: int = 512
    interval: int = 100_000
    interval_span: timedelta = timedelta(days=36_525)
    count: int = 10_000
    first_year: int = 1970
    last_year: int = 2200
    secondly: bool = False
    spacing: timedelta = timedelta(seconds=60)
    spacing_looked_at: int = 64
    dates: int = 1_000
    horizon: timedelta = timedelta(days=36_525)
    work: int = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What is worth telling somebody who writes a schedule: where it begins and ends, and what may surprise."""

    first: Occurrence
    upcoming: Occurrence
    last_local: datetime | None
    starts_on_recurrence: bool
    unused_exdates: tuple[datetime, ...]


# RFC 5545 3.3.10 has no meaning for these parts in rules of these frequencies.
_FORBIDDEN = (
    ("BYWEEKNO", "by_week_no", frozenset(Frequency) - {Frequency.YEARLY}),
    ("BYYEARDAY", "by_year_day", frozenset({Frequency.DAILY, Frequency.WEEKLY, Frequency.MONTHLY})),
    ("BYMONTHDAY", "by_month_day", frozenset({Frequency.WEEKLY})),
)
_PERIOD_DAYS = {Frequency.YEARLY: 365.25, Frequency.MONTHLY: 30.4375, Frequency.WEEKLY: 7.0}


def check_recurrence(
    recurrence: str,
    *,
    start_local: datetime,
    timezone: str,
    now: datetime,
    exdates: Sequence[datetime] = (),
    rdates: Sequence[datetime] = (),
    until_local: datetime | None = None,
    on_gap: OnGap = "shift",
    on_fold: OnFold = "first",
    limits: Limits | None = None,
) -> Checked:
    """Read a recurrence for a schedule, and check it as `check_series` does."""
    series = read_series(
        recurrence,
        start_local=start_local,
        timezone=timezone,
        exdates=exdates,
        rdates=rdates,
        until_local=until_local,
        on_gap=on_gap,
        on_fold=on_fold,
    )
    return check_series(series, now=now, limits=limits)


def check_series(series: Series, *, now: datetime, limits: Limits | None = None) -> Checked:
    """Refuse a series that no schedule should have, or say what it will do.

    The limits keep a schedule from being a burden for years. They do not apply to what is merely looked at.
    """
    limits = limits or Limits()
    recurrence = series.recurrence
    if len(series.text) > limits.text_chars:
        _refuse("recurrence", f"it has {len(series.text)} characters", f"use at most {limits.text_chars}")
    for name, dates in (("exdates", series.exdates), ("rdates", series.rdates)):
        if len(dates) > limits.dates:
            _refuse(name, f"there are {len(dates)}", f"give at most {limits.dates}")
    _check_years(series, limits)
    if isinstance(recurrence, Rule):
        _check_rule(series, recurrence, limits)
    if isinstance(recurrence, Every) and recurrence.duration < limits.spacing:
        _refuse("every", "it is too often", f"use {limits.spacing.total_seconds():g} seconds or more")
    budget = Budget(limit=limits.work)
    horizon = aware(min(naive_utc(now, "now"), LAST_WALL - limits.horizon) + limits.horizon)
    upcoming = expand(series, after=now, before=horizon, limit=1, budget=budget)
    if not upcoming:
        _refuse("recurrence", f"nothing is due after {now.isoformat()}", "choose a later end, or other parts")
    first = expand(series, limit=1, budget=budget)
    return Checked(
        first=first[0],
        upcoming=upcoming[0],
        last_local=last_local(series.text, start_local=series.start),
        starts_on_recurrence=first[0].local == series.start,
        unused_exdates=tuple(unused_exdates(series)),
    )


def _check_years(series: Series, limits: Limits) -> None:
    years = f"use the years {limits.first_year} to {limits.last_year}"
    ends = [] if series.until is None else [("until_local", series.until, series.start)]
    until = series.recurrence.until if isinstance(series.recurrence, Rule) else None
    if until is not None:
        start = series.mapped(series.start).instant if until.form == "utc" else series.start
        ends.append(("UNTIL", until.at, start or series.start))
    for part, moment, start in [("start_local", series.start, series.start), *ends]:
        if not limits.first_year <= moment.year <= limits.last_year:
            _refuse(part, f"the year {moment.year} is out of range", years)
        if moment < start:
            _refuse(part, "it lies before the start, so nothing would ever be due", "choose a later one")


def _check_rule(series: Series, rule: Rule, limits: Limits) -> None:
    if rule.frequency is Frequency.SECONDLY and not limits.secondly:
        _refuse("FREQ", "SECONDLY is not allowed here", "use MINUTELY, or every with a duration")
    if rule.interval > limits.interval:
        _refuse("INTERVAL", f"{rule.interval} is out of range", f"use 1 to {limits.interval}")
    days = _PERIOD_DAYS.get(rule.frequency) or UNIT_SECONDS[rule.frequency] / 86_400
    if rule.interval * days > limits.interval_span.days:
        _refuse("INTERVAL", f"{rule.interval} reaches over too many years", "use a smaller one")
    if rule.count and rule.count > limits.count:
        _refuse("COUNT", f"{rule.count} is out of range", f"use 1 to {limits.count}, or UNTIL")
    for part, attribute, frequencies in _FORBIDDEN:
        if getattr(rule, attribute) and rule.frequency in frequencies:
            _refuse(part, f"RFC 5545 forbids it in a {rule.frequency} rule", "leave it out or change FREQ")
    if rule.has_idle_numbers:
        _refuse(
            "BYDAY",
            f"which weekday of a {rule.frequency} rule is meant is undefined",
            "leave the number out, or use FREQ=MONTHLY or YEARLY",
        )
    if rule.by_week_no and not rule.by_day:
        _refuse("BYWEEKNO", "calendars disagree on which day of the week is meant", "add BYDAY")
    if _is_too_frequent(series, limits):
        _refuse(
            "FREQ", "it is due too often", f"leave {limits.spacing.total_seconds():g} seconds between two"
        )


def _is_too_frequent(series: Series, limits: Limits) -> bool:
    """Whether two of the first occurrences are too close. What is so rare that the work runs out is not frequent."""
    plain = replace(series, timezone=None, excluded=frozenset(), added=())
    budget = Budget(limit=limits.work)
    moments = (one.instant for one in islice(plain.found(None, None, budget), limits.spacing_looked_at))
    try:
        return any(later - earlier < limits.spacing for earlier, later in pairwise(moments))
    except RecurrenceError:
        if budget.is_spent:
            return False
        raise
