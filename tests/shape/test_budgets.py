"""Files and functions stay small enough to be read whole."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.shape.tree import PACKAGE, TESTS, is_migration, python_files, sql_files, within

MODULE_LINES = 400
MODULE_LINES_HARD = 600
FUNCTION_LINES = 70
QUERY_LINES = 80
MIGRATION_LINES = 400

# A module may pass the soft limit only if it is named here with the reason why it is better whole.
LONG_MODULES: Mapping[str, str] = {
    "src/timebell/kernel/agenda/writer.py": "What is compared, and how it is written, is one idea.",
    "src/timebell/kernel/insights/insights.py": "Every read-only question is asked of one object, and each is short.",
    "src/timebell/kernel/schedules/schedules.py": "The verbs are one interface, each like the one beside it.",
    "src/timebell/notify/delivery/digests.py": "How a digest comes about and how it is dissolved is one idea.",
    "src/timebell/notify/delivery/sending.py": "One attempt on one way of telling is read from top to bottom.",
}

SLICES = ("kernel", "engine", "notify")


def module_complaints(name: str, lines: int, reasons: Mapping[str, str]) -> list[str]:
    if lines > MODULE_LINES_HARD:
        return [f"{name} has {lines} lines; no module has more than {MODULE_LINES_HARD}, so divide it"]
    if lines > MODULE_LINES and name not in reasons:
        return [f"{name} has {lines} lines; divide it at {MODULE_LINES}, or give the reason in LONG_MODULES"]
    if lines <= MODULE_LINES and name in reasons:
        return [f"{name} has {lines} lines and no longer needs its reason in LONG_MODULES"]
    return []


def function_complaints(name: str, source: str) -> list[str]:
    complaints = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                complaints.append(
                    f"{name}:{node.lineno} {node.name} has {lines} lines; divide it at {FUNCTION_LINES}"
                )
    return complaints


def sql_complaints(name: str, lines: int, *, limit: int) -> list[str]:
    return [f"{name} has {lines} lines; divide it at {limit}"] if lines > limit else []


def init_complaints(name: str, source: str) -> list[str]:
    """A slice's `__init__` is its public face: a docstring, imports and `__all__`, nothing that runs."""
    return [
        f"{name}:{node.lineno} only re-exports belong here; move this to a module of the slice"
        for position, node in enumerate(ast.parse(source).body)
        if not _is_reexport(node, first=position == 0)
    ]


def _is_reexport(node: ast.stmt, *, first: bool) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__" or (node.module or "").split(".")[0] == "timebell"
    if isinstance(node, ast.Expr):
        return first and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets] == ["__all__"]
    return False


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_stay_small() -> None:
    lines = dict.fromkeys(LONG_MODULES, 0) | {within(path): _lines(path) for path in python_files(PACKAGE)}
    complaints = [c for name, count in lines.items() for c in module_complaints(name, count, LONG_MODULES)]
    assert not complaints, "\n".join(complaints)


def test_test_modules_stay_below_the_hard_limit() -> None:
    long = [within(path) for path in python_files(TESTS) if _lines(path) > MODULE_LINES_HARD]
    assert not long, f"over {MODULE_LINES_HARD} lines, so divide them: {long}"


def test_functions_stay_small() -> None:
    complaints = [
        complaint
        for path in python_files(PACKAGE) + python_files(TESTS)
        for complaint in function_complaints(within(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


def test_sql_files_stay_small() -> None:
    complaints = []
    for path in sql_files():
        limit = MIGRATION_LINES if is_migration(path) else QUERY_LINES
        complaints += sql_complaints(within(path), _lines(path), limit=limit)
    assert not complaints, "\n".join(complaints)


def test_a_slice_shows_only_its_public_face() -> None:
    faces = [PACKAGE / name / "__init__.py" for name in SLICES]
    faces += sorted((PACKAGE / "apps").glob("*/__init__.py"))
    complaints = [
        complaint
        for path in faces
        if path.exists()
        for complaint in init_complaints(within(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("lines", "reasons", "expected"),
    [
        (400, {}, None),
        (401, {}, "divide it at 400"),
        (401, {"m.py": "one state machine"}, None),
        (400, {"m.py": "one state machine"}, "no longer needs"),
        (601, {"m.py": "one state machine"}, "no module has more"),
    ],
)
def test_the_module_check_itself(lines: int, reasons: dict[str, str], expected: str | None) -> None:
    complaints = module_complaints("m.py", lines, reasons)
    assert expected in complaints[0] if expected else complaints == []


def test_the_function_check_itself() -> None:
    fits = "def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1)
    nested = "class C:\n    async def f(self):\n" + "        x = 1\n" * FUNCTION_LINES
    assert function_complaints("m.py", fits) == []
    assert function_complaints("m.py", nested) == ["m.py:2 f has 71 lines; divide it at 70"]


def test_the_query_check_itself() -> None:
    assert sql_complaints("q.sql", 80, limit=80) == []
    assert sql_complaints("q.sql", 81, limit=80) == ["q.sql has 81 lines; divide it at 80"]


@pytest.mark.parametrize(
    "statement",
    ["import os", "from os import path", "x = 1", "print('x')", "def f(): ...", "from .store import Store"],
)
def test_the_public_face_check_itself(statement: str) -> None:
    face = '"""The slice."""\n\nfrom timebell.kernel.app import App\n\n__all__ = ["App"]\n'
    assert init_complaints("m.py", face) == []
    assert len(init_complaints("m.py", face + statement)) == 1
