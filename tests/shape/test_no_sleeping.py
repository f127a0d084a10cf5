"""Tests move the clock and call `tick`; they do not wait for time to pass."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from tests.shape.tree import TESTS, python_files, within

# Only a test of a real process may poll, with a bound: the start of its path, and what it waits for. In virtual time
# sleeping is what moves the clock, so that a simulation and the parts that apps have in it may.
POLLING: Mapping[str, str] = {
    "tests/acceptance/": "real processes over HTTP",
    "tests/apps/marketplace/acceptance/": "real processes that are killed",
    "tests/store/embedded/": "a PostgreSQL server that starts, stops and is killed",
    "tests/migration/test_migrate": "sessions of PostgreSQL that wait for each other",
}


def sleeps(source: str) -> list[int]:
    """The lines that sleep; `sleep(0)` only lets others run and is no sleep."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    ]


def test_no_test_sleeps() -> None:
    complaints = [
        f"{within(path)}:{line} sleeps; move a ManualClock, call tick, or wait for an event with a deadline"
        for path in python_files(TESTS)
        if not within(path).startswith(tuple(POLLING)) and "/simulation/" not in within(path)
        for line in sleeps(path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import time\ntime.sleep(1)", [2]),
        ("async def f():\n    await asyncio.sleep(0.01)", [2]),
        ("sleep(delay)", [1]),
        ("await_it(asyncio.sleep(0))", []),
        ("clock.sleep(5)", []),
    ],
)
def test_the_check_itself(source: str, lines: list[int]) -> None:
    assert sleeps(source) == lines
