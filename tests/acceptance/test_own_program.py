"""The program at the top of the README, beside `timebell up` on the same folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import Process, until
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT

JOBS = 12


def program(folder: Path, end: Path) -> str:
    """As it stands there, with several jobs instead of one: each has a slot of its own. It waits until it is told to
    end, since in the last of its three seconds a busy machine may not ring all of them."""
    [code] = [
        block.code
        for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"))
        if block.language == "python" and "hello.ring" in block.code
    ]
    enqueue = 'await bell.enqueue(tx, "hello.ring", {"name": "world"}, delay=timedelta(seconds=2))'
    changes = {
        enqueue: f"[{enqueue} for _ in range({JOBS})]",
        "timebell.running(app)": f"timebell.running(app, data={str(folder)!r})",
        "await asyncio.sleep(3)": f"while not open({str(end)!r}).read(): await asyncio.sleep(0.05)",
    }
    for old, new in changes.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    return code


@pytest.mark.req("U-1")
def test_every_job_of_a_program_of_ones_own_rings_beside_timebell_up(
    used_folder: Path, place: Path, processes: list[Process], up: Up
) -> None:
    process = up(used_folder)
    end = place / "end"
    end.touch()
    code = program(used_folder, end)
    own = Process(place / "own", "-u", "-c", code, program=(sys.executable,))
    processes.append(own)
    until(lambda: own.popen.poll() is not None or own.said.count("\n") >= JOBS, 60, "every job to ring")
    end.write_text("now")
    assert own.wait(30) == 0, own.log
    assert own.said.splitlines() == ["It is time, world"] * JOBS
    assert process.stop() == 0, process.words
