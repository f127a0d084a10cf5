"""Where the files are that the shape tests read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "timebell"
TESTS = ROOT / "tests"

GENERATED = frozenset({".git", ".venv", "__pycache__", "build", "dist", "node_modules"})


def within(path: Path) -> str:
    """The path as a reader of the repository would write it."""
    return path.relative_to(ROOT).as_posix()


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def sql_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.sql"))


def is_migration(path: Path) -> bool:
    return "migrations" in path.parts


def kept_files() -> list[Path]:
    """What is, or is about to be, under version control; all that is not generated where git cannot say."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return sorted(_everything_not_generated())
    paths = (ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name)
    return sorted(path for path in paths if path.is_file())


def _everything_not_generated() -> Iterator[Path]:
    for folder, children, names in os.walk(ROOT):
        children[:] = [name for name in children if name not in GENERATED and not name.endswith("_cache")]
        yield from (Path(folder, name) for name in names)
