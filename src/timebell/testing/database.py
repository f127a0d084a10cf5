"""A real PostgreSQL for tests: one server for a whole run, and for every test a fresh, migrated database.

The processes of a parallel run share the server. Whoever needs it first starts it, everybody who uses it says
so with a shared lock, and its starter waits for the others before it stops it. Locks and server end with the
process that has them, so a run that is interrupted leaves nothing running.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar

import asyncpg

from timebell.db.embedded import EmbeddedServer
from timebell.db.migrate import Slice, migrate
from timebell.db.provision import ROLES, Connection, close_public_schema, provision_database
from timebell.errors import DatabaseUnavailable
from timebell.kernel.migrations import KERNEL
from timebell.notify.migrations import NOTIFY
from timebell.web.migrations import WEB

TEMPLATE = "timebell_template"

# Tests may lose everything when the machine does, and are several times faster for it.
FAST: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "256MB",
    "shared_buffers": "256MB",
    "max_connections": "200",
    # A password is worth little here, and working it out takes longer than many a test.
    "scram_iterations": "1",
}

_TURN_SECONDS = 120.0
_LONGEST_RUN_SECONDS = 3600.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TestDatabase:
    """One database, as each role connects to it. Code under test uses `url`: the role that owns nothing.

    `api_url` is behind the wall between tenants, and `read_url` changes nothing. The owner sees no tenant's rows; a
    test that looks at everything does so as the administrator.
    """

    __test__: ClassVar[bool] = False

    name: str
    url: str
    api_url: str
    read_url: str
    owner_url: str
    admin_url: str


class DatabaseFactory:
    """Hands out databases on the server of this run."""

    _numbers = count(1)

    def __init__(self, server: EmbeddedServer, folder: Path, seat: int, *, is_starter: bool) -> None:
        self.server = server
        self._folder = folder
        self._seat = seat
        self._is_starter = is_starter

    @classmethod
    async def join(cls, folder: Path) -> DatabaseFactory:
        """The factory of the run that this folder was made for; starts the server if nobody has yet."""
        async with _lock(folder / "turn", fcntl.LOCK_EX, _TURN_SECONDS):
            seat = await _take(folder / "users", fcntl.LOCK_SH, _TURN_SECONDS)
            try:
                found = await EmbeddedServer.find(folder / "data")
                server = found or await EmbeddedServer.start(folder / "data", settings=FAST)
            except BaseException:
                os.close(seat)
                raise
        return cls(server, folder, seat, is_starter=found is None)

    async def leave(self) -> None:
        """Call once, at the end. The server's starter waits here until everybody else has left."""
        os.close(self._seat)
        if self._is_starter:
            async with _lock(self._folder / "users", fcntl.LOCK_EX, _LONGEST_RUN_SECONDS):
                await self.server.stop()

    async def make_template(self, slices: Sequence[Slice] = (KERNEL, NOTIFY, WEB)) -> None:
        """Migrate one database, once in a run; the databases of the tests are copies of it."""
        async with _lock(self._folder / "turn", fcntl.LOCK_EX, _TURN_SECONDS), self._admin() as admin:
            if await admin.fetchval("SELECT datistemplate FROM pg_database WHERE datname = $1", TEMPLATE):
                return
            await admin.execute(f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")
            await provision_database(admin, TEMPLATE)
            async with self._admin(TEMPLATE) as inside:
                await close_public_schema(inside)
            owner = await asyncpg.connect(self.server.url(TEMPLATE, role="owner"), timeout=10)
            try:
                await migrate(owner, slices, api_role=ROLES["api"], read_role=ROLES["read"])
            finally:
                await owner.close(timeout=10)
            await admin.execute(f"ALTER DATABASE {TEMPLATE} IS_TEMPLATE true ALLOW_CONNECTIONS false")

    async def create(self, *, template: str | None = TEMPLATE) -> TestDatabase:
        """A database of its own for one test; without a template it is empty."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        async with self._admin() as admin:
            await provision_database(admin, name, template=template)
        return TestDatabase(
            name=name,
            url=self.server.url(name),
            api_url=self.server.url(name, role="api"),
            read_url=self.server.url(name, role="read"),
            owner_url=self.server.url(name, role="owner"),
            admin_url=self.server.url(name, role="admin"),
        )

    async def drop(self, database: TestDatabase) -> None:
        """Whoever is still connected is cut off."""
        async with self._admin() as admin:
            await admin.execute(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    @asynccontextmanager
    async def _admin(self, database: str = "postgres") -> AsyncIterator[Connection]:
        """A new connection each time, because each test has an event loop of its own."""
        connection = await asyncpg.connect(
            self.server.url(database, role="admin"), timeout=10, command_timeout=60
        )
        try:
            yield connection
        finally:
            await connection.close(timeout=10)


@asynccontextmanager
async def _lock(path: Path, how: int, seconds: float) -> AsyncIterator[None]:
    descriptor = await _take(path, how, seconds)
    try:
        yield
    finally:
        os.close(descriptor)


async def _take(path: Path, how: int, seconds: float) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise DatabaseUnavailable(
                    f"Another process of this test run has held {path} for {seconds:.0f} seconds; end it."
                ) from None
        except BaseException:
            os.close(descriptor)
            raise
        await asyncio.sleep(_POLL_SECONDS)
