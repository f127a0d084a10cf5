"""What has caches, or gathers what several ask for at once, is made once for a bell and not by whoever needs it."""

from __future__ import annotations

import ast

from tests.shape.tree import PACKAGE, python_files, within

ONCE = ("Notify", "Templates")


def made(source: str) -> list[int]:
    """The lines on which one of them is called by its name."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id in ONCE]


def test_it_is_asked_of_the_bell() -> None:
    paths = [path for path in python_files(PACKAGE) if not path.is_relative_to(PACKAGE / "bench")]
    found = [f"{within(path)}:{line}" for path in paths for line in made(path.read_text(encoding="utf-8"))]
    assert found == [], "ask for it by bell.shared.one(...)"


def test_the_check_itself() -> None:
    assert made("notify = bell.shared.one(Notify)\nother = Notify(bell)\n") == [2]
