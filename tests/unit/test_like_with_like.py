"""Instants are compared with instants and wall times with wall times, east of UTC and west of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timebell.rules.recurrence import Occurrence, occurrences

# From twelve hours behind to fourteen ahead, with a change of clocks within the fortnight in three of them.
TIMEZONES = (
    *("Etc/GMT+12", "Pacific/Marquesas", "America/New_York", "America/St_Johns", "UTC", "Europe/Berlin"),
    *("Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Kiritimati"),
)
RULES = (
    "FREQ=DAILY",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=WEEKLY;BYDAY=MO,SU,WE",
    "every PT7H",
    "cron 30 2 * * *",
)
START = datetime(2026, 3, 20, 2, 30)
FORTNIGHT = timedelta(days=14)


def after_another(rule: str, timezone: str, until: datetime) -> list[Occurrence]:
    """As a planner asks: each time for the next one after the instant of the last."""
    found: list[Occurrence] = []
    cursor = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(200):
        following = occurrences(
            rule, start_local=START, timezone=timezone, after=cursor, before=until, limit=1
        )
        if not following:
            return found
        found += following
        cursor = following[0].at
    raise AssertionError(f"{rule} in {timezone} never comes to an end")


@pytest.mark.req("X-R12")
@pytest.mark.parametrize("timezone", TIMEZONES)
@pytest.mark.parametrize("rule", RULES)
def test_a_cursor_finds_each_one_once(rule: str, timezone: str) -> None:
    [first] = occurrences(rule, start_local=START, timezone=timezone, limit=1)
    until = first.at + FORTNIGHT
    whole = occurrences(rule, start_local=START, timezone=timezone, before=until, limit=200)
    assert len(whole) >= 6
    assert after_another(rule, timezone, until) == whole


@pytest.mark.req("X-R12")
@pytest.mark.parametrize("timezone", TIMEZONES)
def test_until_with_a_z_is_an_instant_wherever_it_is_read(timezone: str) -> None:
    """The last one still belongs to the rule, and does not one second before, whatever the clocks there show."""
    *_, last = occurrences("FREQ=DAILY", start_local=START, timezone=timezone, limit=5)
    for seconds, count in ((0, 5), (-1, 4)):
        until = last.at + timedelta(seconds=seconds)
        rule = f"FREQ=DAILY;UNTIL={until:%Y%m%dT%H%M%SZ}"
        assert len(occurrences(rule, start_local=START, timezone=timezone, limit=9)) == count
