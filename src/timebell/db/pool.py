"""Connections, transactions and time limits. Every statement of Timebell passes through a `Session`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import asyncpg

from timebell.db.connecting import connect
from timebell.db.queries import Query
from timebell.db.turns import Turns
from timebell.db.walls import begin_walled, walled_tenant
from timebell.errors import DatabaseError, DatabaseUnavailable

Row = Mapping[str, Any]

# No answer for longer than the server itself lets a statement take, or one from a server that is no longer the
# primary: the connections that are open lead nowhere, all of them, however well they look.
_ASTRAY = (TimeoutError, asyncpg.ReadOnlySQLTransactionError)
_PARTING_SECONDS = 2.0


class Session(Protocol):
    """One connection, whoever opened it: runs a query by its name and answers with rows."""

    async def run(self, query: Query, /, **arguments: object) -> Sequence[Row]: ...

    async def execute(self, statement: str, /) -> object: ...

    def is_in_transaction(self) -> bool: ...


class Gate(Protocol):
    """A seam in front of and behind every statement, where a test may stop, reorder or kill."""

    async def before(self, name: str) -> None: ...

    async def after(self, name: str) -> None: ...


@dataclass(slots=True)
class Timing:
    """How often a query ran and how long it took, as its caller saw it."""

    count: int = 0
    seconds_total: float = 0.0
    seconds_max: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds_total += seconds
        self.seconds_max = max(self.seconds_max, seconds)


@dataclass(slots=True)
class Observer:
    """What every session of one database shares: the timings, a suspicion about our own connections and, in tests,
    the gate."""

    gate: Gate | None = None
    timings: dict[str, Timing] = field(default_factory=dict)
    is_astray: bool = False

    def add(self, name: str, seconds: float) -> None:
        timing = self.timings.get(name)
        if timing is None:
            timing = self.timings[name] = Timing()
        timing.add(seconds)


class AsyncpgSession:
    """A session on an asyncpg connection, our own or one that the user joined."""

    __slots__ = ("_is_joined", "_observer", "connection", "is_astray")

    def __init__(self, connection: Any, observer: Observer, *, is_joined: bool = False) -> None:
        self.connection = connection
        self.is_astray = False
        self._observer = observer
        self._is_joined = is_joined

    async def run(self, query: Query, /, **arguments: object) -> Sequence[Row]:
        gate = self._observer.gate
        if gate is not None:
            await gate.before(query.name)
        began = time.perf_counter()
        try:
            rows: Sequence[Row] = await self.connection.fetch(query.text, *query.arguments(arguments))
        except _ASTRAY:
            self._went_astray()
            raise
        self._observer.add(query.name, time.perf_counter() - began)
        if gate is not None:
            await gate.after(query.name)
        return rows

    async def execute(self, statement: str, /) -> str:
        """Answers with what the server says it did, which for a COMMIT may be ROLLBACK."""
        gate = self._observer.gate
        if gate is not None:
            await gate.before(statement)
        try:
            done: str = await self.connection.execute(statement)
        except _ASTRAY:
            self._went_astray()
            raise
        if gate is not None:
            await gate.after(statement)
        return done

    def _went_astray(self) -> None:
        """The user's own deadline, or a transaction that they made read-only, says nothing about our connections."""
        self.is_astray = True
        if not self._is_joined:
            self._observer.is_astray = True

    def is_in_transaction(self) -> bool:
        return bool(self.connection.is_in_transaction())

    async def undo(self) -> None:
        """Roll back; a connection that does not answer is dropped, and the server then does it by itself."""
        if self.is_astray or self.is_lost():
            return
        try:
            async with asyncio.timeout(_PARTING_SECONDS):
                await self.connection.execute("ROLLBACK")
        except TimeoutError:
            self.connection.terminate()
        except asyncio.CancelledError:
            # Nobody knows whether it was rolled back, and nobody may find it still open.
            self.connection.terminate()
            raise

    async def hang_up(self) -> None:
        """Close the connection. The driver first tells the server to give up what it may still be doing."""
        try:
            async with asyncio.timeout(_PARTING_SECONDS):
                await self.connection.close(timeout=_PARTING_SECONDS)
        except TimeoutError:
            self.connection.terminate()

    def is_lost(self) -> bool:
        """Whether the connection is gone; a pool takes one back that breaks, and it cannot be asked any more."""
        try:
            return bool(self.connection.is_closed())
        except asyncpg.InterfaceError:
            return True


