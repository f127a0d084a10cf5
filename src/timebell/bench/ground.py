"""The ground that every benchmark stands on: a throwaway database with durable defaults and a no-op handler."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg

from timebell.config import Settings
from timebell.db.embedded import EmbeddedServer
from timebell.db.migrate import migrate
from timebell.db.pool import Database
from timebell.db.provision import DATABASE, ROLES, close_public_schema, provision_database
from timebell.errors import EmbeddedServerError
from timebell.kernel import App, Enqueue, Handler, Job, Registry, Timebell
from timebell.kernel.models import Mode
from timebell.kernel.transaction import Transaction
from timebell.loading import slices_of

MODES: tuple[Mode, ...] = ("plain", "external", "transactional")
CHUNK = 5_000
WARM_UP_JOBS = 2_000
PAYLOAD = {"to": "recipient", "text": "t" * 120, "number": 42, "flags": [True, False]}


async def nothing(_: Job) -> None:
    """The handler that costs nothing, so that what is measured is all the rest."""


NO_OPS = App(name="bench", handlers={f"bench.{mode}": Handler(run=nothing, mode=mode) for mode in MODES})


@dataclass(slots=True)
class Ground:
    """A migrated database of its own and the URLs that lead to it."""

    url: str
    api_url: str
    admin_url: str
    server_pid: int

    async def open(self, *apps: App) -> Timebell:
        settings = Settings(concurrency=1_000, node_name="bench")
        bell = Timebell(
            await Database.open(self.url, size=settings.pool_size),
            registry=Registry(apps or [NO_OPS]),
            settings=settings,
        )
        await bell.declare()
        return bell


async def close(bell: Timebell) -> None:
    await bell.close()
    await bell.database.close()


@asynccontextmanager
async def throwaway(data: Path | None = None, apps: Sequence[App] = ()) -> AsyncIterator[Ground]:
    """A database that is gone afterwards, on disk and with durable defaults, with the tables that the apps bring.

    It is made in the embedded server that runs on `data`, so that others can be measured on the same one, or else
    in a server of its own.
    """
    if data is not None:
        async with _database_on(data, apps) as ground:
            yield ground
        return
    home = Path(tempfile.mkdtemp(prefix="timebell-bench-"))
    try:
        server = await EmbeddedServer.start(home / "data")
        try:
            yield await _migrated(server, DATABASE, apps)
        finally:
            await server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def _database_on(data: Path, apps: Sequence[App]) -> AsyncIterator[Ground]:
    server = await EmbeddedServer.find(data)
    if server is None:
        raise EmbeddedServerError(f"No embedded server runs on {data}: start one there, or leave --data out.")
    name = f"bench_{os.getpid()}"
    admin = await asyncpg.connect(server.url("postgres", role="admin"))
    try:
        await provision_database(admin, name)
        try:
            yield await _migrated(server, name, apps)
        finally:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


async def _migrated(server: EmbeddedServer, name: str, apps: Sequence[App]) -> Ground:
    owner = await asyncpg.connect(server.url(name, role="owner"))
    try:
        await close_public_schema(owner)
        await migrate(owner, slices_of(Registry(apps)), api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await owner.close()
    return Ground(
        url=server.url(name),
        api_url=server.url(name, role="api"),
        admin_url=server.url(name, role="admin"),
        server_pid=server.pid,
    )


async def add_future(ground: Ground, count: int) -> None:
    """Rows that are due in the coming weeks and must not cost anything now."""
    connection = await asyncpg.connect(ground.admin_url)
    try:
        for begin in range(0, count, 100_000):
            await connection.execute(
                "INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)"
                " SELECT timebell.new_id(), 'default', 'default', 'bench.plain', at, at, $2::text::jsonb"
                " FROM (SELECT now() + interval '1 day' + random() * interval '60 days' AS at"
                "       FROM generate_series(1, $1)) AS future",
                min(100_000, count - begin),
                '{"to": "recipient", "text": "later"}',
            )
        await connection.execute("VACUUM (ANALYZE) timebell.jobs")
    finally:
        await connection.close()


async def add_due(bell: Timebell, count: int, mode: Mode, tx: Transaction | None = None) -> None:
    """Jobs that are due now, in one transaction or in as many as an application would take."""
    for begin in range(0, count, CHUNK):
        jobs = [
            Enqueue(kind=f"bench.{mode}", payload=PAYLOAD, delay=timedelta(0))
            for _ in range(min(CHUNK, count - begin))
        ]
        if tx is not None:
            await bell.enqueue_many(tx, jobs)
            continue
        async with bell.transaction() as one:
            await bell.enqueue_many(one, jobs)


@asynccontextmanager
async def held_snapshot(ground: Ground) -> AsyncIterator[None]:
    """A forgotten transaction somewhere else, which keeps every dead row alive."""
    connection = await asyncpg.connect(ground.admin_url)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.execute("SELECT 1 FROM timebell.slots LIMIT 1")
        yield
    finally:
        await connection.close()
