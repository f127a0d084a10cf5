"""Nothing outlives its transaction on a connection that a pool may hand to somebody else.

Behind PgBouncer in transaction mode a setting or a lock of the session stays with whoever comes next.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.shape.sql_text import line_of, without_comments, without_comments_and_strings
from tests.shape.tree import PACKAGE, python_files, sql_files, within

_SCOPED = r"(?!LOCAL\b|CONSTRAINTS\b|TRANSACTION\b)"
_STATEMENT_START = r"(?:\A|;|\$\w*\$|\b(?:BEGIN|THEN|ELSE|LOOP)\b)\s*"
_SET_IN_SQL = re.compile(rf"{_STATEMENT_START}(?P<found>SET\s+{_SCOPED})", re.IGNORECASE)
# In Python the word is looked for in capitals, because a sentence may well tell somebody to set something.
_SET_IN_PYTHON = re.compile(rf"{_STATEMENT_START}(?P<found>SET\s+{_SCOPED})")
_SESSION_LOCK = re.compile(r"\b(?P<found>pg_(?:try_)?advisory_(?:un)?lock\w*)\s*\(", re.IGNORECASE)
_SESSION_SETTING = re.compile(r"\b(?P<found>set_config\s*\([^()]*,\s*false\s*\))", re.IGNORECASE)

_LOCAL_ONLY = "outlives the transaction; write SET LOCAL"
_LOCK_OF_A_TRANSACTION = "outlives the transaction; use pg_advisory_xact_lock"
_SETTING_OF_A_TRANSACTION = "outlives the transaction; pass true"


def sql_complaints(name: str, sql: str) -> list[str]:
    bare = without_comments_and_strings(sql)
    return [
        *_complaints(name, bare, _SET_IN_SQL, _LOCAL_ONLY),
        *_complaints(name, bare, _SESSION_LOCK, _LOCK_OF_A_TRANSACTION),
        *_complaints(name, without_comments(sql), _SESSION_SETTING, _SETTING_OF_A_TRANSACTION),
    ]


def python_complaints(name: str, source: str) -> list[str]:
    complaints = []
    for line, text in _texts(ast.parse(source)):
        complaints += _complaints(f"{name}:{line}", text, _SET_IN_PYTHON, _LOCAL_ONLY)
        complaints += _complaints(f"{name}:{line}", text, _SESSION_LOCK, _LOCK_OF_A_TRANSACTION)
        complaints += _complaints(f"{name}:{line}", text, _SESSION_SETTING, _SETTING_OF_A_TRANSACTION)
    return complaints


def _complaints(place: str, text: str, pattern: re.Pattern[str], remedy: str) -> list[str]:
    return [
        f"{place} line {line_of(text, match.start('found'))}: {match['found'].strip()!r} {remedy}"
        for match in pattern.finditer(text)
    ]


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string but the docstrings; an f-string is put together again, so that a statement stays whole."""
    passed_over = {id(text) for node in ast.walk(tree) for text in _docstring_or_parts(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_text(part) or "value" for part in node.values)
        elif (text := _text(node)) and id(node) not in passed_over:
            yield getattr(node, "lineno", 0), text


def _docstring_or_parts(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.JoinedStr):
        return node.values
    if isinstance(node, ast.Expr):
        return [node.value]
    return []


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def test_sql_files_stay_in_their_transaction() -> None:
    complaints = [
        complaint
        for path in sql_files()
        for complaint in sql_complaints(within(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


def test_python_strings_stay_in_their_transaction() -> None:
    complaints = [
        complaint
        for path in python_files(PACKAGE)
        for complaint in python_complaints(within(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    "sql",
    [
        "SET LOCAL lock_timeout = '2s'; SELECT pg_advisory_xact_lock(1)",
        "UPDATE jobs\nSET run_at = $1",
        "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 1",
        "-- SET x = 1\nSELECT 'SET x = 1; pg_advisory_lock(1)'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = pg_catalog AS $$ SELECT 1 $$",
        "ALTER ROLE timebell SET lock_timeout = '5s'",
        "SELECT set_config('timebell.tenant', $1, true)",
        "SET CONSTRAINTS ALL DEFERRED",
    ],
)
def test_sql_that_ends_with_its_transaction(sql: str) -> None:
    assert sql_complaints("q.sql", sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SET lock_timeout = '2s'",
        "SELECT 1;\nset session lock_timeout = '2s'",
        "DO $$ BEGIN SET jit = off; END $$",
        "-- first\nSET jit = off",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock_shared(1)",
        "SELECT set_config('timebell.tenant', $1, false)",
    ],
)
def test_sql_that_outlives_its_transaction(sql: str) -> None:
    assert len(sql_complaints("q.sql", sql)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "execute('SET LOCAL jit = off')",
        "execute(f'SET LOCAL lock_timeout = {seconds}')",
        "refuse('set the port to 8081')",
        "def f():\n    'SET jit = off is wrong, and pg_advisory_lock(1) too.'",
    ],
)
def test_python_that_ends_with_its_transaction(source: str) -> None:
    assert python_complaints("m.py", source) == []


@pytest.mark.parametrize(
    "source",
    ["execute('SET jit = off')", "execute(f'SET {name} = off')", "execute('SELECT pg_advisory_lock($1)')"],
)
def test_python_that_outlives_its_transaction(source: str) -> None:
    assert len(python_complaints("m.py", source)) == 1
