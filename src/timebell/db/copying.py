"""Every row of some schemas, out of one database and into another of the same shape, as one snapshot and in one
transaction.

It is done with COPY on our own connections and not with `pg_dump`: that has to be as new as the server, is not where
the server is, and cannot fill a table behind row-level security.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Final
from zipfile import BadZipFile, ZipFile

import asyncpg

from timebell.errors import DatabaseError, InvalidInput

Connection = Any

_CHUNK_BYTES: Final = 1 << 18
_NO_LIMITS: Final = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"

# A role that row-level security shows a part of the rows would make a copy that looks whole.
_TABLES = """
    SELECT n.nspname AS schema, c.relname AS name, c.oid::bigint AS oid, c.relforcerowsecurity AS is_forced,
        ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                -- The number of a transaction means nothing on another server; there the default gives one.
                AND a.atttypid <> 'xid8'::regtype
            ORDER BY a.attnum) AS columns,
        ARRAY(SELECT f.confrelid::bigint FROM pg_catalog.pg_constraint f
            WHERE f.contype = 'f' AND f.conrelid = c.oid AND f.confrelid <> c.oid) AS needs,
        pg_catalog.row_security_active(c.oid) AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy p
            WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd IN ('r', '*')
                AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) = 'true'
                AND EXISTS (SELECT FROM pg_catalog.unnest(p.polroles) AS r
                    WHERE r = 0 OR pg_catalog.pg_has_role(current_user, r, 'USAGE'))) AS is_hidden
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1::text[]) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    ORDER BY 1, 2
"""
_SEQUENCES = """
    SELECT n.nspname AS schema, c.relname AS name
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1::text[]) AND c.relkind = 'S' ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """The rows of one table, as they are named in the file."""

    schema: str
    name: str
    columns: list[str]
    row_count: int = 0

    @property
    def member(self) -> str:
        return f"{self.schema}.{self.name}.copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceCopy:
    schema: str
    name: str
    last_value: int
    is_called: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a file holds, in an order in which it can be filled in again."""

    tables: list[TableCopy]
    sequences: list[SequenceCopy]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Copied:
        return cls(
            tables=[TableCopy(**each) for each in given["tables"]],
            sequences=[SequenceCopy(**each) for each in given["sequences"]],
        )


async def copy_out(connection: Connection, schemas: Sequence[str], archive: ZipFile) -> Copied:
    """Write every row of the schemas into the archive. The caller has begun the transaction whose snapshot it is."""
    await connection.execute(_NO_LIMITS)
    tables = []
    for row in await _tables(connection, schemas):
        if row["is_hidden"]:
            raise DatabaseError(
                f"{row['schema']}.{row['name']} shows its rows only in part to the role that copies; "
                "let read_url lead to the role that the migrations were told of as the reader's"
            )
        table = TableCopy(schema=row["schema"], name=row["name"], columns=row["columns"])
        tables.append(await _write(connection, table, archive))
    sequences = []
    for row in await connection.fetch(_SEQUENCES, list(schemas)):
        at = await connection.fetchrow(f"SELECT last_value, is_called FROM {_named(row)}")  # noqa: S608
        sequences.append(SequenceCopy(schema=row["schema"], name=row["name"], **at))
    return Copied(tables=tables, sequences=sequences)


async def _write(connection: Connection, table: TableCopy, archive: ZipFile) -> TableCopy:
    columns = ", ".join(map(quoted, table.columns))
    query = f"SELECT {columns} FROM {quoted(table.schema)}.{quoted(table.name)}"  # noqa: S608
    with archive.open(table.member, "w", force_zip64=True) as member:

        async def sink(chunk: bytes) -> None:
            member.write(chunk)

        said = await connection.copy_from_query(query, output=sink)
    return TableCopy(
        schema=table.schema, name=table.name, columns=table.columns, row_count=int(said.rpartition(" ")[2])
    )


async def unwall(connection: Connection, schemas: Sequence[str]) -> list[str]:
    """Let the owner see and fill its own tables, until `wall` is called with the answer, or all of it is undone."""
    forced = [_named(row) for row in await _tables(connection, schemas) if row["is_forced"]]
    for name in forced:
        await connection.execute(f"ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY")
    return forced


async def wall(connection: Connection, forced: Sequence[str]) -> None:
    for name in forced:
        await connection.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")


async def copy_in(connection: Connection, copied: Copied, archive: ZipFile) -> None:
    """Put the rows of the archive in the place of whatever is in its tables, as their owner, inside a transaction."""
    await connection.execute(_NO_LIMITS)
    names = [f"{quoted(table.schema)}.{quoted(table.name)}" for table in copied.tables]
    if names:
        await connection.execute(f"TRUNCATE {', '.join(names)}")
    for table in copied.tables:
        await _read(connection, table, archive)
    for each in copied.sequences:
        place = f"{quoted(each.schema)}.{quoted(each.name)}"
        await connection.execute(
            "SELECT pg_catalog.setval($1::text::regclass, $2, $3)", place, each.last_value, each.is_called
        )


async def _read(connection: Connection, table: TableCopy, archive: ZipFile) -> None:
    try:
        with archive.open(table.member) as member:
            said = await connection.copy_to_table(
                table.name, schema_name=table.schema, columns=table.columns, source=_chunks(member)
            )
    except (KeyError, BadZipFile, EOFError, zlib.error) as error:
        raise InvalidInput(f"{table.member} is damaged ({error}); use another copy of the file") from error
    except asyncpg.PostgresError as error:
        raise DatabaseError(f"{table.schema}.{table.name} does not take its rows back: {error}") from error
    count = int(said.rpartition(" ")[2])
    if count != table.row_count:
        raise InvalidInput(
            f"{table.member} has {count} rows and should have {table.row_count}; use another copy of the file"
        )


async def _chunks(member: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := member.read(_CHUNK_BYTES):
        yield chunk


async def _tables(connection: Connection, schemas: Sequence[str]) -> list[Any]:
    """Those that others refer to come first."""
    left = {row["oid"]: row for row in await connection.fetch(_TABLES, list(schemas))}
    ordered: list[Any] = []
    while left:
        free = [oid for oid, row in left.items() if not any(need in left for need in row["needs"])]
        # Where tables refer to each other in a circle there is no order; the server will say so.
        ordered.extend(left.pop(oid) for oid in free or list(left))
    return ordered


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _named(row: Any) -> str:
    return f"{quoted(row['schema'])}.{quoted(row['name'])}"
