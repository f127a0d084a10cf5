"""The tables of rules and what they are due at, in wall time and through a timezone without clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.recurrence_cases import FAMILIES
from tests.unit.recurrence_cases_calendars import CALENDARS
from tests.unit.recurrence_model import stamp, stamps
from timebell.errors import RecurrenceError
from timebell.rules.recurrence import occurrences

KATHMANDU = timedelta(hours=5, minutes=45)


@dataclass(frozen=True, slots=True)
class Case:
    start: datetime
    rule: str
    expected: list[datetime]
    goes_on: bool

    @property
    def limit(self) -> int:
        return len(self.expected) + (0 if self.goes_on else 5)


def cases(table: str) -> Iterator[Case]:
    start = datetime.min
    lines = iter(table.strip().splitlines())
    for line in lines:
        if line.startswith("@"):
            start = stamp(line.removeprefix("@ "))
        else:
            listed = next(lines).strip()
            yield Case(start, line, stamps(listed.removesuffix("...")), listed.endswith("..."))


CASES = [*cases(FAMILIES), *cases(CALENDARS)]
NAMES = [f"{case.start:%Y%m%d}-{case.rule}" for case in CASES]


@pytest.mark.req("U-9")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_rule_of_the_tables(case: Case) -> None:
    found = occurrences(case.rule, start_local=case.start, timezone=None, limit=case.limit)
    assert [occurrence.local for occurrence in found] == case.expected
    assert [occurrence.at for occurrence in found] == case.expected


@pytest.mark.req("U-9", "X-R12")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_rule_of_the_tables_in_a_timezone(case: Case) -> None:
    """A timezone moves every instant by its offset and no wall time at all."""
    found = occurrences(case.rule, start_local=case.start, timezone="Asia/Kathmandu", limit=case.limit)
    assert [occurrence.local for occurrence in found] == case.expected
    assert [occurrence.at for occurrence in found] == [
        (local - KATHMANDU).replace(tzinfo=UTC) for local in case.expected
    ]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_each_occurrence_is_the_next_after_the_one_before_it(case: Case) -> None:
    """Asked one at a time from where the last answer was, the answers are the same."""
    after = case.start - timedelta(seconds=1)
    for expected in case.expected:
        (found,) = occurrences(case.rule, start_local=case.start, timezone=None, after=after, limit=1)
        assert found.local == expected
        after = expected
    if not case.goes_on:
        assert occurrences(case.rule, start_local=case.start, timezone=None, after=after, limit=1) == []


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("FREQ=YEARLY;BYMONTHDAY=1,3", "BYMONTHDAY"),
        ("FREQ=YEARLY;BYMONTHDAY=1,3;BYDAY=TU,TH", "BYMONTHDAY"),
        ("FREQ=YEARLY;BYMONTHDAY=15;BYHOUR=6,18;BYSETPOS=3,-3", "BYMONTHDAY"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "BYDAY"),
        ("FREQ=DAILY;BYEASTER=0", "BYEASTER"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20300101T000000Z", "COUNT"),
    ],
)
def test_what_other_engines_guess_at_is_refused(rule: str, part: str) -> None:
    with pytest.raises(RecurrenceError) as refused:
        occurrences(rule, start_local=datetime(1997, 9, 2, 9), timezone=None)
    assert refused.value.part == part


@pytest.mark.parametrize("frequency", ["WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"])
def test_where_the_number_of_a_day_counts_nothing_it_is_left_out(frequency: str) -> None:
    numbered, plain = (
        occurrences(f"FREQ={frequency};BYDAY={days}", start_local=datetime(1997, 9, 2, 9), timezone=None)
        for days in ("1TU,-1TH", "TU,TH")
    )
    assert numbered == plain
