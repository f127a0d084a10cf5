"""Two oracles for the expander, both in wall time: a plain reading of RFC 5545, and dateutil.

The model asks every day of every period whether each part of the rule allows it. It is far too slow to
serve, shares no code with what it judges, and says in one place each how the disputed shapes are read.
dateutil is the second opinion; `disputed_as` names the shapes in which it is known to read differently.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import islice

from dateutil.rrule import rrulestr  # type: ignore[import-untyped]

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
CLOCK_UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
DAY = timedelta(days=1)

Parts = Mapping[str, str]


def parts_of(rule: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in rule.removeprefix("RRULE:").split(";"))
    return {name: value for name, _, value in pairs}


def rule_of(parts: Parts) -> str:
    return ";".join(f"{name}={value}" for name, value in parts.items())


def stamp(text: str) -> datetime:
    """A wall time written as 19970902T0900 or 19970902T090000, or the midnight of a bare date."""
    form = {8: "%Y%m%d", 13: "%Y%m%dT%H%M", 15: "%Y%m%dT%H%M%S"}[len(text)]
    return datetime.strptime(text, form)


def stamps(text: str) -> list[datetime]:
    return [stamp(word) for word in text.split()]


def week_year(day: date, week_start: int) -> tuple[int, int]:
    """The year that a day's week belongs to, and the week's number: the year that holds most of the week."""
    first = day - timedelta(days=(day.weekday() - week_start) % 7)
    middle = first + 3 * DAY
    return middle.year, (day_number(middle) + 6) // 7


def day_number(day: date) -> int:
    return day.toordinal() - date(day.year, 1, 1).toordinal() + 1


def month_end(day: date) -> date:
    return date(day.year, day.month, monthrange(day.year, day.month)[1])


@dataclass(frozen=True, slots=True)
class Model:
    """One rule and its start, read part by part."""

    parts: Parts
    start: datetime
    numbers: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, rule: str, start: datetime) -> Model:
        parts = parts_of(rule)
        lists = {name: value for name, value in parts.items() if name.startswith("BY") and name != "BYDAY"}
        numbers = {name: frozenset(map(int, value.split(","))) for name, value in lists.items()}
        return cls(parts, start, numbers)

    @property
    def freq(self) -> str:
        return self.parts["FREQ"]

    @property
    def interval(self) -> int:
        return int(self.parts.get("INTERVAL", "1"))

    @property
    def week_start(self) -> int:
        return WEEKDAYS.index(self.parts.get("WKST", "MO"))

    def walls(self, horizon: datetime) -> Iterator[datetime]:
        """The occurrences before a horizon, without regard to COUNT and UNTIL."""
        positions = self.numbers.get("BYSETPOS")
        for period in self.clock_periods(horizon) if self.freq in CLOCK_UNITS else self.day_periods(horizon):
            whole = sorted(set(period))
            if positions:
                places = {place - 1 if place > 0 else len(whole) + place for place in positions}
                whole = [wall for place, wall in enumerate(whole) if place in places]
            yield from (wall for wall in whole if self.start <= wall < horizon)

    def day_periods(self, horizon: datetime) -> Iterator[list[datetime]]:
        """Periods of a year, a month, a week or a day; those that began before the start are whole too."""
        first = self.period_number(self.start.date())
        days: list[date] = []
        day = self.start.date() - timedelta(days=372)
        current = self.period_number(day)
        times = self.times()
        while day < horizon.date() + timedelta(days=372):
            number = self.period_number(day)
            if number != current:
                yield [datetime.combine(each, moment) for each in days for moment in times]
                days, current = [], number
            if number >= first and (number - first) % self.interval == 0 and self.allows(day):
                days.append(day)
            day += DAY

    def period_number(self, day: date) -> int:
        match self.freq:
            case "YEARLY":
                return week_year(day, self.week_start)[0] if "BYWEEKNO" in self.parts else day.year
            case "MONTHLY":
                return 12 * day.year + day.month
            case "WEEKLY":
                return (day.toordinal() - 1 - self.week_start) // 7
            case _:
                return day.toordinal()

    def clock_periods(self, horizon: datetime) -> Iterator[list[datetime]]:
        """Periods of an hour, a minute or a second: every aligned one of every day that is allowed."""
        unit = CLOCK_UNITS[self.freq]
        opening = datetime.combine(self.start.date(), time())
        first = int((self.start - opening).total_seconds()) // unit
        midnight = opening
        while midnight < horizon:
            if self.allows(midnight.date()):
                passed = int((midnight - opening).total_seconds()) // unit
                for number in range((first - passed) % self.interval, 86400 // unit, self.interval):
                    if passed + number >= first:
                        yield self.clock_period(midnight + timedelta(seconds=number * unit))
            midnight += DAY

    def clock_period(self, moment: datetime) -> list[datetime]:
        """Parts that are no finer than the period limit it, the finer ones fill it."""
        hours, minutes, seconds = (self.numbers.get(name) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
        if hours and moment.hour not in hours:
            return []
        if self.freq != "HOURLY" and minutes and moment.minute not in minutes:
            return []
        if self.freq == "SECONDLY":
            return [moment] if not seconds or moment.second in seconds else []
        within = (minutes or {self.start.minute}) if self.freq == "HOURLY" else {moment.minute}
        return [
            moment.replace(minute=minute, second=second)
            for minute in within
            for second in seconds or {self.start.second}
        ]

    def times(self) -> list[time]:
        hours = self.numbers.get("BYHOUR", {self.start.hour})
        minutes = self.numbers.get("BYMINUTE", {self.start.minute})
        seconds = self.numbers.get("BYSECOND", {self.start.second})
        return [time(hour, minute, second) for hour in hours for minute in minutes for second in seconds]

    def allows(self, day: date) -> bool:
        return (
            self.allows_month(day)
            and self.allows_weekday(day)
            and self.allows_month_day(day)
            and self.allows_year_day(day)
            and self.allows_week(day)
        )

    def day_is_open(self) -> bool:
        """Whether no part says anything about the day, so that it comes from the start."""
        return not {"BYMONTHDAY", "BYDAY", "BYYEARDAY", "BYWEEKNO"} & self.parts.keys()

    def allows_month(self, day: date) -> bool:
        if "BYMONTH" in self.parts:
            return day.month in self.numbers["BYMONTH"]
        return self.freq != "YEARLY" or not self.day_is_open() or day.month == self.start.month

    def allows_month_day(self, day: date) -> bool:
        if "BYMONTHDAY" in self.parts:
            return not self.numbers["BYMONTHDAY"].isdisjoint((day.day, day.day - month_end(day).day - 1))
        return self.freq not in {"YEARLY", "MONTHLY"} or not self.day_is_open() or day.day == self.start.day

    def allows_year_day(self, day: date) -> bool:
        if "BYYEARDAY" not in self.parts:
            return True
        number, length = day_number(day), day_number(date(day.year, 12, 31))
        return not self.numbers["BYYEARDAY"].isdisjoint((number, number - length - 1))

    def allows_week(self, day: date) -> bool:
        if "BYWEEKNO" not in self.parts:
            return True
        year, number = week_year(day, self.week_start)
        last = week_year(date(year, 12, 28), self.week_start)[1]
        return not self.numbers["BYWEEKNO"].isdisjoint((number, number - last - 1))

    def allows_weekday(self, day: date) -> bool:
        """Days and ordinals form a union; an ordinal counts in its month, or in the year if no month is named."""
        if "BYDAY" not in self.parts:
            by_week = leaves_the_weekday_open(self.parts)
            is_implied = by_week or (self.freq == "WEEKLY" and self.day_is_open())
            return not is_implied or day.weekday() == self.start.weekday()
        in_year = self.freq == "YEARLY" and "BYMONTH" not in self.parts
        before = day_number(day) if in_year else day.day
        last = date(day.year, 12, 31) if in_year else month_end(day)
        name = WEEKDAYS[day.weekday()]
        accepted = {name, f"{(before + 6) // 7}{name}", f"{-((last - day).days // 7) - 1}{name}"}
        return not accepted.isdisjoint(text.lstrip("+") for text in self.parts["BYDAY"].split(","))


def model_walls(rule: str, start: datetime, horizon: datetime, limit: int) -> list[datetime]:
    parts = parts_of(rule)
    count = min(limit, int(parts.get("COUNT", limit)))
    walls = Model.of(rule, start).walls(horizon)
    if "UNTIL" in parts:
        until = stamp(parts["UNTIL"])
        walls = (wall for wall in walls if wall <= until)
    return list(islice(walls, count))


def dateutil_walls(rule: str, start: datetime, limit: int) -> list[datetime]:
    """What dateutil makes of a rule; ask for no more than there is, because it does not know when to stop."""
    return list(islice(rrulestr(rule, dtstart=start), limit))


def mixes_days_and_ordinals(parts: Parts) -> bool:
    """dateutil takes `MO,2TU` for a contradiction that is never due; the days that a rule lists are a union."""
    days = parts.get("BYDAY", "").split(",")
    return parts["FREQ"] in {"MONTHLY", "YEARLY"} and len({len(day) == 2 for day in days}) == 2


def leaves_the_weekday_open(parts: Parts) -> bool:
    """Without a day dateutil takes all seven of the week; what a rule leaves out comes from its start."""
    takes_it_from_the_start = parts["FREQ"] in {"YEARLY", "MONTHLY", "WEEKLY"}
    names_days = {"BYDAY", "BYMONTHDAY", "BYYEARDAY"} & parts.keys()
    return "BYWEEKNO" in parts and takes_it_from_the_start and not names_days


def counts_in_week_years(parts: Parts) -> bool:
    """dateutil deals out the days of a week by calendar year, which shows once years are skipped or numbered."""
    skips = parts.get("INTERVAL", "1") != "1"
    return "BYWEEKNO" in parts and parts["FREQ"] == "YEARLY" and (skips or "BYSETPOS" in parts)


def meets_the_new_year(parts: Parts) -> bool:
    """dateutil miscounts the weeks that lie across the end of a year."""
    weeks = {abs(int(number)) for number in parts.get("BYWEEKNO", "0").split(",")}
    return not weeks.isdisjoint({1, 52, 53})


def numbers_a_week_begun(parts: Parts, start: datetime) -> bool:
    """dateutil numbers the days of the first week from the start on; the set is the whole week."""
    week_start = WEEKDAYS.index(parts.get("WKST", "MO"))
    return parts["FREQ"] == "WEEKLY" and "BYSETPOS" in parts and start.weekday() != week_start


def disputed_as(rule: str, start: datetime) -> str | None:
    """The shape in which dateutil is known to read a rule differently, by the name of the function that tells it."""
    parts = parts_of(rule)
    shapes = (mixes_days_and_ordinals, leaves_the_weekday_open, counts_in_week_years, meets_the_new_year)
    for shape in shapes:
        if shape(parts):
            return shape.__name__
    return numbers_a_week_begun.__name__ if numbers_a_week_begun(parts, start) else None
