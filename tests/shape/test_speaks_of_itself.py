"""The repository speaks of the project alone: no path of one machine, no address of a package registry.

Where packages come from is the business of whoever installs; the lock pins what they are by their hashes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.shape.tree import kept_files, within

# Put together from parts, so that this file does not complain about itself.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("jsdelivr", "net"),
        ("unpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("anaconda", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    ]
)
MACHINE_FOLDERS = tuple(f"/{name}/" for name in ["work", "workspace", "Users"])

_REGISTRY = re.compile(
    rf"(?<![\w-])(?:[\w-]+\.)*(?:{'|'.join(map(re.escape, REGISTRIES))})(?![\w-])", re.IGNORECASE
)
_MACHINE_PATH = re.compile(rf"(?<![\w.~}})-])(?:{'|'.join(map(re.escape, MACHINE_FOLDERS))})")
_INDEX_OPTION = re.compile(r"^\s*--(?:index-url|extra-index-url|find-links|trusted-host)\b", re.MULTILINE)

BYTES_MAX = 4_000_000


def complaints_about(name: str, text: str) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match.group().strip()!r} {why}"
        for pattern, why in [
            (_REGISTRY, "is the address of a package registry"),
            (_MACHINE_PATH, "is a path of one machine"),
            (_INDEX_OPTION, "says where packages come from"),
        ]
        for match in pattern.finditer(text)
    ]


def readable(path: Path) -> str:
    """The text of a file, or nothing for one that is no text."""
    data = path.read_bytes()
    return "" if b"\0" in data or len(data) > BYTES_MAX else data.decode("utf-8", errors="replace")


def test_kept_files_speak_of_the_project_alone() -> None:
    complaints = [c for path in kept_files() for c in complaints_about(within(path), readable(path))]
    assert not complaints, "\n".join(complaints)


def test_there_are_files_to_read() -> None:
    assert "pyproject.toml" in {within(path) for path in kept_files()}


@pytest.mark.parametrize(
    "text",
    [
        *(f"see https://www.{host}/project" for host in REGISTRIES),
        *(f"open {folder}main" for folder in MACHINE_FOLDERS),
        "--extra-" + "index-url somewhere",
    ],
)
def test_what_is_refused(text: str) -> None:
    assert complaints_about("README.md", f"one\n{text}\n")[0].startswith("README.md:2 ")


@pytest.mark.parametrize(
    "text",
    ["https://example.org/work/", "docs/work/", "~/work/", "pip install timebell", "see pypi.organisation"],
)
def test_what_is_fine(text: str) -> None:
    assert complaints_about("README.md", text) == []
