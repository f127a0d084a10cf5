"""Whatever text a recurrence is, the answer is a named error or a sound result, and it comes soon."""

from __future__ import annotations

import string
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.recurrence_model import WEEKDAYS
from tests.unit.recurrence_rules import FREQUENCIES, make_sample
from timebell.errors import InvalidInput, RecurrenceError, UnknownTimezone
from timebell.rules.localtime import zone
from timebell.rules.recurrence import Checked, Occurrence, check_recurrence, describe, last_local, occurrences

QUICK = settings(max_examples=150, deadline=None)
MANY = settings(max_examples=5000, deadline=None)

# Four times what an answer may take, because the machine that runs the tests is not the one that was measured.
CPU_SECONDS_MAX = 0.8

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
TIMEZONES = (
    None,
    "UTC",
    "Europe/Berlin",
    "Pacific/Apia",
    "America/St_Johns",
    "Pacific/Kiritimati",
    "Etc/GMT+12",
)
NAMES = (
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"),
    *("BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS", "BYEASTER", "RSCALE", "X-PART", ""),
)

starts = st.one_of(
    st.datetimes(),
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
    st.sampled_from(
        [datetime.min, datetime.max, datetime(1, 1, 1, 23), datetime(9999, 12, 31), datetime(2024, 2, 29)]
    ),
)
numbers = st.one_of(
    st.integers(-60, 400).map(str),
    st.sampled_from(
        ["0", "-0", "+1", "007", "1e3", "1_0", "٣", "9" * 10, "9" * 11, "-" * 3, "", " 1", "0x1"]
    ),
)
days = st.builds(
    lambda number, name: f"{number}{name}",
    st.sampled_from(["", "1", "-1", "5", "54", "+2", "0"]),
    st.sampled_from([*WEEKDAYS, "XX"]),
)
untils = st.one_of(
    st.datetimes().map(lambda at: f"{at:%Y%m%dT%H%M%S}"),
    st.datetimes().map(lambda at: f"{at:%Y%m%dT%H%M%S}Z"),
    st.dates().map(lambda day: f"{day:%Y%m%d}"),
    st.sampled_from(["20260230", "20261301T000000Z", "20260101T240000", "2026-01-01", "99991231T235959Z"]),
)
values = st.one_of(
    st.lists(numbers, min_size=1, max_size=5).map(",".join),
    st.lists(days, min_size=1, max_size=5).map(",".join),
    st.sampled_from(FREQUENCIES),
    untils,
)
any_part = st.builds(lambda name, value: f"{name}={value}", st.sampled_from(NAMES), values)
# Enough sense to pass the reader often, enough nonsense to find what it lets through.
near_rules = st.builds(
    lambda freq, parts: ";".join([f"FREQ={freq}", *parts]),
    st.sampled_from(FREQUENCIES),
    st.lists(any_part, max_size=6),
)
durations = st.text("PTYMWDHS0123456789.-", max_size=12).map(lambda text: f"every {text}")
cron_fields = st.lists(st.text("0123456789*/-,LW#?@MONJAN ", min_size=1, max_size=6), min_size=4, max_size=6)
crons = cron_fields.map(lambda fields: f"cron {' '.join(fields)}")


def answer(
    recurrence: str, start: datetime, timezone: str | None, after: datetime | None, random: Random
) -> list[Occurrence] | None:
    """All that can be asked of a recurrence, or None if it was refused by name."""
    began = time.process_time()
    field: str | None = "recurrence"
    found: list[Occurrence] | None
    try:
        describe(recurrence, start, timezone)
        last_local(recurrence, start_local=start)
        found = occurrences(
            recurrence,
            start_local=start,
            timezone=timezone,
            after=after if after is None or timezone is None else after.replace(tzinfo=UTC),
            limit=8,
            on_gap=random.choice(["shift", "skip"]),
            on_fold=random.choice(["first", "second"]),
        )
    except InvalidInput as refused:
        found, field = None, refused.field
    assert field, f"{recurrence!r} was refused without the name of what is wrong"
    spent = time.process_time() - began
    assert spent < CPU_SECONDS_MAX, f"{spent:.2f} s of work for {recurrence!r} from {start}"
    return found


def check_sound(
    found: list[Occurrence] | None, start: datetime, timezone: str | None, after: datetime | None
) -> None:
    for earlier, later in pairwise(found or []):
        assert earlier.at < later.at
    for one in found or []:
        assert one.local >= start.replace(microsecond=0)
        assert (one.at.tzinfo is None) == (timezone is None)
        assert after is None or one.at.replace(tzinfo=None) > after


