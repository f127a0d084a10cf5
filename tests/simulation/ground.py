"""What the worlds of one database have in common: a loop, lines to the server, and tables that each finds empty."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg import sql

from tests.simulation.loop import VirtualLoop
from tests.simulation.parts import parts
from timebell.testing.database import TestDatabase

_PREPARE = """
CREATE SCHEMA IF NOT EXISTS simulation;
CREATE TABLE IF NOT EXISTS simulation.effects (number bigserial, job_id uuid NOT NULL, name text NOT NULL);
GRANT USAGE ON SCHEMA simulation TO timebell;
GRANT SELECT, INSERT ON simulation.effects TO timebell;
GRANT USAGE ON SEQUENCE simulation.effects_number_seq TO timebell;
CREATE TABLE IF NOT EXISTS simulation.slots AS SELECT * FROM timebell.slots ORDER BY slot;
"""
_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema)' ORDER BY 1, 2
"""
# Whatever vacuums or counts a table at a time of its own may change a plan, and with it the order of rows.
_UNTENDED = """
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = false)', c.oid::regclass) AS statement
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname !~ '^(pg_|information_schema)' ORDER BY 1
"""
_SEQUENCES = """
SELECT setval(c.oid::regclass, 1, false) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S' AND n.nspname !~ '^(pg_|information_schema)'
"""
_SLOTS = sql.Identifier("timebell", "slots")
# Which tables were empty in each database before its first world.
_EMPTY: dict[str, list[sql.Identifier]] = {}


class Ground:
    """Whatever is known at the end of each world to be as it was at its beginning."""

    def __init__(self, database: TestDatabase) -> None:
        self.loop = VirtualLoop()
        self.lines: list[Any] = []
        with psycopg.connect(database.admin_url, autocommit=True) as admin:
            admin.execute(_PREPARE)
            for part in parts():
                admin.execute(part.prepare.encode() or b"SELECT")
            for (statement,) in admin.execute(_UNTENDED).fetchall():
                admin.execute(statement)
            tables = [sql.Identifier(*names) for names in admin.execute(_TABLES).fetchall()]
            filled = _filled(admin, tables)
            # A world that broke leaves its rows behind, and they are not those of the beginning.
            self._tables = _EMPTY.setdefault(database.url, [each for each in tables if each not in filled])

    def clear(self, admin: psycopg.Connection[Any]) -> None:
        """Every table as it was when the database had just been made, down to where its rows lie.

        To truncate them would be simpler, and would make the server plan every statement anew on every line.
        """
        admin.execute("SET session_replication_role = replica")
        for table in [*_filled(admin, self._tables), _SLOTS]:
            admin.execute(sql.SQL("DELETE FROM {}").format(table))
            admin.execute(sql.SQL("VACUUM {}").format(table))
        admin.execute("INSERT INTO timebell.slots SELECT * FROM simulation.slots ORDER BY slot")
        admin.execute(_SEQUENCES)
        admin.execute("RESET session_replication_role")

    def close(self) -> None:
        for line in self.lines:
            line.terminate()
        # A line is closed by what its end leaves to do, and virtual time passes only when that is done.
        self.loop.run_until_complete(asyncio.sleep(0.001))
        self.loop.close()


def _filled(admin: psycopg.Connection[Any], tables: list[sql.Identifier]) -> list[sql.Identifier]:
    one = sql.SQL("SELECT {}::integer AS number WHERE EXISTS (SELECT FROM {})")
    asked = sql.SQL(" UNION ALL ").join(one.format(number, table) for number, table in enumerate(tables))
    cursor = admin.cursor(row_factory=psycopg.rows.scalar_row)
    return [tables[number] for number in sorted(cursor.execute(asked).fetchall())]


_GROUNDS: dict[str, Ground] = {}


def ground_of(database: TestDatabase) -> Ground:
    if database.url not in _GROUNDS:
        _GROUNDS[database.url] = Ground(database)
    return _GROUNDS[database.url]


def leave(database: TestDatabase) -> None:
    """No more worlds on it, or none that could rely on what the last one left."""
    ground = _GROUNDS.pop(database.url, None)
    if ground is not None:
        ground.close()
