"""What is refused is refused in one clear line, with 2 for what was asked wrongly and 1 for what failed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.processes import assert_refused, command, free_port
from timebell.testing.database import TestDatabase

SECRET = "hunter2-and-more"
NOBODY = f"postgresql://someone:{SECRET}@127.0.0.1:1/timebell"


def test_a_port_in_use(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(command("up", "--data", place / "data", "--port", port), 1, str(port), "--port")
    assert not (place / "data").exists()


@pytest.mark.parametrize("name", ["up", "work", "nodes"])
def test_a_server_that_does_not_answer(name: str) -> None:
    port = ["--port", free_port()] if name == "up" else []
    done = command(name, *port, DATABASE_URL=NOBODY)
    assert_refused(done, 1, "cannot connect", "DATABASE_URL")
    assert SECRET not in done.stderr


def test_a_url_that_is_none() -> None:
    done = command("work", DATABASE_URL=f"mysql://someone:{SECRET}@host/db")
    assert_refused(done, 2, "database_url", "postgresql://")
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, ["no module", "strange_app"]),
        ("x = 1", ["has no App"]),
        ("1 / 0", ["ZeroDivisionError"]),
        ("import not_there_at_all", ["not_there_at_all"]),
    ],
)
def test_an_app_that_cannot_be_loaded(place: Path, source: str | None, words: list[str]) -> None:
    if source is not None:
        (place / "strange_app.py").write_text(source)
    done = command("work", DATABASE_URL=NOBODY, TIMEBELL_APPS="strange_app", PYTHONPATH=str(place))
    assert_refused(done, 2, "apps: ", *words)


def test_a_schema_that_is_older(empty_database: TestDatabase) -> None:
    assert_refused(command("work", DATABASE_URL=empty_database.url), 1, "older", "timebell migrate")


async def test_a_schema_that_is_newer(database_url: TestDatabase) -> None:
    owner = await asyncpg.connect(database_url.owner_url)
    await owner.execute(
        "INSERT INTO timebell_meta.migrations VALUES ('kernel', 9000, 'later', 'contract', '', now(), 0)"
    )
    await owner.close()
    for name in ("work", "nodes"):
        assert_refused(command(name, DATABASE_URL=database_url.url), 1, "newer", "Install")


def test_a_folder_without_a_server(place: Path) -> None:
    assert_refused(command("jobs", "list", "--data", place), 1, str(place), "timebell up")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to leave its home")
def test_root_keeps_out_of_its_home() -> None:
    done = command("up", "--data", "/root/timebell-refused", "--port", free_port())
    assert_refused(done, 1, "/root", "--data")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["jobs", "show", "7"], "is not an id such as 01890a5d-ac96-774b-bcce-b302099a8057. See"),
        (["jobs", "list", "--limit", "0"], "--limit"),
        (["jobs", "list", "--cursor", "zzz"], "cursor"),
        (["jobs", "cancel"], "name what to cancel"),
        (["jobs", "revive"], "name dead jobs"),
        (["jobs", "revive", "01890a5d-ac96-774b-bcce-b302099a8057", "--payload", "{"], "JSON"),
        (["queues", "pause", "nowhere"], "nowhere"),
        (["up", "--port", "0"], "--port"),
        (["nodez"], "nodez"),
    ],
)
def test_what_was_asked_wrongly(database_url: TestDatabase, arguments: list[str], word: str) -> None:
    assert_refused(command(*arguments, DATABASE_URL=database_url.url), 2, word)


def test_a_setting_that_is_none() -> None:
    done = command("config", TIMEBELL_POOL_SIZ="3")
    assert done.returncode == 2
    assert "TIMEBELL_POOL_SIZE" in done.stderr
    assert "Traceback" not in done.stderr
