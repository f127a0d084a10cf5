"""Questions to a server about itself, asked on a bare connection so that nothing of ours colours the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from timebell.clock import SystemClock
from timebell.db.connecting import connect
from timebell.errors import DatabaseUnavailable

_CHANNEL = "timebell_probe"
_ROLE_SETTINGS = ("lock_timeout", "jit", "idle_in_transaction_session_timeout", "statement_timeout")
_OFFSETS = """
SELECT zone.name, array_agg(
    extract(epoch FROM (moment AT TIME ZONE zone.name) - (moment AT TIME ZONE 'UTC'))::integer ORDER BY moment
) AS offsets
FROM pg_catalog.pg_timezone_names AS zone, unnest($2::timestamptz[]) AS moment
WHERE zone.name = ANY($1::text[]) GROUP BY zone.name
"""
_SETTINGS = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY($1::text[]) ORDER BY name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server says of itself and of the role that asks. Times among `settings` are in milliseconds."""

    version: str
    major: int
    role: str
    now: datetime
    round_trip_seconds: float
    settings: dict[str, str]


_WALL = """
SELECT current_user AS role,
    coalesce(has_schema_privilege(found.schema, 'USAGE') AND has_table_privilege(found.oid, 'SELECT'), false)
        AS may_read,
    coalesce(row_security_active(found.oid), false) AND coalesce((
        SELECT bool_and(pg_get_expr(p.polqual, p.polrelid) IS DISTINCT FROM 'true') FROM pg_catalog.pg_policy p
        WHERE p.polrelid = found.oid
            AND EXISTS (SELECT FROM unnest(p.polroles) AS r WHERE r = 0 OR pg_has_role(current_user, r, 'USAGE'))
    ), false) AS is_walled
FROM (SELECT) AS nothing
LEFT JOIN (
    SELECT c.oid, n.oid AS schema FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname || '.' || c.relname = $1
) AS found ON true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallFacts:
    """Whether a role may read a table at all, and whether row-level security then shows it a part, by its policies."""

    role: str
    may_read: bool
    is_walled: bool


@asynccontextmanager
async def bare_connection(url: str, *, seconds: float = 10.0) -> AsyncIterator[Any]:
    """A connection with nothing set on it, closed at the end; works through a pooler too."""
    try:
        connection = await connect(url, timeout=seconds, command_timeout=seconds, statement_cache_size=0)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DatabaseUnavailable(
            f"cannot connect to PostgreSQL: {str(error) or type(error).__name__}; "
            "check DATABASE_URL and that the server accepts connections"
        ) from error
    try:
        yield connection
    finally:
        await connection.close(timeout=seconds)


async def role_of(url: str, *, seconds: float = 10.0) -> str:
    """The role that this URL leads to, as the server sees it."""
    async with bare_connection(url, seconds=seconds) as connection:
        return str(await connection.fetchval("SELECT current_user"))


async def ask_server(url: str, *, seconds: float = 10.0) -> ServerFacts:
    async with bare_connection(url, seconds=seconds) as connection:
        version = await connection.fetchval("SHOW server_version")
        rows = await connection.fetch(_SETTINGS, list(_ROLE_SETTINGS))
        role = await connection.fetchval("SELECT current_user")
        # The event loop's own time stands still between two of its turns, so it cannot measure one.
        asked = SystemClock().monotonic()
        now = await connection.fetchval("SELECT clock_timestamp()")
        round_trip = SystemClock().monotonic() - asked
    return ServerFacts(
        version=version.partition(" ")[0],
        major=connection.get_server_version().major,
        role=role,
        now=now,
        round_trip_seconds=round_trip,
        settings={row["name"]: row["setting"] for row in rows},
    )


async def wall_of(url: str, table: str, *, seconds: float = 10.0) -> WallFacts:
    async with bare_connection(url, seconds=seconds) as connection:
        row = await connection.fetchrow(_WALL, table)
    return WallFacts(**row)


async def timezone_offsets(
    url: str, names: Sequence[str], moments: Sequence[datetime], *, seconds: float = 10.0
) -> dict[str, list[int]]:
    """By how many seconds the server's clocks are ahead of UTC at each moment, of the timezones that it knows."""
    async with bare_connection(url, seconds=seconds) as connection:
        rows = await connection.fetch(_OFFSETS, list(names), list(moments))
    return {row["name"]: row["offsets"] for row in rows}


async def hears_wakeups(url: str, *, seconds: float = 2.0) -> bool:
    """Whether a notification comes back to whoever listens; behind a pooler it does not."""
    heard = asyncio.Event()

    def listener(*_: object) -> None:
        heard.set()

    async with bare_connection(url, seconds=seconds) as connection:
        await connection.add_listener(_CHANNEL, listener)
        await connection.execute(f"NOTIFY {_CHANNEL}")
        try:
            async with asyncio.timeout(seconds):
                await heard.wait()
        except TimeoutError:
            return False
        finally:
            # Behind a pooler the LISTEN would stay on a connection that others use.
            await connection.remove_listener(_CHANNEL, listener)
    return True
