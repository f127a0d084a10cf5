"""The disk of the database is full. Nothing that was acknowledged is lost, and work goes on when there is room again.

Where only the tables have no room, on a tablespace of their own, PostgreSQL refuses statements and goes on by itself.
Where its data folder has none, it does so until the next checkpoint: that writes a file of its own there, and takes the
server down if it cannot. Where its log has none, it stops at once. Neither of these can start before there is room;
then whoever watches it has to start it, and nobody us.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.measures import longest_wait
from tests.acceptance.faults.servers import Server, mount_memory, unmount
from tests.acceptance.faults.waiting import until
from tests.history import load as load_history
from timebell.db.provision import DATABASE

MEGABYTE = 1024 * 1024
Full = Literal["tables", "data", "log"]
SETTINGS = {"max_wal_size": "48MB", "min_wal_size": "32MB", "wal_keep_size": "0", "wal_recycle": "off"}

INJECTIONS: Mapping[Full, str] = {
    "tables": "for the tables alone: statements are refused (53100) and PostgreSQL goes on, checkpoints too",
    "data": "for the data folder of PostgreSQL: a checkpoint stops it, and it is started again once there is room",
    "log": "for the log of PostgreSQL: it stops, and is started again once there is room",
}


@pytest.fixture
def disk(place: Path) -> Iterator[Path]:
    folder = place / "disk"
    mount_memory(folder, 256)
    yield folder
    unmount(folder)


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"\0" * MEGABYTE):
            pass
    return ballast


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize("full", ["tables", "data", "log"])
async def test_the_disk_is_full_for_a_while(
    make_stage: MakeStage, place: Path, disk: Path, full: Full
) -> None:
    count, seconds, goes_on = 3_000, 15.0, full == "tables"
    data, log = (disk if full == "data" else place), (disk if full == "log" else place)
    server = Server(data / "server", settings=SETTINGS, log=place / "server.log")
    await server.make(log_folder=log / "log")
    await server.start()
    await server.provision()
    if full == "tables":
        await server.move_database(DATABASE, disk / "tables")
    stage = make_stage(
        seed=22, url=server.url(), owner_url=server.url("owner"), admin_url=server.url("admin")
    )
    try:
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob")
            feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=seconds))
            await asyncio.sleep(3)
            began = datetime.now(UTC)
            ballast = fill(disk)
            assert os.statvfs(disk).f_bavail == 0
            await _is_refused(server, full)
            stage.note(f"it is full, and the server {'runs' if server.is_running else 'is down'}")
            await asyncio.sleep(3)
            assert server.is_running is goes_on, server.words
            ballast.unlink()
            if not goes_on:
                await server.start()
            stage.fault("full", "database", began, datetime.now(UTC))
            await feeding
            await stage.drained()
        wait = longest_wait(load_history(stage.file))
        figures = await stage.verdict("F22", "no room on the disk", INJECTIONS[full], recovery_seconds=wait)
        assert figures["jobs"] == count
        assert wait <= 5
        unknown = [each for each in load_history(stage.file) if each.op == "enqueue" and not each.answered_at]
        assert unknown, "nobody noticed that the disk was full; nothing is proven"
    finally:
        await server.stop()


async def _is_refused(server: Server, full: Full) -> None:
    """Until the server itself says that there is no room, or is gone for want of it.

    When the next checkpoint comes depends on how much was written before and how fast the machine is, so that it is
    asked for here: whatever it does to the server is part of what is proven, each time.
    """

    async def says_so() -> bool:
        if full == "tables":
            return "No space left on device" in server.words
        # Each time the log must go on in a file that has yet to be made.
        statement = "SELECT pg_switch_wal()" if full == "log" else "CHECKPOINT"
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await server.ask(statement)
        return not server.is_running

    await until(says_so, 60, "the server to notice")
    if full == "tables":
        await server.ask("CHECKPOINT")
