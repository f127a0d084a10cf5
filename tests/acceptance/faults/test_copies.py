"""A copy that was made under load and started elsewhere. Each database is its own truth."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.servers import PASSWORD, Server, served
from tests.acceptance.faults.stage import Stage
from tests.history import load as load_history
from timebell.db.provision import DATABASE, ROLES
from timebell.db.server_user import find_programs

# What the copy has inherited of the jobs that it says are done.
BEFORE = ("start", "end")

Copy = Callable[[Server, Path], Awaitable[Server]]


async def by_base_backup(server: Server, folder: Path) -> Server:
    """The files, while they are written to."""
    copy = await server.standby(folder)
    (copy.data / "standby.signal").unlink()
    return await copy.start()


async def by_dump(server: Server, folder: Path) -> Server:
    """The rows, as one transaction sees them, into a server with the same roles."""
    file = folder.with_suffix(".dump")
    await run_program("pg_dump", server, "--format=custom", "--file", str(file))
    copy = await Server(folder).make()
    await copy.start()
    async with copy.connection("admin", "postgres") as admin:
        for role in ("owner", "app", "api", "read"):
            await admin.execute(f"CREATE ROLE {ROLES[role]} LOGIN PASSWORD '{PASSWORD}'")
        await admin.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLES['owner']}")
    await run_program("pg_restore", copy, "--exit-on-error", str(file))
    return copy


async def run_program(name: str, server: Server, *arguments: str) -> None:
    program = find_programs(None).folder / name
    done = await asyncio.to_thread(
        subprocess.run,
        [str(program), "--dbname", server.url("admin"), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@asynccontextmanager
async def copied(copy: Copy, server: Server, folder: Path) -> AsyncIterator[Server]:
    other = await copy(server, folder)
    try:
        yield other
    finally:
        await other.stop()


async def names(url: str, query: str) -> set[str]:
    connection = await asyncpg.connect(url, timeout=10, command_timeout=60)
    try:
        return {row[0] for row in await connection.fetch(query)}
    finally:
        await connection.close(timeout=10)


@pytest.mark.slow
@pytest.mark.req("U-1")
@pytest.mark.parametrize("copy", [by_base_backup, by_dump])
async def test_a_copy_made_under_load_goes_on_from_its_own_moment(
    make_stage: MakeStage, place: Path, copy: Copy
) -> None:
    """What the copy says is done is not done again there, what it says is owed is done once, and nothing else is."""
    async with served(place / "server") as server:
        stage = make_stage(
            seed=37, url=server.url(), owner_url=server.url("owner"), admin_url=server.url("admin")
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob")
            feeding = asyncio.create_task(feed(load, stage.chance, 3_000, seconds=12))
            await asyncio.sleep(5)
            async with copied(copy, server, place / "copy") as other:
                await feeding
                await stage.drained()
                await stage.verdict("F37", "a copy is made", f"{copy.__name__} under load: the original")
                await check_copy(stage, other, place, copy.__name__)


async def check_copy(stage: Stage, other: Server, place: Path, how: str) -> None:
    owed = await names(other.url(), "SELECT key FROM timebell.jobs")
    done = await names(other.url(), "SELECT key FROM timebell.job_log WHERE state = 'done'")
    assert owed, "nothing was owed when the copy was made; nothing is proven"
    assert done, "nothing was done when the copy was made; nothing is proven"
    (place / "elsewhere").mkdir()
    there = Stage(other.url(), other.url("owner"), other.url("admin"), place / "elsewhere", seed=0)
    for record in load_history(stage.file):
        if (record.op == "enqueue" and record.key in owed | done) or (
            record.key in done and record.op in BEFORE
        ):
            there.history.append(record)
    try:
        await there.start("cyd")
        await there.drained()
        begun = {
            record.key for record in load_history(there.file) if record.op == "start" and record.node == "cyd"
        }
        assert begun == owed, "the copy did what it did not owe, or not all that it did"
        doubled = await there.ask("SELECT name FROM faults.effects GROUP BY name HAVING count(*) > 1")
        assert doubled == []
        there.note(f"{len(done)} had been done, {len(owed)} were owed and are done in the copy")
        await there.verdict("F37", "a copy is started elsewhere", f"{how} under load: the copy")
    finally:
        there.end()
