"""`timebell up` on its own PostgreSQL: raced for, put to sleep as a whole, and killed under load."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import Load, asking, feed
from tests.acceptance.faults.servers import children
from tests.acceptance.faults.stage import Stage
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import Process, free_port, postmaster_of, wait_gone
from timebell.db.embedded import EmbeddedServer


def launch_up(stage: Stage, name: str, folder: Path) -> Process:
    port = free_port()
    return stage.launch(name, "up", "--data", folder, "--port", port, port=port)


async def find_server(stage: Stage, folder: Path) -> EmbeddedServer:
    server = await EmbeddedServer.find(folder)
    assert server is not None
    stage.owner_url, stage.admin_url = server.url(role="owner"), server.url(role="admin")
    return server


@asynccontextmanager
async def asking_there(stage: Stage, folder: Path) -> AsyncIterator[Load]:
    server = await find_server(stage, folder)
    async with asking(server.url(), stage.owner_url, stage.history) as load:
        yield load


@pytest.mark.slow
async def test_two_at_the_same_instant_on_an_empty_folder(make_stage: MakeStage, place: Path) -> None:
    """One of them gets the folder. The other is told so, and leaves nothing behind."""
    stage = make_stage(seed=41)
    stage.url = ""
    folder = place / "data"
    both = [launch_up(stage, name, folder) for name in ("ada", "bob")]

    async def is_decided() -> bool:
        return any(each.popen.poll() is not None for each in both)

    await until(is_decided, 60, "one to be refused")
    [refused] = [each for each in both if each.popen.poll() is not None]
    [served] = [each for each in both if each is not refused]
    assert refused.popen.returncode == 1, refused.words
    assert str(folder) in refused.words
    await asyncio.to_thread(served.wait_ready)
    async with asking_there(stage, folder) as load:
        await feed(load, stage.chance, 500, seconds=3)
        await stage.drained()
    await stage.verdict("F36", "embedded: two at once", "two `timebell up` at one instant on an empty folder")
    assert await asyncio.to_thread(served.stop) == 0


@pytest.mark.slow
async def test_the_machine_sleeps(make_stage: MakeStage, used_folder: Path) -> None:
    """Node and server stand still together, for longer than a lease, and go on together."""
    stage = make_stage(seed=42, lease_seconds=3.0)
    stage.url = ""
    process = launch_up(stage, "ada", used_folder)
    await asyncio.to_thread(process.wait_ready)
    async with asking_there(stage, used_folder) as load:
        feeding = asyncio.create_task(feed(load, stage.chance, 1_500, seconds=12))
        for _ in range(2):
            await asyncio.sleep(2)
            began = datetime.now(UTC)
            pids = [process.popen.pid, *descendants(process.popen.pid)]
            tell(pids, signal.SIGSTOP)
            try:
                await asyncio.sleep(2 * stage.lease_seconds)
            finally:
                tell(pids, signal.SIGCONT)
            stage.fault("pause", "ada", began, datetime.now(UTC))
        await feeding
        await stage.drained()
    figures = await stage.verdict(
        "F36", "embedded: the machine sleeps", "SIGSTOP to node and server for two leases, twice"
    )
    assert figures["jobs"] == 1_500
    assert await asyncio.to_thread(process.stop) == 0


def descendants(pid: int) -> list[int]:
    """The processes below this one, however deep."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def tell(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.slow
@pytest.mark.req("U-1")
async def test_everything_is_killed_under_load(make_stage: MakeStage, used_folder: Path) -> None:
    """The parent dies of -9 and its server with it; the next `up` repairs the files and goes on at once."""
    stage = make_stage(seed=43)
    stage.url = ""
    for number in range(3):
        process = launch_up(stage, "ada", used_folder)
        await asyncio.to_thread(process.wait_ready)
        async with asking_there(stage, used_folder) as load:
            await feed(load, stage.chance, 600, seconds=3, prefix=f"round-{number}")
        postmaster = postmaster_of(used_folder)
        stage.kill("ada")
        await asyncio.to_thread(wait_gone, postmaster)
    process = launch_up(stage, "ada", used_folder)
    await asyncio.to_thread(process.wait_ready)
    await find_server(stage, used_folder)
    await stage.drained()
    figures = await stage.verdict(
        "F36", "embedded: everything is killed", "kill -9 of `timebell up` under load, 3 times, started again"
    )
    assert figures["jobs"] == 1_800
    assert await asyncio.to_thread(process.stop) == 0
