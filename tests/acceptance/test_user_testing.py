"""A stranger's project tests itself with an installed Timebell, as docs/howto/testing.md shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE, ROOT

PAGE = ROOT / "docs" / "howto" / "testing.md"

WRONG = """
from datetime import timedelta

import clinic
import timebell
from timebell.testing import assert_enqueued, assert_not_enqueued


async def test_the_wrong_instant(timebell_harness):
    async with timebell_harness() as bench:
        begins_at = bench.clock.now + timedelta(days=3)
        async with bench.bell.transaction() as tx:
            await clinic.book(bench.bell, tx, "visit:1", begins_at)
        await assert_enqueued(bench, "clinic.remind", subject="visit:1", due_at=begins_at)


async def test_nothing_there(timebell_harness):
    async with timebell_harness() as bench:
        await assert_enqueued(bench.bell, "clinic.remind")


async def test_something_there(timebell_harness):
    async with timebell_harness() as bench:
        async with bench.bell.transaction() as tx:
            await bench.bell.enqueue(tx, "clinic.remind", {"text": "now"})
        await assert_not_enqueued(bench, "clinic.remind", payload={"text": "now"})
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel brings it, without the tree that it was built from."""
    top = tmp_path_factory.mktemp("installed")
    source = top / "source"
    shutil.copytree(PACKAGE, source / "src" / "timebell", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ["pyproject.toml", "LICENSE", ".gitignore", "README.md"]:
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(top)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=60)
    [wheel] = top.glob("timebell-*.whl")
    zipfile.ZipFile(wheel).extractall(top / "site")
    return top / "site"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that the page shows, under the names that their first lines say."""
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        named = re.match(r"# ([\w.]+)\n", block.code)
        if named:
            (tmp_path / named[1]).write_text(block.code, encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {
        "clinic.py",
        "conftest.py",
        "pyproject.toml",
        "test_clinic.py",
    }
    return tmp_path


def run_pytest(project: Path, installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env={**environment, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["-n", "2"], marks=pytest.mark.slow)], ids=["alone", "in_parallel"]
)
def test_the_page_on_testing_is_true(project: Path, installed: Path, arguments: list[str]) -> None:
    (project / "test_where.py").write_text(
        "import timebell\n\n\ndef test_where():\n"
        f"    assert timebell.__file__.startswith({str(installed)!r})\n",
        encoding="utf-8",
    )
    run = run_pytest(project, installed, "-W", "error", *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "4 passed" in run.stdout


def test_a_failing_assertion_says_what_is_there(project: Path, installed: Path) -> None:
    (project / "test_wrong.py").write_text(WRONG, encoding="utf-8")
    run = run_pytest(project, installed, "test_wrong.py", "--tb=short")
    assert run.returncode == 1
    assert "3 failed" in run.stdout, run.stdout + run.stderr
    for sentence in [
        "one job clinic.remind about visit:1 due at 2026-01-08T09:00:00+00:00 should be owed to tenant 'default', "
        "found 0.",
        "- clinic.remind about visit:1 (step day) due at 2026-01-07T09:00:00+00:00, pending, "
        "{'text': 'tomorrow'}",
        "Nothing is owed; a job is seen once its transaction has been committed",
        "no job clinic.remind with {'text': 'now'} in its payload should be owed to tenant 'default', found 1.",
        "* clinic.remind due at 2026-01-05T09:00:00+00:00, pending, {'text': 'now'}",
    ]:
        assert sentence in run.stdout
    assert "asserting.py" not in run.stdout, "the traceback should end in the user's own line"
