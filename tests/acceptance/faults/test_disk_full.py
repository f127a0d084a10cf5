"""The disk of the database is full. Nothing that was acknowledged is lost, and work goes on when there is room again.

Where only the tables have no room, PostgreSQL refuses statements and goes on by itself. Where its log has none, it
stops at once and cannot start before there is room; then whoever watches it has to start it, and nobody us.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.measures import longest_wait
from tests.acceptance.faults.servers import Server, mount_memory, unmount
from tests.acceptance.faults.waiting import until
from tests.history import load as load_history

MEGABYTE = 1024 * 1024
SETTINGS = {"max_wal_size": "48MB", "min_wal_size": "32MB", "wal_keep_size": "0", "wal_recycle": "off"}


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
@pytest.mark.parametrize("is_log_full", [False, True], ids=["tables", "log"])
async def test_the_disk_is_full_for_a_while(
    make_stage: MakeStage, place: Path, disk: Path, is_log_full: bool
) -> None:
    count, seconds = 3_000, 15.0
    tables, log = (place, disk) if is_log_full else (disk, place)
    server = Server(tables / "server", settings=SETTINGS, log=place / "server.log")
    await server.make(log_folder=log / "log")
    await server.start()
    await server.provision()
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
            await _is_refused(server, is_log_full)
            stage.note(f"it is full, and the server {'runs' if server.is_running else 'is down'}")
            await asyncio.sleep(3)
            assert server.is_running is not is_log_full
            ballast.unlink()
            if is_log_full:
                await server.start()
            stage.fault("full", "database", began, datetime.now(UTC))
            await feeding
            await stage.drained()
        wait = longest_wait(load_history(stage.file))
        injection = "for the tables: statements are refused (53100) and PostgreSQL goes on"
        if is_log_full:
            injection = "for the log of PostgreSQL: it stops, and is started again once there is room"
        figures = await stage.verdict("F22", "no room on the disk", injection, recovery_seconds=wait)
        assert figures["jobs"] == count
        assert wait <= 5
        unknown = [each for each in load_history(stage.file) if each.op == "enqueue" and not each.answered_at]
        assert unknown, "nobody noticed that the disk was full; nothing is proven"
    finally:
        await server.stop()


async def _is_refused(server: Server, is_log_full: bool) -> None:
    """Until the server itself says that there is no room, or is gone for want of it."""

    async def says_so() -> bool:
        if not is_log_full:
            return "No space left on device" in server.words
        # Each time the log must go on in a file that has yet to be made.
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await server.ask("SELECT pg_switch_wal()")
        return not server.is_running

    await until(says_so, 60, "the server to notice")
