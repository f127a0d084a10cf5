"""Numbers, days and lists in English, for `timebell.rules.describing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from timebell.rules.rrule import Day

WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth")
_WORKING_DAYS = {Day(weekday) for weekday in range(5)}
_WEEKEND = {Day(5), Day(6)}


def weekday_names(days: Iterable[Day], last: str = "and", *, weekend: str = "", every: str = "") -> str:
    """Names of plain days; Monday to Friday is a weekday, and all seven are a day."""
    plain = set(days)
    if plain == _WORKING_DAYS:
        return f"{every}weekday"
    if len(plain) == 7:
        return f"{every}day"
    if plain == _WEEKEND and weekend:
        return weekend
    return joined_by([WEEKDAY_NAMES[day.weekday] for day in sorted(plain)], last)


def ordinal_days(days: Iterable[Day], last: str = "and", every: str = "every") -> str:
    """Days with ordinals, gathered by weekday: the first and third Monday and the last Friday."""
    ordinals: dict[int, list[int]] = {}
    for day in days:
        ordinals.setdefault(day.weekday, []).append(day.ordinal)
    phrases = []
    for weekday, numbers in sorted(ordinals.items()):
        if 0 in numbers:
            phrases.append(f"{every} {WEEKDAY_NAMES[weekday]}")
        else:
            phrases.append(f"the {listed(numbers, ordinal, last)} {WEEKDAY_NAMES[weekday]}")
    return joined_by(phrases, last)


def ordinal(number: int) -> str:
    if number < 0:
        return "last" if number == -1 else f"{ordinal(-number)}-to-last"
    return _ORDINALS[number] if number < len(_ORDINALS) else nth(number)


def nth(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def month_name(number: int) -> str:
    return MONTH_NAMES[number - 1]


def month_names(months: Iterable[int]) -> str:
    return joined_by([month_name(number) for number in months])


def month_day(number: int) -> str:
    return f"the {nth(number)}" if number > 0 else f"the {ordinal(number)} day"


def year_day(number: int) -> str:
    return f"day {number}" if number > 0 else f"the {ordinal(number)} day"


def week_of_year(number: int) -> str:
    return f"week {number}" if number > 0 else f"the {ordinal(number)} week of the year"


def listed(numbers: Iterable[int], word: Callable[[int], str], last: str = "and") -> str:
    """Numbers in words: those that count from the front first, three or more in a row as a span."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers), key=lambda number: (number < 0, number)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    phrases: list[str] = []
    for run in runs:
        phrases += [f"{word(run[0])} to {word(run[-1])}"] if len(run) > 2 else map(word, run)
    return joined_by(phrases, last)


def joined_by(phrases: Sequence[str], last: str = "and") -> str:
    """Phrases with commas between them and a word before the last."""
    return f" {last} ".join(part for part in (", ".join(phrases[:-1]), *phrases[-1:]) if part)
