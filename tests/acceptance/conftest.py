"""Data folders, and processes that are ended with the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from timebell.testing.fixtures import RUN_FOLDER


class Up(Protocol):
    def __call__(self, folder: Path, *, is_ready: bool = True, **variables: str) -> Process: ...


class Work(Protocol):
    def __call__(self, **variables: str) -> Process: ...


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for everything of one test, below the folder of the run, so that a killed run leaves no rubbish."""
    top = Path(tempfile.mkdtemp(prefix="timebell-acceptance-", dir=os.environ[RUN_FOLDER]))
    top.chmod(0o755)
    yield top
    shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in reversed(started):
        process.end()


@pytest.fixture
def up(place: Path, processes: list[Process]) -> Up:
    """Starts `timebell up` on a data folder."""

    def start(folder: Path, *, is_ready: bool = True, **variables: str) -> Process:
        port = free_port()
        environment = clean_environment(
            **{"PYTHONPATH": f"{clean_environment()['PYTHONPATH']}:{place}", **variables}
        )
        notes = place / f"process{len(processes)}"
        process = Process(notes, "up", "--data", folder, "--port", port, port=port, environment=environment)
        processes.append(process)
        if is_ready:
            process.wait_ready()
        return process

    return start


@pytest.fixture
def work(place: Path, processes: list[Process]) -> Work:
    """Starts `timebell work` with these variables."""

    def start(**variables: str) -> Process:
        notes = place / f"process{len(processes)}"
        # The databases of tests are migrated for the kernel and notify alone.
        environment = clean_environment(**{"TIMEBELL_APPS": "none", **variables})
        process = Process(notes, "work", environment=environment)
        processes.append(process)
        process.wait_ready()
        return process

    return start


@pytest.fixture(scope="session")
def pattern_folder() -> Iterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="timebell-acceptance-", dir=os.environ[RUN_FOLDER]))
    top.chmod(0o755)
    port = free_port()
    # Where everything begins, as an operator begins.
    notes = top / "pattern"
    process = Process(notes, "up", "--data", top / "data", "--port", port, port=port, is_forked=False)
    try:
        process.wait_ready()
        assert process.stop() == 0, process.words
    finally:
        process.end()
    yield top / "data"
    shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def used_folder(pattern_folder: Path, place: Path) -> Path:
    """A data folder on which `timebell up` has run before."""
    subprocess.run(["cp", "-a", pattern_folder, place / "data"], check=True, timeout=60)
    return place / "data"
