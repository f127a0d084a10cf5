"""`timebell.running`: Timebell inside a program of the user's own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

import timebell
from tests.acceptance.conftest import Up
from tests.acceptance.processes import answer
from timebell import App, Handler, Job
from timebell.config import Settings
from timebell.errors import ConfigurationError
from timebell.testing.database import TestDatabase


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


async def test_a_folder_and_settings_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="data: "):
        async with timebell.running(data=tmp_path, settings=Settings()):
            pass
