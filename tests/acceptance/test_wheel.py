"""What is built is what runs: the wheel alone, in an environment that knows nothing of the source tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.shape.tree import ROOT

PACKAGES = Path(asyncpg.__file__).parents[1]


def run(*arguments: object, **variables: str) -> str:
    done = subprocess.run(
        [str(argument) for argument in arguments],
        env=clean_environment(**variables),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(place: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = (place / "dist").glob("timebell-*.whl")
    return wheel


@pytest.mark.parametrize("with_packages", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_wheel_runs_in_an_empty_environment(
    place: Path, processes: list[Process], with_packages: bool
) -> None:
    """Quick: the packages are borrowed from here. Slow: they are installed too, from wherever pip is told to look."""
    wheel = build(place)
    run(sys.executable, "-m", "venv", "--without-pip", place / "venv")
    python, program = place / "venv" / "bin" / "python", place / "venv" / "bin" / "timebell"
    alone = [] if with_packages else ["--no-deps", "--offline"]
    run(sys.executable, "-m", "uv", "pip", "install", "--quiet", *alone, "--python", python, wheel)
    path = {"PYTHONPATH": "" if with_packages else str(PACKAGES)}
    where = run(python, "-c", "import timebell; print(timebell.__file__)", **path)
    assert Path(where.strip()).is_relative_to(place)

    port = free_port()
    process = Process(
        place / "up",
        "up",
        "--data",
        place / "data",
        "--port",
        port,
        program=(str(program),),
        port=port,
        environment=clean_environment(**path),
    )
    processes.append(process)
    process.wait_ready()
    check = run(program, "check", "--json", "--jobs", 50, "--seconds", 1, "--data", place / "data", **path)
    report = json.loads(check)
    assert (report["finished"], report["early"]) == (50, 0)
    assert process.stop() == 0, process.words
