"""`timebell.running`: Timebell inside a program of the user's own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

import timebell
from tests.acceptance.conftest import Up
from tests.acceptance.processes import answer
from timebell import App, Handler, Job
from timebell.config import Settings
from timebell.errors import ConfigurationError
from timebell.testing.database import TestDatabase


class Pulse:
    """Beats for as long as the event loop lets others have their turn."""

    beats = 0

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.beats += 1


async def test_a_program_runs_its_own_jobs(empty_database: TestDatabase) -> None:
    rang: asyncio.Queue[Job] = asyncio.Queue()
    app = App(name="hello", handlers={"hello.ring": rang.put})
    settings = Settings(database_url=empty_database.url, owner_url=empty_database.owner_url)
    async with timebell.running(app, settings=settings) as bell:
        async with bell.transaction() as tx:
            await bell.enqueue(tx, "hello.ring", {"for": "you"}, delay=timedelta(milliseconds=50))
        async with asyncio.timeout(20):
            job = await rang.get()
    assert job.payload == {"for": "you"}


async def test_a_program_shares_what_runs_already(used_folder: Path, up: Up) -> None:
    process = up(used_folder)
    done = asyncio.Event()

    async def ring(_: Job) -> None:
        done.set()

    app = App(name="hello", handlers={"hello.ring": Handler(run=ring, mode="external")})
    async with timebell.running(app, data=used_folder) as bell:
        async with bell.transaction() as tx:
            for _ in range(40):
                await bell.enqueue(tx, "hello.ring")
        async with asyncio.timeout(30):
            await done.wait()
        assert len(answer("nodes", "--data", used_folder)) == 2
    assert len(answer("nodes", "--data", used_folder)) == 1
    assert process.status() == 200


async def test_a_program_may_leave_the_running_to_others(empty_database: TestDatabase) -> None:
    async def ring(_: Job) -> None:
        raise AssertionError("there is no engine here")

    settings = Settings(database_url=empty_database.url, owner_url=empty_database.owner_url)
    app = App(name="hello", handlers={"hello.ring": ring})
    async with timebell.running(app, settings=settings, engine=False) as bell:
        async with bell.transaction() as tx:
            enqueued = await bell.enqueue(tx, "hello.ring")
        assert answer("nodes", DATABASE_URL=empty_database.url) == []
    [job] = answer("jobs", "list", DATABASE_URL=empty_database.url)["data"]
    assert (job["id"], job["state"]) == (str(enqueued.id), "pending")


async def test_a_stop_that_waits_for_a_locked_row_lets_the_program_go_on(database_url: TestDatabase) -> None:
    begun, may_end, pulse = asyncio.Event(), asyncio.Event(), Pulse()

    async def ring(_: Job) -> None:
        begun.set()
        await may_end.wait()

    app = App(name="hello", handlers={"hello.ring": Handler(run=ring, mode="external")})
    settings = Settings(database_url=database_url.url, owner_url=database_url.owner_url, stop_seconds=1)
    holder = await asyncpg.connect(database_url.admin_url)
    async with asyncio.timeout(30), holder.transaction():
        async with timebell.running(app, settings=settings) as bell:
            async with bell.transaction() as tx:
                await bell.enqueue(tx, "hello.ring")
            await begun.wait()
            await holder.execute("SELECT FROM timebell.jobs FOR UPDATE")
            may_end.set()
            beating = asyncio.create_task(pulse.beat())
        beating.cancel()
    await holder.close()
    assert pulse.beats > 10


async def test_a_folder_and_settings_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="data: "):
        async with timebell.running(data=tmp_path, settings=Settings()):
            pass
