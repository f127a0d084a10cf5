"""The program at the top of the README, beside `timebell up` on the same folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import clean_environment
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT

JOBS = 12


def program(folder: Path) -> str:
    """As it stands there, with several jobs instead of one: each has a slot of its own."""
    [code] = [
        block.code
        for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"))
        if block.language == "python" and "hello.ring" in block.code
    ]
    enqueue = 'await bell.enqueue(tx, "hello.ring", {"name": "world"}, delay=timedelta(seconds=2))'
    assert code.count(enqueue) == 1
    return code.replace(enqueue, f"[{enqueue} for _ in range({JOBS})]").replace(
        "timebell.running(app)", f"timebell.running(app, data={str(folder)!r})"
    )


@pytest.mark.req("U-1")
def test_every_job_of_a_program_of_ones_own_rings_beside_timebell_up(used_folder: Path, up: Up) -> None:
    process = up(used_folder)
    done = subprocess.run(
        [sys.executable, "-c", program(used_folder)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["It is time, world"] * JOBS
    assert process.stop() == 0, process.words
