"""The database decides what time it is, and only where a statement lets a test decide instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.shape.sql_text import line_of, without_comments, without_comments_and_strings
from tests.shape.tree import is_migration, sql_files, within

REMEDY = "read coalesce(:now::timestamptz, now()), or :lease_now for a lease"

# The few places that mean real time whatever a test or a sandbox says, each with its reason.
REAL_TIME: Mapping[str, str] = {
    "(now() AT TIME ZONE 'UTC')::date": "the log is partitioned by days of real time",
    "extract(epoch FROM clock_timestamp())": "an id carries the real time of its making",
}

_ASKS_THE_TIME = re.compile(
    r"\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\("
    r"|\b(?:current_timestamp|current_time|current_date|localtimestamp|localtime)\b",
    re.IGNORECASE,
)
_TIME_IN_A_STRING = re.compile(r"'\s*(?:now|today|tomorrow|yesterday)\s*'", re.IGNORECASE)
_IN_A_QUERY = re.compile(
    r":(?:lease_)?now\s*::\s*timestamptz\s*,\s*(?P<asks>(?:now|clock_timestamp)\s*\()\s*\)\s*\)",
    re.IGNORECASE,
)
_IN_A_FUNCTION = re.compile(
    r"\bp_(?:lease_)?now(?:\s*::\s*timestamptz)?\s*,\s*(?P<asks>now\s*\()\s*\)\s*\)", re.IGNORECASE
)
# A column that says when its row was written; what is owed and when is never left to a default.
_IN_A_DEFAULT = re.compile(
    r"\b(?:created|declared|logged|paused|recorded|updated)_at\s+timestamptz(?:\s+NOT\s+NULL)?"
    r"\s+DEFAULT\s+(?P<asks>now\s*\()",
    re.IGNORECASE,
)


def time_complaints(name: str, sql: str, *, migration: bool) -> list[str]:
    code, bare = without_comments(sql), without_comments_and_strings(sql)
    allowed = _replaceable(bare, _IN_A_QUERY)
    if migration:
        allowed |= _replaceable(bare, _IN_A_FUNCTION) | _real_time(code)
        allowed |= {match.start("asks") for match in _IN_A_DEFAULT.finditer(bare)}
    found = [match for match in _ASKS_THE_TIME.finditer(bare) if match.start() not in allowed]
    found += _TIME_IN_A_STRING.finditer(code)
    return [
        f"{name}:{line_of(sql, match.start())} {match.group()!r} asks the time; {REMEDY}" for match in found
    ]


def _replaceable(sql: str, pattern: re.Pattern[str]) -> set[int]:
    """Where the time is asked as the last argument of a coalesce whose argument before it is a parameter."""
    return {
        match.start("asks")
        for match in pattern.finditer(sql)
        if re.search(r"\bcoalesce\s*\Z", sql[: _opening_parenthesis(sql, match.start())], re.IGNORECASE)
    }


def _opening_parenthesis(sql: str, position: int) -> int:
    """The parenthesis that is still open at the position, or 0."""
    depth = 0
    for index in range(position - 1, -1, -1):
        if sql[index] == ")":
            depth += 1
        elif sql[index] == "(":
            if depth == 0:
                return index
            depth -= 1
    return 0


def _real_time(sql: str) -> set[int]:
    places = [match.span() for text in REAL_TIME for match in re.finditer(re.escape(text), sql)]
    return {match.start() for match in _ASKS_THE_TIME.finditer(sql) if _lies_in(match.start(), places)}


def _lies_in(position: int, places: list[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in places)


def test_no_statement_asks_the_time_by_itself() -> None:
    complaints = [
        complaint
        for path in sql_files()
        for complaint in time_complaints(
            within(path), path.read_text(encoding="utf-8"), migration=is_migration(path)
        )
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 WHERE run_at <= coalesce(:now::timestamptz, now())",
        "SELECT coalesce(:due_at::timestamptz, greatest(a, b), :now::timestamptz, now())",
        "SELECT coalesce(:now::timestamptz, clock_timestamp())",
        "SELECT COALESCE ( :lease_now::timestamptz , NOW() )",
        "-- now() is the transaction's\nSELECT 'it is now() or never'",
        "/* current_timestamp */ SELECT known_now(1), nowhere FROM t",
    ],
)
def test_a_query_may(sql: str) -> None:
    assert time_complaints("q.sql", sql, migration=False) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT now()",
        "SELECT now ( )",
        "SELECT 1\nWHERE run_at <= CURRENT_TIMESTAMP",
        "SELECT clock_timestamp()",
        "SELECT 'now'::timestamptz",
        "SELECT coalesce(:due_at::timestamptz, now())",
        "SELECT greatest(:now::timestamptz, now())",
        "SELECT coalesce(1, 2), (:now::timestamptz, now())",
        "SELECT coalesce(p_now, now())",
        "SELECT (now() AT TIME ZONE 'UTC')::date",
        "SELECT coalesce(:now::timestamptz, now()) + (now() - now())",
        "CREATE TABLE t (created_at timestamptz NOT NULL DEFAULT now())",
        "SELECT 'a''b', now()",
    ],
)
def test_a_query_may_not(sql: str) -> None:
    assert time_complaints("q.sql", sql, migration=False)


def test_a_migration_may_write_functions_and_defaults() -> None:
    sql = """
        CREATE TABLE t (created_at timestamptz NOT NULL DEFAULT now(), logged_at timestamptz DEFAULT now());
        CREATE FUNCTION f(p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
        DECLARE today date := (now() AT TIME ZONE 'UTC')::date;
        BEGIN RETURN coalesce(p_now, now()); END $$;
    """
    assert time_complaints("m.sql", sql, migration=True) == []


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (due_at timestamptz NOT NULL DEFAULT now())",
        "CREATE FUNCTION f() RETURNS timestamptz LANGUAGE sql AS $$ SELECT now() $$",
        "INSERT INTO t VALUES (CURRENT_TIMESTAMP)",
    ],
)
def test_a_migration_may_not(sql: str) -> None:
    assert time_complaints("m.sql", sql, migration=True)


def test_a_complaint_names_the_line() -> None:
    sql = "-- one\n/* two\n three */ SELECT\n  now()"
    assert time_complaints("q.sql", sql, migration=False)[0].startswith("q.sql:4 'now('")
