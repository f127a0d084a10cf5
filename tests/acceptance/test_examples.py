"""The examples, run as their first lines say: an app of somebody's own, the client, and the walk with curl."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE, ROOT
from timebell.client import Client, Refused

KEY = "tb_test_0123456789abcdef"
EXAMPLES = ROOT / "examples"
needs_reminders = pytest.mark.skipif(
    not (PACKAGE / "apps" / "reminders").exists(), reason="the app reminders was taken away"
)


def sandbox(place: Path, processes: list[Process], **variables: str) -> Process:
    port = free_port()
    environment = clean_environment(TIMEBELL_API_KEY=KEY, TMPDIR=str(place), **variables)
    started = Process(
        place / "sandbox",
        *("up", "--sandbox", "--start", "2026-03-01T00:00:00Z", "--port", port),
        port=port,
        environment=environment,
    )
    processes.append(started)
    started.wait_ready()
    return started


def run(process: Process, *command: object) -> str:
    """What a program prints that is told where the sandbox is."""
    done = subprocess.run(
        [*map(str, command), f"http://127.0.0.1:{process.port}", KEY],
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_reminders
def test_the_client(place: Path, processes: list[Process]) -> None:
    process = sandbox(place, processes)
    assert run(process, sys.executable, EXAMPLES / "client.py").splitlines() == [
        "planned: 3 occurrences",
        "Thu 19 Mar 16:00 UTC  Submit report: In 24 hours",
        "Fri 20 Mar 13:00 UTC  Submit report: In 3 hours",
        "Thu 26 Mar 16:00 UTC  Submit report: In 24 hours",
        "Fri 27 Mar 13:00 UTC  Submit report: In 3 hours",
        "Thu 02 Apr 15:00 UTC  Submit report: In 24 hours",
        "Fri 03 Apr 12:00 UTC  Submit report: In 3 hours",
        "left to do: 0",
    ]
    assert process.stop() == 0, process.words


@needs_reminders
def test_the_tutorial(place: Path, processes: list[Process]) -> None:
    process = sandbox(place, processes)
    text = (ROOT / "docs" / "tutorial" / "first-reminder.md").read_text(encoding="utf-8")
    start, *rest = [block.code for block in blocks(text) if block.language == "sh"]
    assert f"TIMEBELL_API_KEY={KEY}" in start
    assert "--start 2026-03-01T00:00:00Z" in start
    script = "\n".join(rest).replace("127.0.0.1:8080", f"127.0.0.1:{process.port}")
    ada, *answers = shell(script)
    schedule, passed, inbox, tasks = [json.loads(line) for line in answers]
    assert (schedule["user_id"], len(schedule["diff"]["added"])) == (ada, 3)
    [shown] = [block.code for block in blocks(text) if block.language == "json"]
    assert passed == json.loads(shown)
    assert [entry["due_at"][5:16] for entry in inbox["data"]] == [
        *("03-19T16:00", "03-20T13:00", "03-26T16:00", "03-27T13:00", "04-02T15:00", "04-03T12:00"),
    ]
    assert len(tasks["data"]) == 3


@needs_reminders
def test_the_walk(place: Path, processes: list[Process]) -> None:
    process = sandbox(place, processes)
    printed = run(process, "/bin/sh", EXAMPLES / "walk.sh")
    answers = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    clock, dry, schedules, passed, inbox, outbox, task, deleted = answers
    assert clock == {"now": "2026-03-01T00:00:00Z"}
    assert len(dry["diff"]["added"]) == 2
    assert len(schedules["data"]) == 1
    assert (passed["now"], passed["sent"], passed["failed"]) == ("2026-04-05T00:00:00Z", 4, 0)
    instants = ["2026-03-26T16:00:00Z", "2026-04-02T15:00:00Z"]
    assert [entry["due_at"] for entry in inbox["data"]] == instants
    assert [(mail["to"], mail["at"]) for mail in outbox["data"]] == [
        ("ada@example.org", at) for at in instants
    ]
    assert task["completed_at"] == "2026-04-05T00:00:00Z"
    assert deleted["active"] is False


def paste(lines: str, process: Process) -> list[Any]:
    """What each line of a page answers."""
    script = lines.replace("localhost:8080", f"127.0.0.1:{process.port}").replace("\ncurl", "\necho; curl")
    return [json.loads(line) for line in shell(script)]


def shell(script: str, *, seconds: float = 60) -> list[str]:
    """The lines that are printed by what somebody pastes."""
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=clean_environment(),
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line]


async def test_an_app_of_your_own_is_loaded_by_its_name(place: Path, processes: list[Process]) -> None:
    search = f"{clean_environment()['PYTHONPATH']}:{EXAMPLES / 'own_app'}"
    process = sandbox(place, processes, PYTHONPATH=search, TIMEBELL_APPS="library")
    page = (EXAMPLES / "own_app" / "README.md").read_text(encoding="utf-8")
    start, lines = [block.code for block in blocks(page) if block.language == "sh"]
    assert "TIMEBELL_APPS=timebell.apps.reminders,library" in start
    lent, passed, inbox = paste(lines, process)
    assert lent == {"added": ["reminder", "overdue"], "moved": [], "withdrawn": []}
    assert passed["now"] == "2026-03-15T00:00:00Z"
    [entry] = inbox["data"]
    assert (entry["title"], entry["due_at"]) == ("Dune", "2026-03-14T12:00:00Z")
    async with Client(f"http://127.0.0.1:{process.port}", KEY) as client:
        [ada] = [one.id async for one in client.recipients.list()]
        await client.clock.advance(by=timedelta(days=1))
        events = await client.call("GET", "/v1/events", query={"name": "loan.overdue"})
        assert [event["data"] for event in events["data"]] == [{"book": "Dune"}]

        async def lend(until: str) -> Any:
            body = {"book": "Emma", "until": until}
            return await client.call("POST", "/api/loans", body=body, actor=ada)

        assert (await lend("2026-04-10T12:00:00Z"))["added"] == ["reminder", "overdue"]
        assert sorted((await lend("2026-05-10T12:00:00Z"))["moved"]) == ["overdue", "reminder"]
        with pytest.raises(Refused, match="422 invalid_input: until: "):
            await lend("tomorrow")
        await client.clock.advance(to=datetime(2026, 5, 1, tzinfo=UTC))
        back = await client.call("POST", "/api/loans/Emma/return", actor=ada)
        assert sorted(back["withdrawn"]) == ["overdue", "reminder"]
        await client.clock.advance(to=datetime(2026, 6, 1, tzinfo=UTC))
        assert [entry.title async for entry in client.person(ada).inbox.list()] == ["Dune"]
        paths = (await client.call("GET", "/openapi.json"))["paths"]
    assert {"/api/loans", "/api/loans/{book}/return"} <= paths.keys()
    assert "/api/schedules" not in paths
    assert process.stop() == 0, process.words


def test_the_app_is_as_short_as_its_page_says() -> None:
    assert len((EXAMPLES / "own_app" / "library.py").read_text(encoding="utf-8").splitlines()) <= 60
    assert len((EXAMPLES / "client.py").read_text(encoding="utf-8").splitlines()) <= 40
