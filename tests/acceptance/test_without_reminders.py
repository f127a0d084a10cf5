"""An app can be taken away: with the folder of the reminders deleted, everything else is there and works."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.shape.tree import PACKAGE, kept_files, within

APP = "src/timebell/apps/reminders/"
ABOUT_IT = (APP, "tests/apps/reminders/")
# What could know of it: the house rules, the settings, the loading, and everything that is served.
OTHERS = ("tests/shape", "tests/unit/test_config.py", "tests/unit/test_loading.py", "tests/web")

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


def without_reminders(place: Path) -> Path:
    source = place / "src"
    ignored = shutil.ignore_patterns("__pycache__", "reminders")
    shutil.copytree(PACKAGE, source / "timebell", ignore=ignored)
    return source


def test_everything_else_is_importable(place: Path) -> None:
    source = without_reminders(place)
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
    assert found["apps"] == 0
    assert found["slices"] == ["kernel", "notify", "web"]
    assert "timebell.server" in found["names"]
    assert "timebell.apps" in found["names"]
    assert not [name for name in found["names"] if "reminders" in name]


def test_it_starts_and_serves_the_engine(place: Path, processes: list[Process]) -> None:
    port = free_port()
    environment = clean_environment(PYTHONPATH=str(without_reminders(place)), TMPDIR=str(place))
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
    assert process.stop() == 0, process.words
    assert "Traceback" not in process.words


@pytest.mark.slow
def test_the_other_tests_pass_without_it(place: Path) -> None:
    copy = place / "copy"
    for path in kept_files():
        name = within(path)
        if not name.startswith(ABOUT_IT):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy / name)
    assert not (copy / APP).exists()
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
