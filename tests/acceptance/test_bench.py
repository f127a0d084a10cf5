"""The bench commands measure on a throwaway database and print one JSON object."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def bench(*arguments: str) -> dict[str, object]:
    ended = subprocess.run(
        [sys.executable, "-m", "timebell", "bench", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, object] = json.loads(ended.stdout)
    return answer


def test_drain_is_measured_beside_the_raw_loop() -> None:
    answer = bench("drain", "--jobs", "1000", "--future", "1000", "--hold-snapshot")
    assert answer["bench"] == "drain"
    assert (answer["jobs"], answer["future"]) == (1000, 1000)
    assert isinstance(answer["timebell"], dict)
    assert answer["timebell"]["per_s"] > 0
    assert isinstance(answer["raw"], dict)
    assert answer["raw"]["per_s"] > 0
    assert isinstance(answer["ratio"], float)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["external", "transactional"])
def test_the_other_modes_are_measured_too(mode: str) -> None:
    assert bench("drain", "--jobs", "500", "--mode", mode)["mode"] == mode


def test_lateness_counts_what_was_early() -> None:
    answer = bench("late", "--rate", "100", "--seconds", "2")
    assert (answer["n"], answer["early"]) == (200, 0)
    assert {"p50_ms", "p99_ms", "max_ms", "rate", "seconds"} <= answer.keys()


@pytest.mark.slow
def test_enqueue_and_steady_are_measured() -> None:
    assert {"timebell", "raw", "ratio"} <= bench("enqueue", "--jobs", "5000").keys()
    assert bench("steady", "--rate", "200", "--seconds", "2")["left"] == 0
