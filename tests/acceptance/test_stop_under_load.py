"""Stopped in the middle of a flood, Timebell loses nothing and does nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import until
from timebell import App, Enqueue, Handler, Job, running
from timebell.db.embedded import EmbeddedServer

FLOOD_APP = """
import os, pathlib
from timebell import App, Handler

FILE = os.open(pathlib.Path(__file__).parent.parent / "sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def write(job):
    await job.tx.connection.execute("INSERT INTO flood.effects (job_id) VALUES ($1)", job.id)

async def send(job):
    os.write(FILE, f"{job.id}\\n".encode())

app = App(name="flood", migrations="flood_app.migrations", handlers={
    "flood.write": Handler(run=write, mode="transactional"), "flood.send": Handler(run=send, mode="external"),
})
"""

# Without a key, so that a job that ran twice shows.
EFFECTS = """-- phase: expand
CREATE TABLE flood.effects (job_id uuid NOT NULL);
GRANT SELECT, INSERT ON flood.effects TO {app_role};
"""


@pytest.fixture
def flood_app(place: Path) -> Path:
    migrations = place / "flood_app" / "migrations"
    migrations.mkdir(parents=True)
    (migrations / "__init__.py").touch()
    (migrations / "0001_expand_effects.sql").write_text(EFFECTS)
    (place / "flood_app" / "__init__.py").write_text(FLOOD_APP)
    (place / "sent").touch()
    return place


async def _elsewhere(_: Job) -> None:
    raise AssertionError("this process has no engine")


async def enqueue(folder: Path, count: int) -> None:
    handlers = {kind: Handler(run=_elsewhere, mode="external") for kind in ("flood.write", "flood.send")}
    app = App(name="flood", handlers=handlers)
    async with running(app, data=folder, engine=False) as bell, bell.transaction() as tx:
        for kind in handlers:
            await bell.enqueue_many(tx, [Enqueue(kind=kind)] * count)


async def ask(folder: Path, query: str) -> Any:
    server = await EmbeddedServer.find(folder)
    assert server is not None
    connection = await asyncpg.connect(server.url(role="admin"), timeout=10, command_timeout=30)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close(timeout=10)


@pytest.mark.req("U-21")
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_stop_in_a_flood(flood_app: Path, used_folder: Path, up: Up, count: int) -> None:
    sent = flood_app / "sent"
    first = up(used_folder, TIMEBELL_APPS="flood_app")
    asyncio.run(enqueue(used_folder, count))
    until(lambda: sent.stat().st_size > 0, 30, "the first jobs")
    assert first.stop() == 0, first.words
    assert len(sent.read_text().split()) < count, "too late to prove anything; use more jobs"

    second = up(used_folder, TIMEBELL_APPS="flood_app")
    until(lambda: not asyncio.run(ask(used_folder, "SELECT count(*) FROM timebell.jobs")), 120, "the rest")
    written = asyncio.run(ask(used_folder, "SELECT count(*) FROM flood.effects"))
    different = asyncio.run(ask(used_folder, "SELECT count(DISTINCT job_id) FROM flood.effects"))
    lines = sent.read_text().split()
    assert (written, different) == (count, count)
    assert (len(lines), len(set(lines))) == (count, count)
    assert asyncio.run(ask(used_folder, "SELECT count(*) FROM timebell.dead_jobs")) == 0
    assert second.stop() == 0, second.words
