"""What a hostile rule may cost: 200 ms of processor time and 64 MB, whatever is asked of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.test_hostile_rules import ANSWERED, NEVER, NEXT, REFUSED, START
from timebell.errors import InvalidInput
from timebell.rules.previewing import preview
from timebell.rules.recurrence import check_recurrence, describe, last_local, occurrences

BERLIN = "Europe/Berlin"
NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
SECONDS_MAX = 0.2
KILOBYTES_MAX = 64 * 1024
# Other processes slow this one down, never speed it up: the quickest of a few tries is what the work itself costs.
TRIES = 4

RULES = sorted({rule for rule, *_ in NEXT} | set(NEVER) | set(ANSWERED) | {rule for rule, _ in REFUSED})
DATES = [START + timedelta(days=day) for day in range(1_000)]


def ask_next(rule: str) -> None:
    occurrences(rule, start_local=START, timezone=BERLIN, after=NOW, limit=1)


def ask_hundred(rule: str) -> None:
    occurrences(rule, start_local=START, timezone=BERLIN, limit=100)


def write(rule: str) -> None:
    check_recurrence(rule, start_local=START, timezone=BERLIN, now=NOW, exdates=DATES, rdates=DATES)


def tell(rule: str) -> None:
    describe(rule, START, BERLIN)


def end(rule: str) -> None:
    last_local(rule, start_local=START)


def look(rule: str) -> None:
    preview(rule, start_local=START, timezone=BERLIN, now=NOW, count=100)


QUESTIONS = [ask_next, ask_hundred, write, tell, end, look]


def quickest(question: Callable[[str], None], rule: str) -> float:
    """Processor time of the quickest try, which ends as soon as one is quick enough."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.process_time()
        with suppress(InvalidInput):
            question(rule)
        best = min(best, time.process_time() - began)
        if best < SECONDS_MAX:
            break
    return best


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_hostile_rule_takes_longer_than_200_ms(question: Callable[[str], None]) -> None:
    costs = {rule[:60]: quickest(question, rule) for rule in RULES}
    assert not {rule: cost for rule, cost in costs.items() if cost >= SECONDS_MAX}


def kilobytes_most() -> int:
    """The most memory that this process ever had, since it began as a program of its own."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Ask everything of every rule, and print by how many kilobytes that raised what the process needs."""
    ask_next("FREQ=DAILY")
    before = kilobytes_most()
    for question in QUESTIONS:
        for rule in RULES:
            with suppress(InvalidInput):
                question(rule)
    print(kilobytes_most() - before)


def test_no_hostile_rule_takes_more_than_64_mb() -> None:
    """All of them one after the other, so that what one leaves behind counts as well."""
    program = "from tests.unit.test_hostile_cost import main; main()"
    asked = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert 0 <= int(asked.stdout) < KILOBYTES_MAX
