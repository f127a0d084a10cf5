"""`timebell up`, from a fresh folder to its end, whatever end that is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import (
    answer,
    assert_refused,
    command,
    free_port,
    postmaster_of,
    until,
    wait_gone,
)
from timebell import App, Job, running

SLOW_APP = """
import asyncio, pathlib, time
from timebell import App, Handler

NOTES = pathlib.Path(__file__).parent

async def wait(job):
    (NOTES / job.kind).touch()
    await asyncio.sleep(60)

def block(job):
    (NOTES / job.kind).touch()
    time.sleep(60)

async def note(job):
    with (NOTES / "ran").open("a") as file:
        file.write(f"{job.payload['name']}\\n")

app = App(name="slow", handlers={
    "slow.wait": Handler(run=wait, mode="external"), "slow.block": Handler(run=block, mode="external"),
    "slow.note": note,
})
"""


async def _never(_: Job) -> None:
    raise AssertionError("this process has no engine")


def enqueue(folder: Path, *names: str, kind: str = "slow.note", delay: timedelta | None = None) -> list[Any]:
    """Enqueue from a program of the user's own, beside the process that runs."""
    kinds = ("slow.wait", "slow.block", "slow.note")

    async def enqueue_all() -> list[Any]:
        app = App(name="slow", handlers=dict.fromkeys(kinds, _never))
        async with running(app, data=folder, engine=False) as bell, bell.transaction() as tx:
            return [(await bell.enqueue(tx, kind, {"name": name}, delay=delay)).id for name in names]

    return asyncio.run(enqueue_all())


@pytest.fixture
def slow_app(place: Path) -> Path:
    (place / "slow_app.py").write_text(SLOW_APP)
    return place


def test_a_fresh_folder_comes_up_keeps_time_and_ends_in_order(place: Path, up: Up) -> None:
    folder = place / "data"
    process = up(folder, TIMEBELL_LOG_FORMAT="json")
    assert process.status("/healthz") == 200
    assert process.status("/nothing") == 404
    report = answer("check", "--data", folder, "--jobs", 200, "--seconds", 2)
    assert (report["jobs"], report["finished"], report["early"]) == (200, 200, 0)
    assert 0 <= report["p50_ms"] <= report["p99_ms"] <= report["max_ms"]
    postmaster = postmaster_of(folder)
    assert process.stop() == 0, process.words
    wait_gone(postmaster)
    assert process.words.startswith("Timebell is ready")
    assert {json.loads(line)["level"] for line in process.log.splitlines()} == {"info"}


def test_a_restart_keeps_what_is_owed(used_folder: Path, up: Up) -> None:
    first = up(used_folder)
    [id] = enqueue(used_folder, "later", delay=timedelta(days=3))
    assert first.stop() == 0, first.words
    second = up(used_folder)
    [job] = answer("jobs", "list", "--data", used_folder)["data"]
    assert (job["id"], job["state"]) == (str(id), "pending")
    assert second.stop() == 0, second.words


def test_a_second_process_on_the_folder_is_refused(used_folder: Path, up: Up) -> None:
    first = up(used_folder)
    refused = command("up", "--data", used_folder, "--port", free_port())
    assert_refused(refused, 1, str(used_folder), str(first.popen.pid), "--data")
    assert first.status() == 200


def test_a_killed_process_leaves_its_debts_to_the_next(slow_app: Path, used_folder: Path, up: Up) -> None:
    first = up(used_folder)
    enqueue(used_folder, "one", "two", delay=timedelta(milliseconds=1))
    postmaster = postmaster_of(used_folder)
    first.signal(signal.SIGKILL)
    first.wait()
    second = up(used_folder, TIMEBELL_APPS="slow_app")
    until((slow_app / "ran").exists, 20, "the jobs that were pending")
    until(lambda: len((slow_app / "ran").read_text().split()) == 2, 20, "both of them")
    assert postmaster_of(used_folder) != postmaster
    assert second.stop() == 0, second.words


def test_a_stop_while_it_starts_leaves_nothing_behind(place: Path, up: Up) -> None:
    folder = place / "data"
    first = up(folder, is_ready=False)
    until((folder / "lock").exists, 20, "the folder being taken")
    assert first.stop() == 0, first.words
    assert up(folder).stop() == 0


@pytest.mark.req("U-21")
def test_what_does_not_end_in_time_is_given_back(slow_app: Path, used_folder: Path, up: Up) -> None:
    process = up(used_folder, TIMEBELL_APPS="slow_app", TIMEBELL_STOP_SECONDS="0.5")
    ids = enqueue(used_folder, "slow", kind="slow.wait") + enqueue(used_folder, "slow", kind="slow.block")
    for kind in ("slow.wait", "slow.block"):
        until((slow_app / kind).exists, 20, f"the handler of {kind}")
    assert process.stop() == 0, process.words
    up(used_folder)
    found = answer("jobs", "list", "--data", used_folder)["data"]
    assert {(job["id"], job["state"], job["attempt"]) for job in found} == {
        (str(id), "pending", 0) for id in ids
    }


def test_a_second_signal_hastens_the_end_and_breaks_nothing(
    slow_app: Path, used_folder: Path, up: Up
) -> None:
    process = up(used_folder, TIMEBELL_APPS="slow_app", TIMEBELL_STOP_SECONDS="60")
    [id] = enqueue(used_folder, "slow", kind="slow.wait")
    until((slow_app / "slow.wait").exists, 20, "the handler")
    process.signal(signal.SIGINT)
    until(lambda: process.status() == 503, 5, "the answer that it stops")
    began = time.monotonic()
    for _ in range(3):
        process.signal(signal.SIGINT)
    assert process.wait() == 0, process.words
    assert time.monotonic() - began < 10
    up(used_folder)
    assert answer("jobs", "show", id, "--data", used_folder)["state"] == "pending"


def test_it_ends_when_its_server_does(used_folder: Path, up: Up) -> None:
    process = up(used_folder)
    postmaster = postmaster_of(used_folder)
    until(lambda: process.status() == 200, 5, "readiness")
    os.kill(postmaster, signal.SIGKILL)
    assert process.wait(20) == 1
    assert "ended unexpectedly" in process.words
    assert "Traceback" not in process.words
    assert up(used_folder).stop() == 0
