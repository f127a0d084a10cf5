"""The databases that tests are given, and the server that each process of a run has for them."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from timebell.db.launcher import locale_arguments
from timebell.db.server_user import Programs, find_programs
from timebell.testing.database import PROGRAMS, TEMPLATE, DatabaseFactory, TestDatabase
from timebell.testing.fixtures import RUN_FOLDER
from timebell.testing.run_folder import make_run_folder, roomy_folder


@pytest.fixture
def run_folder() -> Iterator[Path]:
    folder = make_run_folder()
    yield folder
    shutil.rmtree(folder)


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url, timeout=10, command_timeout=10)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close(timeout=10)


async def test_each_role_has_its_url(database_url: TestDatabase) -> None:
    roles = [
        database_url.url,
        database_url.api_url,
        database_url.read_url,
        database_url.owner_url,
        database_url.admin_url,
    ]
    who = "SELECT current_user || ' in ' || current_database()"
    names = ("timebell", "timebell_api", "timebell_read", "timebell_owner", "postgres")
    assert [await ask(url, who) for url in roles] == [f"{name} in {database_url.name}" for name in names]


async def test_a_database_is_migrated_and_open_to_the_app_role(database_url: TestDatabase) -> None:
    assert await ask(database_url.owner_url, "SELECT count(*) > 0 FROM timebell_meta.migrations") is True
    assert await ask(database_url.url, "SELECT count(*) FROM timebell.jobs") == 0


async def test_an_empty_database_is_empty(empty_database: TestDatabase) -> None:
    assert await ask(empty_database.owner_url, "SELECT to_regnamespace('timebell_meta') IS NULL") is True
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await ask(empty_database.url, "CREATE TABLE mine ()")


async def test_databases_do_not_see_each_other_and_are_dropped(
    databases: DatabaseFactory, template: None
) -> None:
    first, second = await databases.create(), await databases.create()
    await ask(first.owner_url, "CREATE TABLE public.mine ()")
    assert await ask(second.owner_url, "SELECT to_regclass('public.mine') IS NULL") is True
    left_open = await asyncpg.connect(first.url)
    await databases.drop(first)
    await databases.drop(second)
    left_open.terminate()
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await ask(first.url, "SELECT 1")


@pytest.mark.skipif(roomy_folder().name != "shm", reason="there is too little memory to keep databases in")
async def test_a_database_is_made_in_far_less_than_a_second(
    databases: DatabaseFactory, template: None
) -> None:
    """Some tens of milliseconds; on a machine that has ten times as much to do as it can, a tenth of a second."""
    fastest = float("inf")
    for _ in range(5):
        begun = time.monotonic()
        database = await databases.create()
        fastest = min(fastest, time.monotonic() - begun)
        await databases.drop(database)
    assert fastest < 0.5


async def test_the_template_is_made_once(databases: DatabaseFactory, template: None) -> None:
    made = f"SELECT oid::bigint FROM pg_database WHERE datname = '{TEMPLATE}'"
    url = databases.server.url(role="admin")
    before = await ask(url, made)
    await databases.make_template()
    assert await ask(url, made) == before


async def test_a_template_that_was_left_half_made_is_made_again(run_folder: Path) -> None:
    factory = await DatabaseFactory.start(run_folder / "main")
    try:
        await ask(factory.server.url("postgres", role="admin"), f"CREATE DATABASE {TEMPLATE}")
        await factory.make_template()
        database = await factory.create()
        assert await ask(database.url, "SELECT count(*) FROM timebell.jobs") == 0
    finally:
        await factory.stop()
    assert not factory.server.is_running


def test_each_process_of_a_run_has_a_server_of_its_own(databases: DatabaseFactory) -> None:
    """On a shared one, whatever waits for older transactions to end would wait for those of other tests."""
    process = os.environ.get("PYTEST_XDIST_WORKER", "main")
    assert databases.server.folder == Path(os.environ[RUN_FOLDER], process)
    assert databases.server.is_started_here


def test_the_folder_of_a_run_that_was_killed_is_removed_by_a_later_run() -> None:
    killed, in_use, unused, recent = (make_run_folder() for _ in range(4))
    for folder in (killed, in_use, recent):
        for process in ("gw0", "gw1"):
            (folder / process).mkdir()
            (folder / process / "lock").touch()
    for folder in (killed, in_use, unused):
        os.utime(folder, (0, 0))
    with (in_use / "gw1" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(make_run_folder())
    assert [folder.exists() for folder in (killed, in_use, unused, recent)] == [False, True, True, True]
    for folder in (in_use, unused, recent):
        shutil.rmtree(folder)


async def test_another_postgresql_can_be_tried(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of the wheel stand for those of another version: what is named is what runs, orders and folds."""
    programs = find_programs(None).folder
    other = run_folder / "other"
    other.mkdir(0o755)
    (other / "bin").symlink_to(programs)
    run_folder.chmod(0o755)
    monkeypatch.setenv(PROGRAMS, str(other / "bin"))
    factory = await DatabaseFactory.start(run_folder / "data")
    try:
        database = await factory.create(template=None)
        seen = "SELECT concat_ws(' ', datcollate, lower('ÄB'), current_setting('scram_iterations')) FROM pg_database"
        assert await ask(database.admin_url, f"{seen} WHERE datname = current_database()") == "C äb 1"
        started = Path(f"/proc/{factory.server.pid}/cmdline").read_text().partition("\0")[0]
        assert started == str(other / "bin" / "postgres")
    finally:
        await factory.stop()


@pytest.mark.parametrize(
    ("version", "locale"),
    [
        ("18.4", ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]),
        ("17.0", ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]),
        ("16.9", ["--locale=C", "--lc-ctype=C.UTF-8"]),
    ],
)
def test_older_ones_have_no_locale_of_their_own(version: str, locale: list[str]) -> None:
    assert locale_arguments(Programs(folder=Path("/"), version=version)) == locale
