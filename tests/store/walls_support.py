"""Rows of two tenants in every table that has tenants, made from what the catalogue says of its columns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

# What a column of a type may hold, where the test cares about the tenant alone.
_ANY: Mapping[str, str] = {
    "uuid": "gen_random_uuid()",
    "text": "gen_random_uuid()::text",
    "jsonb": "'{}'",
    "bytea": "decode(md5(gen_random_uuid()::text), 'hex')",
    "boolean": "false",
    "timestamp with time zone": "now()",
    "timestamp without time zone": "timestamp '2027-03-01'",
    "date": "date '2027-03-01'",
    "timestamp with time zone[]": "'{}'",
    "timestamp without time zone[]": "'{}'",
}
_NUMBERS = {"smallint", "integer", "bigint", "double precision", "numeric"}

_TABLES = """
    SELECT c.oid::regclass::text AS name, c.relispartition AS is_partition,
        EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped)
            AS has_tenant,
        c.relrowsecurity AND c.relforcerowsecurity AS is_walled
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname LIKE 'timebell%' AND c.relkind IN ('r', 'p')
    ORDER BY 1
"""
_COLUMNS = """
    SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
    WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attnotnull AND attgenerated = ''
        AND (NOT atthasdef OR attname = 'tenant')
"""
_CHECKS = "SELECT conname FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'c'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as the catalogue has it; `name` is the one to write in a statement."""

    name: str
    is_partition: bool
    has_tenant: bool
    is_walled: bool


async def tables_of(connection: Any) -> list[Table]:
    return [Table(**row) for row in await connection.fetch(_TABLES)]


async def insertion(connection: Any, table: str, tenant: str) -> str:
    """A statement that adds some row of a tenant."""
    columns = {row["name"]: row["type"] for row in await connection.fetch(_COLUMNS, table)}
    values = {name: "1" if type in _NUMBERS else _ANY[type] for name, type in columns.items()}
    values["tenant"] = f"'{tenant}'"
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())})"


async def fill(admin: Any, *tenants: str) -> list[str]:
    """A row for each tenant in every table that has tenants; answers with the tables."""
    names = [table.name for table in await tables_of(admin) if table.has_tenant and not table.is_partition]
    for name in names:
        for check in await admin.fetch(_CHECKS, name):
            await admin.execute(f"ALTER TABLE {name} DROP CONSTRAINT {check['conname']}")
        for tenant in tenants:
            await admin.execute(await insertion(admin, name, tenant))
    return names


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url, timeout=10, command_timeout=30)
    try:
        yield connection
    finally:
        await connection.close(timeout=10)


@asynccontextmanager
async def as_tenant(connection: Any, tenant: str) -> AsyncIterator[None]:
    """A transaction of the tenant, undone afterwards."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("SELECT set_config('timebell.tenant', $1, true)", tenant)
        yield
    finally:
        await transaction.rollback()
