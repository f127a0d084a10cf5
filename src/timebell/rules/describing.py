"""A recurrence in plain English, for whoever has to confirm that it is the one they meant.

The common shapes get the words that a person would use. Every other rule is said part by part, which is longer
but leaves nothing out. What a rule takes from its start is said only if the start is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product

from cronsim import CronSim

from timebell.rules.cron import Cron
from timebell.rules.every import Every
from timebell.rules.localtime import plain_local, zone
from timebell.rules.reading import read_recurrence
from timebell.rules.rrule import Day, Frequency, Rule, Until
from timebell.rules.wording import (
    WEEKDAY_NAMES,
    joined_by,
    listed,
    month_day,
    month_name,
    month_names,
    ordinal,
    ordinal_days,
    week_of_year,
    weekday_names,
    year_day,
)

TIMES_LISTED_MAX = 6

_PERIODS = {
    Frequency.YEARLY: "year",
    Frequency.MONTHLY: "month",
    Frequency.WEEKLY: "week",
    Frequency.DAILY: "day",
    Frequency.HOURLY: "hour",
    Frequency.MINUTELY: "minute",
    Frequency.SECONDLY: "second",
}
_SUB_DAILY = (Frequency.HOURLY, Frequency.MINUTELY, Frequency.SECONDLY)


def describe(recurrence: str, start_local: datetime | None = None, timezone: str | None = None) -> str:
    """Say when a recurrence is due, for example "every second Tuesday of the month at 10:00, Berlin time"."""
    start = plain_local(start_local, "start_local") if start_local else None
    place = _place(zone(timezone).key) if timezone else ""
    match read_recurrence(recurrence):
        case Every() as every:
            return _elapsed(every.duration)
        case Cron() as fields:
            return _fields(fields, place)
        case rule:
            return _rule(rule, start, place)


def _rule(rule: Rule, start: datetime | None, place: str) -> str:
    rule = _plainer(rule, start)
    is_everywhere = rule.frequency in _SUB_DAILY and not (_day_parts(rule) or rule.by_hour)
    return _joined(
        f"{_days(rule)} {_clock(rule, start)}".rstrip(),
        _condition(rule),
        _positions(rule),
        "" if is_everywhere else place,
        _weeks(rule),
        "once" if rule.count == 1 else f"{rule.count} times" if rule.count else "",
        _until(rule.until) if rule.until else "",
    )


def _plainer(rule: Rule, start: datetime | None) -> Rule:
    """The same rule in the shape that is easier to say, with the days that it takes from its start."""
    frequency = rule.frequency
    if frequency is Frequency.DAILY and rule.interval == 1 and rule.by_month_day and not rule.by_set_pos:
        return replace(rule, frequency=Frequency.MONTHLY)
    if start is None or rule.by_year_day or rule.by_month_day or rule.by_day:
        return rule
    is_long = frequency in (Frequency.YEARLY, Frequency.MONTHLY)
    if frequency is Frequency.WEEKLY or (is_long and rule.by_week_no):
        return replace(rule, by_day=(Day(start.weekday()),))
    if frequency is Frequency.MONTHLY:
        return replace(rule, by_month_day=(start.day,))
    if frequency is Frequency.YEARLY:
        return replace(rule, by_month_day=(start.day,), by_month=rule.by_month or (start.month,))
    return rule


def _joined(*clauses: str) -> str:
    return ", ".join(clause for clause in clauses if clause)


def _day_parts(rule: Rule) -> bool:
    return bool(rule.by_month or rule.by_week_no or rule.by_year_day or rule.by_month_day or rule.by_day)


def _names_only_weekdays(rule: Rule) -> bool:
    return bool(rule.by_day) and not (rule.by_week_no or rule.by_year_day or rule.by_month_day)


def _days(rule: Rule) -> str:
    """On which days and, for short periods, how often within them."""
    if _chooses_a_weekday(rule):
        return _chosen_weekday(rule)
    if _names_only_weekdays(rule) and rule.interval == 1 and rule.frequency not in _SUB_DAILY:
        return _familiar(rule)
    return " ".join([_every(rule.interval, _PERIODS[rule.frequency]), *_day_phrases(rule)])


def _every(interval: int, period: str) -> str:
    if interval == 2 and period in {"year", "month", "week", "day"}:
        return f"every other {period}"
    return f"every {period}" if interval == 1 else f"every {interval} {period}s"


def _familiar(rule: Rule) -> str:
    """Days of the week in every week, month or year."""
    months = f" in {month_names(rule.by_month)}" if rule.by_month else ""
    if not any(day.ordinal for day in rule.by_day):
        return f"every {weekday_names(rule.by_day)}{months}"
    if rule.frequency is Frequency.YEARLY:
        whole = month_names(rule.by_month) if rule.by_month else "the year"
        return f"every year on {ordinal_days(rule.by_day)} of {whole}"
    if len(rule.by_day) == 1 and rule.by_day[0].ordinal > 0:
        return f"every {ordinal_days(rule.by_day).removeprefix('the ')} of the month{months}"
    return f"on {ordinal_days(rule.by_day)} of the month{months}"


def _chooses_a_weekday(rule: Rule) -> bool:
    """Whether BYSETPOS can be said as an ordinal, as in "the last weekday of the month"."""
    is_one_whole = rule.frequency is Frequency.MONTHLY or (
        rule.frequency is Frequency.YEARLY and len(rule.by_month) <= 1
    )
    is_one_time = max(len(rule.by_hour), len(rule.by_minute), len(rule.by_second)) <= 1
    is_plain = _names_only_weekdays(rule) and not any(day.ordinal for day in rule.by_day)
    return bool(rule.by_set_pos) and is_plain and is_one_whole and is_one_time


def _chosen_weekday(rule: Rule) -> str:
    names = weekday_names(rule.by_day, "or", weekend="day of the weekend")
    chosen = f"on the {listed(rule.by_set_pos, ordinal)} {names} of"
    if rule.frequency is Frequency.YEARLY:
        whole = month_name(rule.by_month[0]) if rule.by_month else "the year"
        return f"{_every(rule.interval, 'year')} {chosen} {whole}"
    months = f" in {month_names(rule.by_month)}" if rule.by_month else ""
    head = f"{_every(rule.interval, 'month')} " if rule.interval > 1 else ""
    return f"{head}{chosen} the month{months}"


def _day_phrases(rule: Rule) -> list[str]:
    """What each part says about the day, the finest that names days first."""
    weeks = listed(rule.by_week_no, week_of_year)
    months = f"in {month_names(rule.by_month)}" if rule.by_month else ""
    if rule.by_year_day:
        days = f"on {listed(rule.by_year_day, year_day)} of the year"
    elif rule.by_month_day and rule.frequency is Frequency.YEARLY and rule.by_month:
        days, months = f"on {_dates(rule.by_month_day, rule.by_month)}", ""
    elif rule.by_month_day:
        whole = "" if rule.frequency is Frequency.MONTHLY else " of the month"
        days = f"on {listed(rule.by_month_day, month_day)}{whole}"
    elif weeks and rule.by_day:
        days, weeks = f"on {weekday_names(rule.by_day, every='each ')} of {weeks}", ""
    else:
        days = f"on {_weekdays_within(rule)}" if rule.by_day else ""
    return [phrase for phrase in (days, f"in {weeks}" if weeks else "", months) if phrase]


def _weekdays_within(rule: Rule) -> str:
    if any(day.ordinal for day in rule.by_day):
        return f"{ordinal_days(rule.by_day)} of {_whole(rule)}"
    is_each = rule.frequency in (Frequency.YEARLY, Frequency.MONTHLY)
    return f"every {weekday_names(rule.by_day)}" if is_each else weekday_names(rule.by_day, every="each ")


def _whole(rule: Rule) -> str:
    """What an ordinal of BYDAY counts in."""
    return "the year" if rule.frequency is Frequency.YEARLY and not rule.by_month else "the month"


def _condition(rule: Rule) -> str:
    """The parts that must hold as well once another part has named the day."""
    conditions = []
    if rule.by_year_day and rule.by_month_day:
        conditions.append(f"{listed(rule.by_month_day, month_day, 'or')} of the month")
    if rule.by_day and (rule.by_year_day or rule.by_month_day):
        if any(day.ordinal for day in rule.by_day):
            conditions.append(f"{ordinal_days(rule.by_day, 'or', 'a')} of {_whole(rule)}")
        else:
            conditions.append(f"a {weekday_names(rule.by_day, 'or')}")
    return f"if it is {joined_by(conditions)}" if conditions else ""


def _dates(month_days: Sequence[int], months: Sequence[int]) -> str:
    """Dates as they are spoken, such as 24 and 25 December, or the last day of February and June."""
    if len(months) == 1 and min(month_days) > 0:
        return f"{listed(month_days, str)} {month_name(months[0])}"
    return f"{listed(month_days, month_day)} of {month_names(months)}"


def _clock(rule: Rule, start: datetime | None) -> str:
    """At which times of the day, or of the hour or minute where the period is shorter than a day."""
    if rule.frequency in _SUB_DAILY:
        return _clock_within(rule, start)
    hours = rule.by_hour or ((start.hour,) if start else ())
    minutes = rule.by_minute or ((start.minute,) if start else ())
    seconds = rule.by_second or ((start.second,) if start else ())
    is_listed = len(hours) * len(minutes) * max(len(seconds), 1) <= TIMES_LISTED_MAX
    if hours and minutes and is_listed:
        return f"at {joined_by([_time(*moment) for moment in product(hours, minutes, seconds or (0,))])}"
    return _clock_within(rule, start)


def _clock_within(rule: Rule, start: datetime | None) -> str:
    """What each part says about the time, coarsest first."""
    is_sub_daily = rule.frequency in _SUB_DAILY
    hours = rule.by_hour or ((start.hour,) if start and not is_sub_daily else ())
    phrases = [_hours(hours, is_sub_daily)]
    if rule.frequency in (Frequency.MINUTELY, Frequency.SECONDLY):
        phrases.append(f"in {_counted('minute', rule.by_minute)} of the hour" if rule.by_minute else "")
    else:
        is_said = start and (start.minute or not is_sub_daily)
        phrases.append(_minutes_past(rule.by_minute or ((start.minute,) if start and is_said else ())))
    seconds = rule.by_second
    if start and start.second and not seconds and rule.frequency is not Frequency.SECONDLY:
        seconds = (start.second,)
    phrases.append(f"at {_counted('second', seconds)} of the minute" if seconds else "")
    return " ".join(phrase for phrase in phrases if phrase)


def _hours(hours: Sequence[int], is_sub_daily: bool) -> str:
    if is_sub_daily and hours and hours[-1] - hours[0] == len(hours) - 1:
        return f"from {_hour(hours[0])} to {hours[-1]:02}:59"
    return f"in the hour{'s' * (len(hours) > 1)} of {listed(hours, _hour)}" if hours else ""


def _hour(number: int) -> str:
    return f"{number:02}:00"


def _minutes_past(minutes: Sequence[int]) -> str:
    if not minutes:
        return ""
    return "on the hour" if minutes == (0,) else f"at {listed(minutes, str)} minutes past the hour"


def _counted(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'s' * (len(numbers) > 1)} {listed(numbers, str)}"


def _time(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def _positions(rule: Rule) -> str:
    if not rule.by_set_pos or _chooses_a_weekday(rule):
        return ""
    return f"only the {listed(rule.by_set_pos, ordinal)} of these in each {_PERIODS[rule.frequency]}"


def _weeks(rule: Rule) -> str:
    """Where a week begins decides which days belong to it, so it is said where that could matter."""
    skips_weeks = rule.frequency is Frequency.WEEKLY and (rule.interval > 1 or rule.by_set_pos)
    if rule.week_start and (skips_weeks or rule.by_week_no):
        return f"weeks beginning on {WEEKDAY_NAMES[rule.week_start]}"
    return ""


def _until(until: Until) -> str:
    at = until.at
    day = f"until {at.day} {month_name(at.month)} {at.year}"
    if until.form == "utc":
        return f"{day} at {_time(at.hour, at.minute, at.second)} UTC"
    is_whole_day = (at.hour, at.minute, at.second) == (23, 59, 59)
    return day if is_whole_day else f"{day} at {_time(at.hour, at.minute, at.second)}"


def _place(name: str) -> str:
    """A timezone as people call it: by its city, or by its own name where it has none."""
    region, _, city = name.rpartition("/")
    if city in {"UTC", "UCT", "Universal", "Zulu"}:
        return "UTC"
    if region in {"", "Etc"}:
        return city
    return f"{city.replace('_', ' ')} time"


def _elapsed(duration: timedelta) -> str:
    """An interval of elapsed time. A day of it is 24 hours, whatever clocks do, so it is not called a day."""
    seconds = duration // timedelta(seconds=1)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if seconds % 86400 == 0 and hours > 24:
        return f"every {hours // 24} days of 24 hours"
    units = [(hours, "hour"), (minutes, "minute"), (seconds % 60, "second")]
    named = [(amount, unit) for amount, unit in units if amount]
    if len(named) == 1:
        amount, unit = named[0]
        return f"every {unit}" if amount == 1 else f"every {amount} {unit}s"
    return f"every {joined_by([f'{amount} {unit}' + 's' * (amount != 1) for amount, unit in named])}"


def _fields(fields: Cron, place: str) -> str:
    """The five fields as the rule that says the same; cronsim has words for the few that no rule can say."""
    parsed = CronSim(fields.expression, datetime(2000, 1, 1))  # noqa: DTZ001
    if min(parsed.days) < 0 or any(isinstance(weekday, tuple) for weekday in parsed.weekdays):
        words = parsed.explain()
        return _joined(words[0].lower() + words[1:], place)
    weekdays = sorted({(weekday - 1) % 7 for weekday in parsed.weekdays if isinstance(weekday, int)})
    by_month_day = () if len(parsed.days) == 31 else tuple(sorted(parsed.days))
    by_day = () if len(weekdays) == 7 else tuple(Day(weekday) for weekday in weekdays)
    by_month = () if len(parsed.months) == 12 else tuple(sorted(parsed.months))
    rule = replace(_how_often(parsed.minutes, parsed.hours), by_month=by_month)
    if parsed.day_and or not (by_month_day and by_day):
        return _rule(replace(rule, by_month_day=by_month_day, by_day=by_day), None, place)
    # Where both fields name days, a day that fits either is due.
    dates = _days(_plainer(replace(rule, by_month_day=by_month_day), None))
    return _joined(f"{dates} and {_days(replace(rule, by_day=by_day))} {_clock(rule, None)}".rstrip(), place)


def _how_often(minutes: set[int], hours: set[int]) -> Rule:
    by_hour = () if len(hours) == 24 else tuple(sorted(hours))
    by_minute = tuple(sorted(minutes))
    if step := _step(minutes, 60):
        return Rule(frequency=Frequency.MINUTELY, interval=step, by_hour=by_hour)
    if step := _step(hours, 24):
        return Rule(frequency=Frequency.HOURLY, interval=step, by_minute=by_minute if any(by_minute) else ())
    return Rule(frequency=Frequency.DAILY, by_hour=by_hour, by_minute=by_minute)


def _step(values: set[int], whole: int) -> int | None:
    """The step at which values fill their whole evenly, from nought on; a single value is no step."""
    step = whole // len(values)
    return step if len(values) > 1 and values == set(range(0, whole, step)) else None
