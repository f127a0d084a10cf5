"""A real PostgreSQL for tests: one server for each process of a run, and for every test a fresh, migrated database.

What one process of a parallel run does is nothing to the others: on a shared server each open transaction holds
back those who wait until all older ones have ended. A server ends with the process that started it, so a run that is
interrupted leaves nothing running.
"""

from __future__ import annotations

import asyncio
import os
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
from timebell.db.server_user import MAJOR, find_programs
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
    "shared_buffers": "64MB",
    "max_connections": "200",
    # Databases that live for a second need none, and its transactions would hold back those who wait for older ones.
    "autovacuum": "off",
    # A password is worth little here, and working it out takes longer than many a test.
    "scram_iterations": "1",
}
# What older servers do not know, by the version that brought it.
_SINCE: Mapping[str, int] = {"scram_iterations": 16}
# Where the programs of another PostgreSQL are, such as /usr/lib/postgresql/15/bin. Not called TIMEBELL_…: those are
# settings, and one that nobody knows is refused.
PROGRAMS = "PYTEST_TIMEBELL_POSTGRES"


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
    """Hands out databases on a server of its own."""

    _numbers = count(1)

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self._kept: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    async def start(cls, folder: Path) -> DatabaseFactory:
        """Start a server whose files are in this folder, which nobody else uses."""
        named = os.environ.get(PROGRAMS)
        programs = Path(named) if named else None
        major = MAJOR if programs is None else find_programs(None, programs).major
        settings = {name: value for name, value in FAST.items() if _SINCE.get(name, 0) <= major}
        factory = cls(await EmbeddedServer.start(folder, settings=settings, programs=programs))
        try:
            factory._kept = await factory._connect("postgres")
            factory._loop = asyncio.get_running_loop()
        except BaseException:
            await factory.server.stop()
            raise
        return factory

    async def stop(self) -> None:
        """Call once, at the end, from where it was started."""
        try:
            if self._kept is not None:
                await self._kept.close(timeout=10)
        finally:
            await self.server.stop()

    async def make_template(self, slices: Sequence[Slice] = (KERNEL, NOTIFY, WEB)) -> None:
        """Migrate one database, once; the databases of the tests are copies of it."""
        async with self._admin() as admin:
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
        """The kept connection in the event loop that it belongs to, that of the whole run. A test has a loop of its
        own, and what it asks for itself goes over a connection of its own."""
        kept = self._kept
        if kept is not None and database == "postgres" and asyncio.get_running_loop() is self._loop:
            yield kept
            return
        connection = await self._connect(database)
        try:
            yield connection
        finally:
            await connection.close(timeout=10)

    async def _connect(self, database: str) -> Connection:
        url = self.server.url(database, role="admin")
        return await asyncpg.connect(url, timeout=10, command_timeout=60)
