"""Rules made by chance, within what RFC 5545 allows for each frequency."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from tests.unit.recurrence_model import WEEKDAYS

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")

# How far the model looks for occurrences: far enough for rare ones, near enough to walk day by day.
HORIZONS = {
    "YEARLY": timedelta(days=366 * 24),
    "MONTHLY": timedelta(days=366 * 12),
    "WEEKLY": timedelta(days=366 * 6),
    "DAILY": timedelta(days=366 * 6),
    "HOURLY": timedelta(days=500),
    "MINUTELY": timedelta(days=60),
    "SECONDLY": timedelta(days=3),
}
INTERVALS = {
    "YEARLY": (1, 1, 1, 2, 3, 4),
    "MONTHLY": (1, 1, 1, 2, 3, 5, 12, 18),
    "WEEKLY": (1, 1, 1, 2, 3, 7, 20),
    "DAILY": (1, 1, 1, 2, 3, 10, 92),
    "HOURLY": (1, 1, 2, 3, 5, 12, 24, 36, 769),
    "MINUTELY": (1, 5, 7, 15, 20, 60, 90, 1440, 1501),
    "SECONDLY": (1, 10, 30, 45, 60, 3600, 90061),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A rule, its start, and how far to look."""

    rule: str
    start: datetime
    horizon: datetime


def some(random: Random, low: int, high: int, *, signed: bool = False, most: int = 4) -> str:
    """A list of numbers in a range, in no order; counted from the end as well if signed."""
    chosen = {random.randint(low, high) for _ in range(random.randint(1, most))}
    numbers = [-number if signed and random.random() < 0.35 else number for number in chosen]
    random.shuffle(numbers)
    return ",".join(map(str, numbers))


def days(random: Random, *, ordinal_max: int) -> str:
    """Days of the week: plain, with ordinals, or, seldom, both."""
    shape = random.choice(["plain"] * 4 + ["ordinal"] * 4 + ["both"] * 2) if ordinal_max else "plain"
    listed = []
    for name in random.sample(WEEKDAYS, random.randint(1, 4)):
        is_ordinal = shape == "ordinal" or (shape == "both" and random.random() < 0.5)
        ordinal = random.choice([1, 2, -1, random.randint(1, ordinal_max)]) if is_ordinal else 0
        listed.append(f"{ordinal or ''}{name}")
    return ",".join(listed)


def day_parts(random: Random, freq: str) -> dict[str, str]:
    parts = {}
    if random.random() < 0.3:
        parts["BYMONTH"] = some(random, 1, 12)
    if freq == "YEARLY" and random.random() < 0.25:
        parts["BYWEEKNO"] = some(random, 1, 53, signed=True)
    if freq not in {"MONTHLY", "WEEKLY", "DAILY"} and random.random() < 0.2:
        parts["BYYEARDAY"] = some(random, 1, 366, signed=True, most=12)
    # A year's day of the month without its month is refused, so it is not generated.
    if freq != "WEEKLY" and (freq != "YEARLY" or "BYMONTH" in parts) and random.random() < 0.3:
        parts["BYMONTHDAY"] = some(random, 1, 31, signed=True, most=8)
    if random.random() < 0.45:
        ordinal_max = {"YEARLY": 5 if "BYMONTH" in parts else 53, "MONTHLY": 5}.get(freq, 0)
        parts["BYDAY"] = days(random, ordinal_max=0 if "BYWEEKNO" in parts else ordinal_max)
    return parts


def clock_parts(random: Random) -> dict[str, str]:
    limits = {"BYHOUR": 23, "BYMINUTE": 59, "BYSECOND": 59}
    return {name: some(random, 0, high) for name, high in limits.items() if random.random() < 0.2}


def make_sample(random: Random, freq: str | None = None) -> Sample:
    freq = freq or random.choice(FREQUENCIES)
    parts = {"FREQ": freq, "INTERVAL": str(random.choice(INTERVALS[freq]))}
    has_day_parts = random.random() < (0.85 if freq in {"YEARLY", "MONTHLY", "WEEKLY", "DAILY"} else 0.35)
    by = (day_parts(random, freq) if has_day_parts else {}) | clock_parts(random)
    if by and random.random() < 0.25:
        by["BYSETPOS"] = some(random, 1, random.choice([2, 2, 5, 30]), signed=True)
    if random.random() < 0.4:
        parts["WKST"] = random.choice(WEEKDAYS)
    named = list(by.items())
    random.shuffle(named)
    start = datetime(1996, 1, 1) + timedelta(minutes=random.randint(0, 30 * 366 * 1440))
    if random.random() < 0.1:
        start = start.replace(
            month=random.choice([2, 12]), day=random.choice([28, 29]) if start.year % 4 == 0 else 28
        )
    rule = ";".join(f"{name}={value}" for name, value in [*parts.items(), *named])
    return Sample(rule, start, start + HORIZONS[freq])
