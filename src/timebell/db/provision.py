"""The roles and the database of an embedded server, brought to what this version wants at every start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import asyncpg

Role: TypeAlias = Literal["owner", "app", "api", "read", "admin"]
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# The owner migrates. The application's role is that of the nodes and sees every tenant; the API's sees one at a time,
# and the reader's changes nothing.
ROLES: Mapping[Role, str] = {
    "admin": "postgres",
    "owner": "timebell_owner",
    "app": "timebell",
    "api": "timebell_api",
    "read": "timebell_read",
}
_WORKING: Sequence[Role] = ("app", "api", "read")
DATABASE = "timebell"

# Limits live on the role and not on the session, so that they also hold behind a pooler that shares sessions.
_LIMITS: Mapping[str, str] = {
    "lock_timeout": "5s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "20s",
    "jit": "off",
    "timezone": "UTC",
}
_ROLE_SETTINGS: Mapping[Role, Mapping[str, str]] = {
    "owner": {"jit": "off", "timezone": "UTC"},
    "app": _LIMITS,
    "api": _LIMITS,
    "read": {**_LIMITS, "default_transaction_read_only": "on"},
}


async def provision_roles(connection: Connection, passwords: Mapping[Role, str]) -> None:
    async with connection.transaction():
        # The statements below carry passwords, which must not reach the log if one of them fails.
        await connection.execute("SET LOCAL log_min_error_statement = panic")
        for role, settings in _ROLE_SETTINGS.items():
            name = ROLES[role]
            if not await connection.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", name):
                await connection.execute(f"CREATE ROLE {name}")
            attributes = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD"
            statement = f"SELECT format('ALTER ROLE {name} {attributes} %L', $1::text)"
            await connection.execute(await connection.fetchval(statement, passwords[role]))
            for setting, value in settings.items():
                await connection.execute(f"ALTER ROLE {name} SET {setting} = '{value}'")


async def provision_database(connection: Connection, name: str, *, template: str | None = None) -> None:
    """Make the database if it is missing. The roles that work on it may connect, and own nothing in it."""
    if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", name):
        # Copying files costs half of what copying through the log does; what it wants written out first is little.
        copied = f" TEMPLATE {template} STRATEGY FILE_COPY" if template else ""
        await connection.execute(f"CREATE DATABASE {name} OWNER {ROLES['owner']}{copied}")
    working = ", ".join(ROLES[role] for role in _WORKING)
    await connection.execute(
        f"REVOKE ALL ON DATABASE {name} FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO {working}"
    )


async def close_public_schema(connection: Connection) -> None:
    """In the connected database: nobody but its owner makes anything in the schema that everybody sees."""
    await connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
