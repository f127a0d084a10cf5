"""`/readyz` of a process on a server: it says no for as long as something is wrong, and then yes again."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.processes import Process, answer, clean_environment, free_port, until
from timebell.testing.database import TestDatabase


@pytest.fixture
def process(place: Path, processes: list[Process], database_url: TestDatabase) -> Process:
    """`timebell up` on a server that is somebody else's."""
    port = free_port()
    environment = clean_environment(DATABASE_URL=database_url.url, TIMEBELL_OWNER_URL=database_url.owner_url)
    notes = place / "up"
    process = Process(notes, "up", "--port", port, port=port, environment=environment, is_forked=False)
    processes.append(process)
    process.wait_ready()
    return process


def reasons(process: Process) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/readyz", timeout=5):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return " ".join(json.load(error)["reasons"])


async def test_it_is_not_ready_while_the_schema_does_not_fit(
    process: Process, database_url: TestDatabase
) -> None:
    owner = await asyncpg.connect(database_url.owner_url)
    row = "('kernel', 9000, 'later', 'contract', '', now(), 0)"
    await owner.execute(f"INSERT INTO timebell_meta.migrations VALUES {row}")
    until(lambda: "newer than this version" in reasons(process), 30, "the complaint")
    await owner.execute("DELETE FROM timebell_meta.migrations WHERE number = 9000")
    until(lambda: reasons(process) == "", 30, "readiness")
    await owner.close()
    assert process.stop() == 0, process.words


@pytest.mark.req("J-12.4")
async def test_it_outlives_an_absence_of_the_database(process: Process, database_url: TestDatabase) -> None:
    assert process.status("/health") == 200, "from the first moment on"
    admin = await asyncpg.connect(database_url.admin_url.replace(f"/{database_url.name}", "/postgres"))
    away = f"ALTER DATABASE {database_url.name} ALLOW_CONNECTIONS"
    await admin.execute(f"{away} false")
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1"
    assert await admin.fetchval(ended, database_url.name) > 0
    until(lambda: "database" in reasons(process), 20, "the complaint")
    assert process.status("/healthz") == 200
    assert process.status("/health") == 503
    await admin.execute(f"{away} true")
    until(lambda: process.status() == 200, 30, "readiness")
    report = answer("check", "--jobs", 20, "--seconds", 0.5, DATABASE_URL=database_url.url)
    assert (report["finished"], report["early"]) == (20, 0)
    assert process.stop() == 0, process.words
    await admin.close()


async def test_a_stop_while_the_database_is_away_takes_no_longer(
    process: Process, database_url: TestDatabase
) -> None:
    admin = await asyncpg.connect(database_url.admin_url.replace(f"/{database_url.name}", "/postgres"))
    await admin.execute(f"ALTER DATABASE {database_url.name} ALLOW_CONNECTIONS false")
    await admin.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", database_url.name
    )
    await admin.close()
    until(lambda: "database" in reasons(process), 20, "the complaint")
    assert process.stop() == 0, process.words
    assert "Traceback" not in process.words
