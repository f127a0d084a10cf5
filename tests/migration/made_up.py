"""Slices that exist for one test: a package of migration files on a path of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from timebell.db.migrate import Slice

MakeSlice = Callable[..., Slice]

FIRST = """-- phase: expand
CREATE TABLE demo.first (id integer PRIMARY KEY);
GRANT SELECT ON demo.first TO {app_role};
"""
SECOND = """-- phase: expand
ALTER TABLE demo.first ADD COLUMN note text;
"""
THIRD = """-- phase: contract
ALTER TABLE demo.first DROP COLUMN note;
"""
FOURTH = """-- phase: expand
CREATE INDEX first_again ON demo.first (id);
"""

THREE = {"0001_expand_first.sql": FIRST, "0002_expand_note.sql": SECOND, "0003_contract_note.sql": THIRD}
TWO = {name: THREE[name] for name in ("0001_expand_first.sql", "0002_expand_note.sql")}
ONE = {"0001_expand_first.sql": FIRST}

EVERYTHING_MADE = """
    SELECT array(SELECT nspname::text FROM pg_namespace
        WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('public', 'information_schema') ORDER BY 1)
"""
LEDGER_ROWS = "SELECT slice, number FROM timebell_meta.migrations ORDER BY applied_at, number"


def write_package(folder: Path, package: str, files: Mapping[str, str | bytes]) -> None:
    place = folder / package
    place.mkdir()
    (place / "__init__.py").touch()
    for name, content in files.items():
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)
