"""Sessions on connections that the user opened: asyncpg, psycopg or SQLAlchemy on either."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from timebell.db.pool import AsyncpgSession, Observer, Row, Session
from timebell.db.queries import Query
from timebell.errors import InvalidInput, NoTransaction


class PsycopgSession:
    """A session on a psycopg `AsyncConnection`. Its raw cursor takes our statements as they are."""

    __slots__ = ("_observer", "connection")

    def __init__(self, connection: Any, observer: Observer) -> None:
        self.connection = connection
        self._observer = observer

    async def run(self, query: Query, /, **arguments: object) -> Sequence[Row]:
        from psycopg import AsyncRawCursor
        from psycopg.rows import dict_row

        began = time.perf_counter()
        async with AsyncRawCursor(self.connection, row_factory=dict_row) as cursor:
            await cursor.execute(query.text, query.arguments(arguments))
            rows: Sequence[Row] = await cursor.fetchall() if cursor.description else []
        self._observer.add(query.name, time.perf_counter() - began)
        return rows

    async def execute(self, statement: str, /) -> None:
        await self.connection.execute(statement)

    def is_in_transaction(self) -> bool:
        # 0 is idle: no transaction is open and none opens by itself in autocommit mode.
        return bool(self.connection.info.transaction_status != 0)


class SqlalchemySession:
    """A session on an `AsyncConnection` or `AsyncSession`: works on the driver's connection under it."""

    __slots__ = ("_observer", "connection")

    def __init__(self, connection: Any, observer: Observer) -> None:
        self.connection = connection
        self._observer = observer

    async def _driver(self) -> Session:
        connection = self.connection
        if hasattr(connection, "flush"):
            # An AsyncSession sends what it holds back first, so that our statements see it.
            await connection.flush()
            connection = await connection.connection()
        session = _face((await connection.get_raw_connection()).driver_connection, self._observer)
        if not session.is_in_transaction():
            # SQLAlchemy puts off the BEGIN until its first statement, and ours do not pass through it.
            await connection.exec_driver_sql("SELECT 1")
            if not session.is_in_transaction():
                raise NoTransaction
        return session

    async def run(self, query: Query, /, **arguments: object) -> Sequence[Row]:
        return await (await self._driver()).run(query, **arguments)

    async def execute(self, statement: str, /) -> None:
        await (await self._driver()).execute(statement)

    def is_in_transaction(self) -> bool:
        return bool(self.connection.in_transaction())


def session_on(connection: Any, observer: Observer) -> Session:
    """The session face of a connection; refuses one that is not in a transaction, or that is not async."""
    session = _face(connection, observer)
    if not session.is_in_transaction():
        raise NoTransaction
    return session


def _face(connection: Any, observer: Observer) -> Session:
    # A class of the user's own counts as what it derives from.
    families = {base.__module__.partition(".")[0] for base in type(connection).__mro__}
    if "asyncpg" in families and hasattr(connection, "is_in_transaction"):
        return AsyncpgSession(connection, observer, is_joined=True)
    if "psycopg" in families and hasattr(connection, "pgconn") and hasattr(connection, "__aenter__"):
        return PsycopgSession(connection, observer)
    if "sqlalchemy" in families and hasattr(connection, "in_transaction") and hasattr(connection, "run_sync"):
        return SqlalchemySession(connection, observer)
    raise InvalidInput(
        f"{type(connection).__module__}.{type(connection).__name__} cannot be joined; pass an asyncpg "
        "connection, psycopg's AsyncConnection or SQLAlchemy's AsyncConnection or AsyncSession, or call the "
        "SQL function timebell.enqueue(...) from your own connection",
        field="connection",
    )