class _Connection(asyncpg.Connection):
    """Returns to the pool without the reset round trip: nothing here ever outlives its transaction."""

    _planned_at: float | None = None

    def has_old_plans(self, seconds: float) -> bool:
        """Whether it may keep plans that are older than this; from now on they count as new."""
        now, before = time.perf_counter(), self._planned_at
        if before is not None and now - before < seconds:
            return False
        self._planned_at = now
        return before is not None

    def get_reset_query(self) -> str:
        return ""

    async def close(self, *, timeout: float | None = None) -> None:
        """One that does not answer is dropped. The pool lets go of old ones where nobody hears what it raises."""
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await super().close(timeout=timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The deadlines of a connection, in seconds."""

    connect: float = 10.0
    statement: float = 30.0
    lock: float = 5.0
    idle_in_transaction: float = 20.0
    # A table that was small when a plan was made may be large by now, and the plan walks through all of it: the server
    # itself looks at its plans again only when it has counted the table, a minute later or more.
    plans: float = 5.0

    def server_settings(self) -> dict[str, str]:
        return {
            "application_name": "timebell",
            "timezone": "UTC",
            "jit": "off",
            "statement_timeout": f"{int(self.statement * 1000)}ms",
            "lock_timeout": f"{int(self.lock * 1000)}ms",
            "idle_in_transaction_session_timeout": f"{int(self.idle_in_transaction * 1000)}ms",
        }


class Database:
    """A pool of connections to one database."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        url: str,
        limits: Limits,
        observer: Observer,
        *,
        pooled: bool,
        turns: Turns | None = None,
    ) -> None:
        self._pool = pool
        self._turns = turns
        self._limits = limits
        self._pooled = pooled
        self.is_walled = turns is not None
        self.url = url
        self.observer = observer

    @property
    def idle_seconds(self) -> float:
        """How long the server lets a transaction be idle before it ends the connection."""
        return self._limits.idle_in_transaction

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        size: int = 10,
        limits: Limits | None = None,
        pooled: bool = False,
        is_walled: bool = False,
        gate: Gate | None = None,
    ) -> Database:
        """Connect, or say within the deadline why not.

        `pooled` means a pooler in transaction mode stands in between: it forgets prepared statements and
        refuses start-up parameters, so both are left out, and the limits must be set on the role.

        `is_walled` means the role sees one tenant at a time: the one that the code around says with `walled_to`. The
        tenants take turns with the connections then, and none of them has all.
        """
        limits = limits or Limits()
        options = {**_connection_options(limits, pooled), "connect": connect}
        try:
            # One connection shows that there is a server. A floor of one would be kept up while the server is away,
            # by trying again and again and logging each failure at length.
            pool = await asyncpg.create_pool(
                url, init_size=1, min_size=0, max_size=size, max_inactive_connection_lifetime=300.0, **options
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise DatabaseUnavailable(
                f"cannot connect to PostgreSQL: {str(error) or type(error).__name__}; "
                "check DATABASE_URL and that the server accepts connections"
            ) from error
        turns = Turns(size) if is_walled else None
        return cls(pool, url, limits, Observer(gate=gate), pooled=pooled, turns=turns)

    async def close(self) -> None:
        """Close every connection; one that does not answer is dropped."""
        try:
            async with asyncio.timeout(self._limits.connect):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncpgSession]:
        """A session in which every statement commits by itself. Behind the wall they share a transaction, because
        nothing that is said outside of one about the tenant would be safe behind a pooler."""
        async with self.transaction() if self.is_walled else self._borrowed() as session:
            yield session

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[AsyncpgSession]:
        if self.observer.is_astray:
            self.observer.is_astray = False
            # Each of them alone would be found out only by the next statement, and at the price of its deadline.
            await self._pool.expire_connections()
        seconds = self._limits.connect
        turn = nullcontext() if self._turns is None else self._turns.place(walled_tenant(), seconds)
        async with turn, self._pool.acquire(timeout=seconds) as connection:
            session = AsyncpgSession(connection, self.observer)
            if not self._pooled and session.connection.has_old_plans(self._limits.plans):
                await session.connection.execute("DISCARD PLANS")
            try:
                yield session
            finally:
                if session.is_astray and not session.is_lost():
                    await session.hang_up()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncpgSession]:
        """A session in one transaction: committed at the end, rolled back on an error."""
        async with self._borrowed() as session:
            try:
                await session.execute(begin_walled() if self.is_walled else "BEGIN")
                yield session
                done = await session.execute("COMMIT")
            except BaseException:
                # Also where only the answer to BEGIN or COMMIT was given up: nobody else may find it still open.
                await session.undo()
                raise
            if done == "ROLLBACK":
                raise DatabaseError(
                    "nothing was committed, because a statement of the transaction had failed; let its error "
                    "leave the block, or put the statement between SAVEPOINT and ROLLBACK TO"
                )

    async def run(self, query: Query, /, **arguments: object) -> Sequence[Row]:
        """One statement in a transaction of its own."""
        async with self.connection() as session:
            return await session.run(query, **arguments)

    async def dedicated(self, url: str | None = None) -> asyncpg.Connection:
        """A connection outside the pool, for what must not wait behind handlers: leases and wake-ups."""
        options = _connection_options(self._limits, self._pooled and url is None)
        connection: asyncpg.Connection = await connect(url or self.url, **options)
        return connection

    def session(self, connection: Any) -> AsyncpgSession:
        """The session face of a connection from `dedicated`."""
        return AsyncpgSession(connection, self.observer)


def _connection_options(limits: Limits, pooled: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "timeout": limits.connect,
        "command_timeout": limits.statement + 5.0,
        "connection_class": _Connection,
    }
    if pooled:
        options["statement_cache_size"] = 0
    else:
        options["server_settings"] = limits.server_settings()
    return options
