"""The databases that tests are given, and the server they share."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from timebell.db.embedded import EmbeddedServer
from timebell.testing.database import TEMPLATE, DatabaseFactory, TestDatabase
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
async def test_a_database_is_made_in_a_tenth_of_a_second(databases: DatabaseFactory, template: None) -> None:
    fastest = float("inf")
    for _ in range(5):
        begun = time.monotonic()
        database = await databases.create()
        fastest = min(fastest, time.monotonic() - begun)
        await databases.drop(database)
    assert fastest < 0.1


async def test_the_template_is_made_once(databases: DatabaseFactory, template: None) -> None:
    made = f"SELECT oid::bigint FROM pg_database WHERE datname = '{TEMPLATE}'"
    url = databases.server.url(role="admin")
    before = await ask(url, made)
    await databases.make_template()
    assert await ask(url, made) == before


async def test_a_template_that_was_left_half_made_is_made_again(run_folder: Path) -> None:
    factory = await DatabaseFactory.join(run_folder)
    try:
        await ask(factory.server.url("postgres", role="admin"), f"CREATE DATABASE {TEMPLATE}")
        await factory.make_template()
        database = await factory.create()
        assert await ask(database.url, "SELECT count(*) FROM timebell.jobs") == 0
    finally:
        await factory.leave()


async def test_processes_of_a_run_share_one_server_until_the_last_has_left(run_folder: Path) -> None:
    starter = await DatabaseFactory.join(run_folder)
    guest = await DatabaseFactory.join(run_folder)
    assert guest.server.pid == starter.server.pid

    leaving = asyncio.create_task(starter.leave())
    late = await DatabaseFactory.join(run_folder)
    assert late.server.pid == starter.server.pid
    await guest.leave()
    assert await ask(late.server.url(), "SELECT true") is True
    assert not leaving.done()
    await late.leave()
    await asyncio.wait_for(leaving, 20)
    assert await EmbeddedServer.find(run_folder / "data") is None

    again = await DatabaseFactory.join(run_folder)
    assert again.server.pid != starter.server.pid
    await again.leave()
    assert not again.server.is_running


def test_the_folder_of_a_run_that_was_killed_is_removed_by_a_later_run() -> None:
    killed, in_use, unused, recent = (make_run_folder() for _ in range(4))
    for folder in (killed, in_use, recent):
        (folder / "users").touch()
    for folder in (killed, in_use):
        os.utime(folder / "users", (0, 0))
    with (in_use / "users").open() as seat:
        fcntl.flock(seat, fcntl.LOCK_SH)
        shutil.rmtree(make_run_folder())
    assert [folder.exists() for folder in (killed, in_use, unused, recent)] == [False, True, True, True]
    for folder in (in_use, unused, recent):
        shutil.rmtree(folder)
