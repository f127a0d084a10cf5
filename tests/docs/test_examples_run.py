"""The programs in the README and the tutorial run as they stand and print what the page says they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import Block, blocks
from tests.shape.tree import ROOT, within
from timebell.testing.fixtures import RUN_FOLDER

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorial").glob("*.md"))]


def programs(text: str) -> list[tuple[Block, str | None]]:
    """Each program that runs, and the output that the page gives directly below it."""
    listed = list(blocks(text))
    found = []
    for block, after in zip(listed, [*listed[1:], None], strict=True):
        if block.language == "python" and block.code.startswith("# runs"):
            is_output = after is not None and after.language == "text"
            found.append((block, after.code if is_output and after is not None else None))
    return found


EXAMPLES = [
    pytest.param(block.code, output, id=f"{within(page)}:{block.line}")
    for page in PAGES
    for block, output in programs(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="session")
def data_folder() -> Iterator[Path]:
    """The programs share one folder, as they do for a reader who tries one after the other."""
    top = Path(tempfile.mkdtemp(prefix="timebell-examples-", dir=os.environ[RUN_FOLDER]))
    top.chmod(0o755)
    yield top / "data"
    shutil.rmtree(top, ignore_errors=True)


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_runs(code: str, output: str | None, data_folder: Path, tmp_path: Path) -> None:
    done = run(code, data_folder, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if output is not None:
        assert done.stdout == output


@pytest.mark.req("J-13.4")
def test_a_mistake_in_the_handler_is_seen_by_whoever_set_nothing_up(
    data_folder: Path, tmp_path: Path
) -> None:
    [(block, _)] = programs((ROOT / "README.md").read_text(encoding="utf-8"))
    # Due at once, so that all of its three seconds are left for it.
    code = block.code.replace("job.payload", "jb.payload").replace("timedelta(seconds=2)", "timedelta(0)")
    done = run(code, data_folder, tmp_path)
    assert "an attempt failed" in done.stderr
    assert 'example.py", line 6, in ring' in done.stderr
    assert "NameError: name 'jb' is not defined" in done.stderr


def run(code: str, data_folder: Path, place: Path) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TIMEBELL_") and name != "DATABASE_URL"
    }
    (place / "example.py").write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "example.py"],
        cwd=place,
        env={**kept, "PYTHONPATH": str(ROOT / "src"), "TIMEBELL_DATA": str(data_folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_readme_has_its_example() -> None:
    [(block, output)] = programs((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line for line in block.code.splitlines()[1:] if line.strip()]
    assert len(lines) <= 12
    assert output is not None


def test_a_program_is_paired_with_what_it_prints() -> None:
    page = "```python\n# runs\nx\n```\n\n```text\nout\n```\n\n```python\n# runs\ny\n```\n\n```sh\nls\n```\n"
    assert [(re.sub("# runs\n", "", block.code), output) for block, output in programs(page)] == [
        ("x\n", "out\n"),
        ("y\n", None),
    ]
