"""Every module says at its beginning what it is, in a word that somebody would search for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.shape.tree import PACKAGE, python_files, within

# Packages that hold statements and migrations have nothing of their own to say.
WITHOUT = frozenset({"sql", "migrations"})


def complaint(source: str) -> str | None:
    """What is wrong with the docstring of a module, or None if it is fine."""
    text = ast.get_docstring(ast.parse(source))
    if not text:
        return "has no docstring; say in one sentence what it is"
    if text.startswith("What"):
        return "begins with 'What'; name the thing, such as router, handlers or response bodies"
    return None


def modules() -> list[Path]:
    return [path for path in python_files(PACKAGE) if WITHOUT.isdisjoint(path.parts)]


def test_every_module_says_what_it_is() -> None:
    found = {within(path): complaint(path.read_text(encoding="utf-8")) for path in modules()}
    assert [f"{path}: {wrong}" for path, wrong in found.items() if wrong] == []


def test_there_are_modules_to_read() -> None:
    names = {within(path) for path in modules()}
    assert {"src/timebell/__init__.py", "src/timebell/kernel/app.py"} <= names
    assert "src/timebell/kernel/sql/__init__.py" not in names


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("", "has no docstring"),
        ("TEN = 10\n", "has no docstring"),
        ('""""""\n', "has no docstring"),
        ('"""What is served about jobs."""\n', "begins with 'What'"),
        ('"""Whatever is served about jobs."""\n', "begins with 'What'"),
        ('"""\n    What is served."""\n', "begins with 'What'"),
    ],
)
def test_what_is_refused(source: str, wrong: str) -> None:
    assert (complaint(source) or "").startswith(wrong)


@pytest.mark.parametrize(
    "source",
    [
        '"""Request and response bodies about jobs."""\n',
        '"""The answer of a provider: what it means."""\n',
        '"""Jobs.\n\nWhat follows is another paragraph.\n"""\n',
    ],
)
def test_what_is_fine(source: str) -> None:
    assert complaint(source) is None
