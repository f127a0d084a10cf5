"""What a new connection knows of arrays without asking the server."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

import timebell
from timebell.db.pool import Database
from timebell.testing.database import TestDatabase

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
ARRAYS: dict[str, list[Any]] = {
    "bigint": [2**40, None, -1],
    "boolean": [True, None, False],
    "bytea": [b'\0,{}"', None, b""],
    "date": [date(2026, 3, 29), None],
    "double precision": [0.5, None, -1e300],
    "integer": [2**20, None, -1],
    "interval": [timedelta(days=1, seconds=5), None],
    "smallint": [7, None, -1],
    "text": ["a,b", None, ""],
    "time": [time(17, 30), None],
    "timestamp": [datetime(2026, 3, 29, 1), None],
    "timestamptz": [datetime(2026, 3, 29, 1, tzinfo=UTC), None],
    "uuid": [ID, None],
}


async def test_the_server_is_not_asked_what_an_array_is(database: Database) -> None:
    asked: list[str] = []
    statements = [
        f"SELECT $1::{kind}[] AS given, ARRAY[$1::{kind}[], $1::{kind}[]] AS twice" for kind in ARRAYS
    ]
    async with database.connection() as session:
        session.connection.add_query_logger(lambda query: asked.append(query.query))
        for statement, values in zip(statements, ARRAYS.values(), strict=True):
            row = await session.connection.fetchrow(statement, values)
            assert (row["given"], row["twice"]) == (values, [values, values])
    assert asked == statements


async def test_the_driver_itself_would_ask(database_url: TestDatabase) -> None:
    """Where it asks no more, what it is told can go."""
    asked: list[str] = []
    connection = await asyncpg.connect(database_url.url, timeout=10)
    try:
        connection.add_query_logger(lambda query: asked.append(query.query))
        await connection.fetchval("SELECT $1::uuid[]", [ID])
    finally:
        await connection.close(timeout=10)
    assert len(asked) > 1


def test_every_array_in_a_statement_is_known() -> None:
    folder = Path(timebell.__file__).parent
    found = {
        kind.lower()
        for path in folder.glob("**/sql/**/*.sql")
        for kind in re.findall(
            r"::([a-z]+(?: precision)?)\[\]", path.read_text(encoding="utf-8"), re.IGNORECASE
        )
    }
    assert found <= set(ARRAYS), "add the type to timebell/db/connecting.py"
    assert found >= {"uuid", "text"}
