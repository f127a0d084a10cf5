"""`timebell up --sandbox` and `timebell simulate`, as somebody uses them who tests an integration over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import Process, answer, assert_refused, clean_environment, command, free_port
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT

KEY = "tb_test_0123456789abcdef"
START = "2026-03-01T00:00:00Z"
APP = """
from datetime import timedelta
from timebell import App, Dead, Snooze

async def weekly(job):
    times = (job.cursor or {"times": 0})["times"] + 1
    return Snooze(delay=timedelta(days=7), cursor={"times": times}) if times < 53 else None

async def die(job):
    return Dead("as asked")

async def begin(bell):
    async with bell.transaction() as tx:
        for number in range(10):
            once = {"key": f"n{number}", "key_lifetime": timedelta(days=3650), "on_conflict": "keep"}
            await bell.enqueue(tx, "trial.weekly", **once)

app = App(name="trial", handlers={"trial.weekly": weekly, "trial.die": die}, on_declare=begin)
"""


def with_app(place: Path) -> dict[str, str]:
    """The variables with which the app of this test is the only one."""
    return {"PYTHONPATH": f"{clean_environment()['PYTHONPATH']}:{place}", "TIMEBELL_APPS": "trial_app"}


class Sandbox:
    """A process and the way to talk to it."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.process.port}{path}", data=data, method=method
        )
        request.add_header("authorization", f"Bearer {KEY}")
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def advance(self, **how: str) -> Any:
        status, content = self.call("POST", "/v1/clock/advance", how)
        assert status == 200, content
        return content

    @property
    def now(self) -> str:
        status, content = self.call("GET", "/v1/clock")
        assert status == 200, content
        return str(content["now"])


@pytest.fixture
def sandbox(place: Path, processes: list[Process]) -> Any:
    """Starts `timebell up --sandbox` with these options."""
    (place / "trial_app.py").write_text(APP)
    environment = clean_environment(**with_app(place), TIMEBELL_API_KEY=KEY, TMPDIR=str(place))

    def start(*options: object) -> Sandbox:
        port = free_port()
        notes = place / f"process{len(processes)}"
        process = Process(
            notes, "up", "--sandbox", *options, "--port", port, port=port, environment=environment
        )
        processes.append(process)
        process.wait_ready()
        return Sandbox(process)

    return start


def test_a_sandbox_without_a_folder_is_thrown_away(sandbox: Any, place: Path) -> None:
    opened = sandbox("--start", START)
    assert opened.now == START
    assert opened.advance(by="P1W") == {"now": "2026-03-08T00:00:00Z", "ran": 0, "sent": 0, "failed": 0}
    assert opened.call("POST", "/v1/clock/advance", {"by": "P1M"})[0] == 422
    assert any(name.startswith("timebell-sandbox-") for name in os.listdir(place))
    assert opened.process.stop() == 0, opened.process.words
    assert "it is 2026-03-01T00:00:00Z until you let time pass" in opened.process.words
    assert not any(name.startswith("timebell-sandbox-") for name in os.listdir(place))


def test_a_folder_keeps_the_clock_and_simulate_moves_it_on(sandbox: Any, place: Path) -> None:
    folder = place / "data"
    opened = sandbox("--data", folder, "--start", START)
    # The jobs of the app came back a week later, and none has come to its end.
    assert opened.advance(to="2026-03-08T00:00:00+00:00") == {
        "now": "2026-03-08T00:00:00Z",
        "ran": 0,
        "sent": 0,
        "failed": 0,
    }
    busy = command("simulate", "--data", folder, "--until", "2026-04-01T00:00:00Z")
    assert_refused(busy, 1, str(folder))
    assert opened.process.stop() == 0, opened.process.words

    # A process that was killed has kept it too, and whatever --start says now, it goes on where it stood.
    again = sandbox("--data", folder, "--start", START)
    assert again.now == "2026-03-08T00:00:00Z"
    again.advance(by="PT36H")
    again.process.end()

    report = answer("simulate", "--data", folder, "--until", "2027-03-01T00:00:00Z", **with_app(place))
    assert report == {"now": "2027-03-01T00:00:00Z", "ran": 10, "sent": 0, "failed": 0}
    backwards = command("simulate", "--data", folder, "--until", "2026-03-01T00:00:00Z", **with_app(place))
    assert_refused(backwards, 2, "before")


def test_real_time_and_a_sandbox_do_not_mix(sandbox: Any, place: Path, up: Up, used_folder: Path) -> None:
    folder = place / "trial"
    running = sandbox("--data", folder, "--start", START)
    for half in ("work", "serve"):
        port = ("--port", free_port()) if half == "serve" else ()
        beside = command(half, "--data", folder, *port, **with_app(place))
        assert beside.returncode == 2, beside.stderr
        assert "stands at 2026-03-01" in beside.stderr
    assert answer("jobs", "list", "--data", folder)["has_more"] is False, "whoever only looks may look"
    assert running.process.stop() == 0
    real = command("up", "--data", folder, "--port", free_port())
    assert real.returncode == 2, real.stderr
    assert "--sandbox" in real.stderr
    used = up(used_folder, TIMEBELL_API_KEY=KEY)
    opened = Sandbox(used)
    assert opened.call("GET", "/v1/clock")[0] == 404
    assert opened.call("POST", "/v1/clock/advance", {"by": "PT1H"})[0] == 404
    answer("check", "--data", used_folder, "--jobs", 1, "--seconds", 0.1)
    assert used.stop() == 0
    taken = command("up", "--sandbox", "--data", used_folder, "--port", free_port())
    assert taken.returncode == 2, taken.stderr
    assert "in use" in taken.stderr
    simulated = command("simulate", "--data", used_folder, "--until", "2030-01-01T00:00:00Z")
    assert simulated.returncode == 2, simulated.stderr
    assert "real" in simulated.stderr


def test_a_start_is_for_a_sandbox() -> None:
    assert_refused(command("up", "--start", START), 2, "--sandbox")
    assert_refused(command("up", "--sandbox", "--start", "2026-03-01T00:00:00"), 2, "instant")


def test_the_guide_is_true(sandbox: Any) -> None:
    """Its lines are typed as they stand there, but for the port, and answered as it says."""
    page = (ROOT / "docs" / "howto" / "sandbox.md").read_text(encoding="utf-8")
    code = next(block.code for block in blocks(page) if "/v1/clock/advance" in block.code)
    opened = sandbox("--start", START)
    said = [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# ")]
    typed = code.replace("localhost:8080", f"127.0.0.1:{opened.process.port}")
    for line in said:
        typed = typed.replace(f"# {line}", "echo")
    done = subprocess.run(
        ["sh", "-c", typed],
        env={"PATH": os.environ["PATH"], "TIMEBELL_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == said