def mutated(random: Random, text: str) -> str:
    """A rule as a slip, a broken program or an enemy would send it."""
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(text))
        parts = text.split(";")
        text = random.choice(
            [
                text[:place] + text[place + 1 :],
                text[:place] + random.choice(string.printable + "٣ıß\0") + text[place:],
                text[:place]
                + random.choice(["=", ";", ",", "-", "0", "99999999999", "RRULE:"])
                + text[place:],
                text + ";" + random.choice(parts),
                ";".join(random.sample(parts, len(parts))),
                text.swapcase(),
                text.replace("=", "=-", 1)
                if place % 2
                else text.replace("1", "1" * random.randint(2, 12), 1),
                text + f";COUNT={10 ** random.randint(0, 12)}",
                text + f"\r\nRRULE:{text}",
            ]
        )
    return text


def check_any(
    text: str, start: datetime, timezone: str | None, after: datetime | None, random: Random
) -> None:
    check_sound(answer(text, start, timezone, after, random), start, timezone, after)


chances = st.randoms(use_true_random=False)
afters = st.one_of(st.none(), starts)
questions = st.one_of(st.text(max_size=80), near_rules, durations, crons)


@QUICK
@given(questions, starts, st.sampled_from(TIMEZONES), afters, chances)
@example("FREQ=DAILY", datetime.max, "Pacific/Apia", None, Random(0))
@example("FREQ=DAILY", datetime.min, "Pacific/Apia", None, Random(0))
@example("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", datetime(2020, 1, 1), "UTC", None, Random(0))
@example("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", datetime(2020, 1, 1), "UTC", None, Random(0))
def test_any_text(
    text: str, start: datetime, timezone: str | None, after: datetime | None, random: Random
) -> None:
    check_any(text, start, timezone, after, random)


@QUICK
@given(chances, starts, st.sampled_from(TIMEZONES), afters)
def test_sound_rules_from_any_start(
    random: Random, start: datetime, timezone: str | None, after: datetime | None
) -> None:
    """From the first second of the first year to the last of the last, in timezones on both sides of UTC."""
    check_any(make_sample(random).rule, start, timezone, after, random)


@QUICK
@given(chances, starts, st.sampled_from(TIMEZONES), afters)
def test_mutated_rules(random: Random, start: datetime, timezone: str | None, after: datetime | None) -> None:
    check_any(mutated(random, make_sample(random).rule), start, timezone, after, random)


@pytest.mark.slow
@MANY
@given(questions, starts, st.sampled_from(TIMEZONES), afters, chances)
def test_much_text(
    text: str, start: datetime, timezone: str | None, after: datetime | None, random: Random
) -> None:
    check_any(text, start, timezone, after, random)


@pytest.mark.slow
@MANY
@given(chances, starts, st.sampled_from(TIMEZONES), afters)
def test_many_mutated_rules(
    random: Random, start: datetime, timezone: str | None, after: datetime | None
) -> None:
    check_any(mutated(random, make_sample(random).rule), start, timezone, after, random)


def checked_or_refused(text: str, start: datetime) -> Checked | RecurrenceError:
    try:
        return check_recurrence(text, start_local=start, timezone="Europe/Berlin", now=NOW)
    except RecurrenceError as refused:
        return refused


@QUICK
@given(questions, starts, chances)
def test_a_refusal_has_a_part_a_reason_and_a_remedy(text: str, start: datetime, random: Random) -> None:
    """What passes the check of a schedule is due again; what does not says what to do about it."""
    text = random.choice([text, make_sample(random).rule, mutated(random, make_sample(random).rule)])
    answered = checked_or_refused(text, start)
    if isinstance(answered, Checked):
        assert answered.first.at <= answered.upcoming.at > NOW
        return
    message = str(answered)
    assert all(words and words in message for words in (answered.part, answered.reason, answered.remedy))
    assert message.isprintable()
    assert len(message) < 500


def zone_or_message(name: str) -> str:
    try:
        return zone(name).key
    except UnknownTimezone as unknown:
        return str(unknown)


@QUICK
@given(
    st.one_of(
        st.text(max_size=200), st.sampled_from(["../../etc/passwd", "/etc/localtime", "UTC+4", "utc", ""])
    )
)
def test_any_timezone_name(name: str) -> None:
    answered = zone_or_message(name)
    assert answered == name or (
        answered.startswith("timezone: ") and answered.isprintable() and len(answered) < 500
    )


@pytest.mark.parametrize("length", [513, 100_000, 5_000_000])
@pytest.mark.parametrize("head", ["FREQ=DAILY;BYDAY=MO", "every PT", "cron ", "", "FREQ=DAILY;BYMONTHDAY=1"])
def test_long_text_is_refused_before_it_is_read(head: str, length: int) -> None:
    began = time.process_time()
    with pytest.raises(RecurrenceError):
        check_recurrence(
            head + "1" * length, start_local=datetime(2026, 1, 1), timezone="UTC", now=NOW - timedelta(days=1)
        )
    with pytest.raises(RecurrenceError):
        occurrences(head + ",MO" * length, start_local=datetime(2026, 1, 1), timezone="UTC")
    assert time.process_time() - began < CPU_SECONDS_MAX
