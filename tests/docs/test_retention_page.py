"""Every table has a line that says what bounds it, and every line is of a table."""

from __future__ import annotations

import re

import asyncpg
import pytest

from tests.shape.tree import ROOT
from timebell.config import RULES, Settings
from timebell.db.migrate import migrate
from timebell.db.provision import ROLES
from timebell.loading import apps_of, registry_of, slices_of
from timebell.testing.database import DatabaseFactory

PAGE = (ROOT / "docs" / "reference" / "retention.md").read_text(encoding="utf-8")
_LINE = re.compile(r"^\| `(\w+\.\w+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_TABLES = """
    SELECT n.nspname || '.' || c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema)'
"""
# What every line says in one of these ways.
_WAYS = (
    r"`\w+_days`",
    r"\bgoes (with its|when)\b",
    r"\b(one|two) (for each|row at most)\b",
    r"\bkept\b",
    r"\balways \d+\b",
    r"\b\d+ hours\b",
    r"\ba row goes when\b",
)


@pytest.mark.req("X-C8")
async def test_every_table_says_what_bounds_it(timebell_server: DatabaseFactory) -> None:
    made = await timebell_server.create(template=None)
    owner = await asyncpg.connect(made.owner_url, timeout=10)
    try:
        slices = slices_of(registry_of(apps_of(Settings())))
        await migrate(owner, slices, api_role=ROLES["api"], read_role=ROLES["read"])
        tables = {row["name"] for row in await owner.fetch(_TABLES)}
    finally:
        await owner.close(timeout=10)
        await timebell_server.drop(made)
    # The tables of an app that was deleted are missed by nobody.
    schemas = {name.partition(".")[0] for name in tables}
    told = [table for table, _, _ in _LINE.findall(PAGE) if table.partition(".")[0] in schemas]
    assert len(told) == len(set(told))
    assert set(told) == tables


def test_every_line_says_it_in_known_words() -> None:
    lines = _LINE.findall(PAGE)
    assert len(lines) > 50
    assert [table for table, _, bound in lines if not any(re.search(way, bound) for way in _WAYS)] == []
    assert set(re.findall(r"`(\w+_days)`", PAGE)) <= RULES.keys()
