"""The bench commands measure on a throwaway database and print one JSON object."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from bench.alone import COMMANDS
from tests.shape.tree import ROOT
from timebell.db.embedded import EmbeddedServer


def program(name: str) -> list[str]:
    """What a machine is asked is a command; what is asked of Timebell alone stays in the repository."""
    return [sys.executable, "-m", *(["bench.alone"] if name in COMMANDS else ["timebell", "bench"])]


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program(arguments[0]), *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def databases_of(server: EmbeddedServer) -> set[str]:
    """Those of the benches; tests that run at the same time have others."""
    admin = await asyncpg.connect(server.url("postgres", role="admin"))
    try:
        rows = await admin.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'bench%'")
        return {row["datname"] for row in rows}
    finally:
        await admin.close()


def bench(*arguments: str) -> dict[str, object]:
    ended = run_bench(*arguments)
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, object] = json.loads(ended.stdout)
    return answer


def test_drain_is_measured_beside_the_raw_loop() -> None:
    answer = bench("drain", "--jobs", "1000", "--future", "1000", "--hold-snapshot")
    assert answer["bench"] == "drain"
    assert (answer["jobs"], answer["future"]) == (1000, 1000)
    for side in ("timebell", "raw"):
        costs = answer[side]
        assert isinstance(costs, dict)
        assert costs["per_s"] > 0
        assert costs["client_us"] > 0
        assert "server_us" in costs
    assert isinstance(answer["ratio"], float)
    assert isinstance(answer["peak_memory_mb"], float)


@pytest.mark.slow
def test_http_is_measured_beside_plain_fastapi() -> None:
    answer = bench("http", "--requests", "200", "--connections", "8")
    assert (answer["bench"], answer["requests"], answer["connections"]) == ("http", 200, 8)
    for side in ("timebell", "plain"):
        figures = answer[side]
        assert isinstance(figures, dict)
        assert figures["per_s"] > 0
    assert isinstance(answer["ratio"], float)
    bulk = answer["bulk"]
    assert isinstance(bulk, dict)
    assert bulk["size"] == 100
    assert bulk["jobs_per_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("enrol", "--bookings", "2000"),
        ("http", "--requests", "4000"),
        ("plan", "--schedules", "4000", "--due", "4000"),
        ("suggest", "--requests", "150"),
    ],
    ids=lambda given: given[0],
)
def test_the_bars_are_met(arguments: Sequence[str]) -> None:
    """They are processor time, which does not say how busy the machine was."""
    answer = bench(*arguments, "--check")
    bars = answer["bars"]
    assert isinstance(bars, list)
    assert bars
    assert all(bar["is_met"] for bar in bars)


@pytest.mark.slow
def test_nothing_is_left_of_a_bench_that_is_terminated() -> None:
    command = [*program("http"), "--requests", "1000000"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    servers: list[int] = []
    try:
        deadline = time.monotonic() + 60
        while not any(is_listening(pid) for pid in servers) and time.monotonic() < deadline:
            servers = [pid for pid in children_of(process.pid) if b"http_plain" in command_of(pid)]
            time.sleep(0.05)
        assert servers
        process.terminate()
        code = process.wait(30)
        assert [command_of(pid) for pid in servers] == [b""]
        assert code == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait(30)
        for pid in servers:
            if b"http_plain" in command_of(pid):
                os.kill(pid, signal.SIGKILL)


def is_listening(pid: int) -> bool:
    """The port is the last word of the command."""
    port = command_of(pid).rstrip(b"\0").rpartition(b"\0")[2]
    with socket.socket() as probe:
        return port.isdigit() and probe.connect_ex(("127.0.0.1", int(port))) == 0


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def command_of(pid: int) -> bytes:
    line = Path(f"/proc/{pid}/cmdline")
    return line.read_bytes() if line.exists() else b""


@pytest.mark.slow
def test_suggesting_is_measured_over_http() -> None:
    answer = bench("suggest", "--requests", "20", "--connections", "4", "--meetings", "10")
    assert (answer["bench"], answer["people"], answer["weeks"]) == ("suggest", 10, 4)
    assert (answer["blocks"], answer["meetings"], answer["requests"]) == (200, 10, 20)
    figures = answer["timebell"]
    assert isinstance(figures, dict)
    assert figures["per_s"] > 0


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
    steady = bench("steady", "--rate", "200", "--seconds", "2")
    assert (steady["n"], steady["left"]) == (400, 0)
    assert isinstance(steady["written_per_s"], int)


async def test_a_bench_can_work_on_a_server_that_others_use_too(server: EmbeddedServer) -> None:
    before = await databases_of(server)
    assert bench("enqueue", "--jobs", "100", "--data", str(server.folder))["jobs"] == 100
    assert await databases_of(server) == before


def test_a_folder_without_a_server_is_refused(tmp_path: Path) -> None:
    ended = run_bench("enqueue", "--data", str(tmp_path))
    assert ended.returncode == 1
    assert "No embedded server runs on" in ended.stderr


@pytest.mark.slow
def test_a_snapshot_is_held_for_as_long_as_it_was_asked() -> None:
    began = time.monotonic()
    answer = bench("drain", "--jobs", "500", "--hold-snapshot", "--held-seconds", "3")
    assert answer["held_seconds"] == 3
    assert time.monotonic() - began > 3


def test_recurrences_are_measured_without_a_server() -> None:
    answer = bench("next", "--seconds", "1")
    lines = answer["recurrences"]
    assert isinstance(lines, list)
    assert answer["slowest_per_s"] == min(line["per_s"] for line in lines)
    # Processor time, and five times of what is promised, since other tests may run beside this one.
    assert all(line["us"] <= 500 for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["inbox", "log"])
def test_notifications_are_measured_beside_their_own_statements(channel: str) -> None:
    answer = bench("notify", "--channel", channel, "--jobs", "300")
    assert (answer["bench"], answer["channel"], answer["jobs"]) == ("notify", channel, 300)
    for side in ("timebell", "raw"):
        costs = answer[side]
        assert isinstance(costs, dict)
        assert costs["per_s"] > 0
        assert costs["client_us"] > 0
    assert isinstance(answer["ratio"], float)


@pytest.mark.slow
def test_the_planner_is_measured_and_claims_only_what_is_due() -> None:
    answer = bench("plan", "--schedules", "300", "--due", "60", "--steps", "2")
    assert answer["claimed"] == 60 + 1
    for name in ("a_day_each", "a_horizon_each"):
        part = answer[name]
        assert isinstance(part, dict)
        assert part["occurrences"] >= 60


@pytest.mark.slow
def test_a_digest_takes_less_than_a_thousandth_of_each_processor() -> None:
    """How many a second that is, and how late others are, depends on how busy the machine is."""
    bars = bench("digests", "--people", "10000")["bars"]
    assert isinstance(bars, list)
    met = {bar["figure"]: bar["is_met"] for bar in bars}
    assert met["timebell.client_us"]
    assert met["timebell.server_us"]


@pytest.mark.slow
def test_digests_are_measured_and_what_is_due_meanwhile() -> None:
    answer = bench("digests", "--people", "3000", "--rate", "40", "--sends")
    assert (answer["bench"], answer["people"], answer["rate"]) == ("digests_and_mails", 3000, 40)
    costs = answer["timebell"]
    assert isinstance(costs, dict)
    assert costs["per_s"] > 0
    for who in ("own", "others", "reminders"):
        late = answer[f"late_{who}"]
        assert isinstance(late, dict)
        assert late["n"] > 0
        assert late["p50_ms"] <= late["p99_ms"] <= late["max_ms"]


@pytest.mark.slow
def test_enrolling_is_measured_beside_a_bare_insert_of_the_same_rows() -> None:
    answer = bench("enrol", "--bookings", "300")
    assert (answer["bench"], answer["bookings"], answer["steps"]) == ("enrol", 300, 8)
    for side in ("timebell", "raw", "one_by_one"):
        costs = answer[side]
        assert isinstance(costs, dict)
        assert costs["per_s"] > 0
        assert costs["client_us"] > 0
    assert isinstance(answer["ratio"], float)
