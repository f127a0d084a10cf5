"""An app can be taken away: with the folder of one deleted, everything else is there and works."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.shape.tree import PACKAGE, kept_files, within

APPS = ("reminders", "meetings", "scheduler", "sequences", "marketplace")
# What could know of it: the house rules, the settings, the loading, everything that is served, and the simulation.
OTHERS = (
    "tests/shape",
    "tests/unit/test_config.py",
    "tests/unit/test_loading.py",
    "tests/web",
    "tests/simulation/test_replay.py",
    "tests/simulation/test_seeds.py::test_a_day_that_nobody_has_seen",
)

EVERYTHING = """
import importlib, json, pkgutil, timebell
from timebell.config import load_settings
from timebell.loading import apps_of, registry_of, slices_of

names = [each.name for each in pkgutil.walk_packages(timebell.__path__, "timebell.")]
names.remove("timebell.__main__")
for name in names:
    importlib.import_module(name)
apps = apps_of(load_settings())
slices = [each.name for each in slices_of(registry_of(apps))]
print(json.dumps({"where": timebell.__file__, "names": names, "apps": len(apps), "slices": slices}))
"""


def without(place: Path, *apps: str) -> Path:
    source = place / "src"
    shutil.copytree(PACKAGE, source / "timebell", ignore=shutil.ignore_patterns("__pycache__"))
    for app in apps:
        shutil.rmtree(source / "timebell" / "apps" / app)
    return source


@pytest.mark.parametrize("deleted", [(each,) for each in APPS] + [APPS], ids="+".join)
def test_everything_else_is_importable(place: Path, deleted: tuple[str, ...]) -> None:
    source = without(place, *deleted)
    left = [app for app in APPS if app not in deleted]
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING],
        env=clean_environment(PYTHONPATH=str(source)),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["where"]).is_relative_to(source)
    assert found["apps"] == len(left)
    assert found["slices"] == ["kernel", "notify", "web", *left]
    assert "timebell.server" in found["names"]
    assert "timebell.apps" in found["names"]
    gone = tuple(f"timebell.apps.{app}" for app in deleted)
    assert not [name for name in found["names"] if name.startswith(gone)]


def test_it_starts_and_serves_the_engine(place: Path, processes: list[Process]) -> None:
    port = free_port()
    environment = clean_environment(PYTHONPATH=str(without(place, *APPS)), TMPDIR=str(place))
    process = Process(
        place / "up", "up", "--data", place / "data", "--port", port, port=port, environment=environment
    )
    processes.append(process)
    process.wait_ready()
    assert process.status("/docs") == 200
    assert process.status("/v1/jobs") == 401
    assert process.status("/api/schedules") == 404
    assert "/v1/inbox" in process.words
    assert "/api/schedules" not in process.words, "what is shown to be pasted has to work"
    assert process.status("/api/meetings") == 404
    assert process.stop() == 0, process.words
    assert "Traceback" not in process.words


@pytest.mark.slow
@pytest.mark.parametrize("deleted", APPS)
def test_the_other_tests_pass_without_it(place: Path, deleted: str) -> None:
    copy = place / "copy"
    about_it = (f"src/timebell/apps/{deleted}/", f"tests/apps/{deleted}/")
    for path in kept_files():
        name = within(path)
        if not name.startswith(about_it):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy / name)
    assert not (copy / about_it[0]).exists()
    for command in (
        ["-m", "pytest", "-q", "-n2", "-m", "not slow", *OTHERS],
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"],
    ):
        done = subprocess.run(
            [sys.executable, *command],
            env=clean_environment(PYTHONPATH=str(copy / "src")),
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=1_800,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
