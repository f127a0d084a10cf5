"""Texts that an engine led by coverage makes up; hypothesis makes up the others.

It needs atheris, which `make fuzzer` installs and `make test-all` with it, where there is a wheel for the machine. No
requirement rests on it: whoever has none is left with hypothesis.

By hand, for as long as you like: `python -m tests.unit.test_recurrence_atheris -max_total_time=600`.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

RUNS = 20_000
# What texts are put together from, beside characters of any kind.
TOKENS = (
    *("RRULE:", "every ", "cron ", "FREQ=", ";", ",", "=", "-", " ", "*", "/", "PT", "T000000Z", "20261115"),
    *("SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"),
    *(";INTERVAL=", ";COUNT=", ";UNTIL=", ";WKST=", ";BYMONTH=", ";BYWEEKNO=", ";BYYEARDAY=", ";BYMONTHDAY="),
    *(
        ";BYDAY=",
        ";BYHOUR=",
        ";BYMINUTE=",
        ";BYSECOND=",
        ";BYSETPOS=",
        "MO",
        "TU",
        "WE",
        "TH",
        "FR",
        "SA",
        "SU",
    ),
    *(
        "0",
        "1",
        "2",
        "5",
        "12",
        "23",
        "29",
        "30",
        "31",
        "53",
        "59",
        "60",
        "366",
        "1000000000",
        "L",
        "#",
        "M",
        "S",
    ),
)
MINUTES = (datetime.max - datetime.min) // timedelta(minutes=1)


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    # Only what is imported here is measured: the rules, and not what the checks need besides.
    with atheris.instrument_imports(include=["timebell.rules"]):
        fuzz: Any = importlib.import_module("tests.unit.test_recurrence_fuzz")

    def one(data: bytes) -> None:
        chosen = atheris.FuzzedDataProvider(data)
        start = datetime.min + timedelta(minutes=chosen.ConsumeIntInRange(0, MINUTES))
        after = datetime.min + timedelta(minutes=chosen.ConsumeIntInRange(0, MINUTES))
        timezone = chosen.PickValueInList(list(fuzz.TIMEZONES))
        seed, count = chosen.ConsumeIntInRange(0, 3), chosen.ConsumeIntInRange(0, 40)
        text = "".join(chosen.PickValueInList(list(TOKENS)) for _ in range(count))
        text += chosen.ConsumeUnicodeNoSurrogates(600)
        fuzz.check_any(text, start, timezone, after if seed % 2 else None, Random(seed))

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


@pytest.mark.slow
def test_no_text_that_atheris_finds_is_answered_badly() -> None:
    pytest.importorskip("atheris", reason="atheris is not installed; `make fuzzer` installs it")
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.test_recurrence_atheris", f"-runs={RUNS}", "-seed=1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert f"Done {RUNS} runs" in done.stderr


if __name__ == "__main__":
    main()
