"""The embedded server: what it promises when all goes well, and how it refuses what cannot go well."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest

from tests.store.embedded.processes import Start, ask, is_answering
from timebell.db import launcher
from timebell.db.data_folder import DataFolder
from timebell.db.embedded import EmbeddedServer, default_data_folder
from timebell.db.provision import Role
from timebell.errors import ConfigurationError, DataFolderInUse, EmbeddedServerError

ROLES: tuple[Role, ...] = ("owner", "app", "admin")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


async def test_a_new_folder_becomes_a_server_that_answers(new_folder: Path, start: Start) -> None:
    server = await start(new_folder)

    assert server.version.startswith("18.")
    assert (
        await ask(server.url(), "SELECT current_user || ' in ' || current_database()")
        == "timebell in timebell"
    )
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("timebell",)

    files = DataFolder(new_folder)
    assert files.postgres.is_dir()
    assert files.log_file.is_file()
    note = json.loads(files.server_file.read_text())
    assert (note["port"], note["pid"]) == (server.port, server.pid)
    for private in (files.server_file, files.credentials_file, files.lock_file, files.log_file):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600, private


async def test_a_used_folder_starts_fast_and_keeps_its_data(used_folder: Path, start: Start) -> None:
    server = await start(used_folder)
    await ask(server.url(role="owner"), "CREATE TABLE kept AS SELECT 42 AS answer")
    await server.stop()

    fastest = float("inf")
    for _ in range(3):
        begun = time.monotonic()
        server = await start(used_folder)
        fastest = min(fastest, time.monotonic() - begun)
        assert await ask(server.url(role="owner"), "SELECT answer FROM kept") == 42
        await server.stop()
    assert fastest < 1


async def test_the_app_role_owns_nothing_and_has_limits(server: EmbeddedServer) -> None:
    attributes = await ask(
        server.url(role="admin"),
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls OR NOT rolcanlogin"
        " FROM pg_roles WHERE rolname = 'timebell'",
    )
    assert attributes is False
    assert (
        await ask(server.url(role="admin"), "SELECT rolsuper FROM pg_roles WHERE rolname = 'timebell_owner'")
        is False
    )
    limits = {
        "lock_timeout": "5s",
        "statement_timeout": "1min",
        "idle_in_transaction_session_timeout": "20s",
        "jit": "off",
        "TimeZone": "UTC",
    }
    for name, value in limits.items():
        assert await ask(server.url(), f"SHOW {name}") == value
    for name in ("jit", "TimeZone"):
        assert await ask(server.url(role="owner"), f"SHOW {name}") == limits[name]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await ask(server.url(), "CREATE TABLE public.mine ()")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await ask(server.url("postgres"), "CREATE DATABASE mine")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await ask(server.url(), "CREATE TEMPORARY TABLE mine ()")


async def test_the_database_sorts_the_same_everywhere(server: EmbeddedServer) -> None:
    described = await ask(
        server.url(role="admin"),
        "SELECT (pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datlocprovider)::text"
        " FROM pg_database WHERE datname = 'timebell'",
    )
    assert described == "(timebell_owner,UTF8,C,b)"
    words = "SELECT string_agg(word, '' ORDER BY word) FROM unnest(array['é', 'a', 'B', 'z']) AS word"
    assert await ask(server.url(), words) == "Bazé"
    assert await ask(server.url(), "SELECT lower('É')") == "é"


async def test_nobody_enters_without_the_password(server: EmbeddedServer) -> None:
    methods = await ask(
        server.url(role="admin"), "SELECT array_agg(DISTINCT auth_method) FROM pg_hba_file_rules"
    )
    assert methods == ["scram-sha-256"]
    for role in ROLES:
        password = urlsplit(server.url(role=role)).password
        assert password is not None
        with pytest.raises(asyncpg.InvalidPasswordError):
            await ask(server.url(role=role).replace(password, "guess"), "SELECT 1")
    assert await ask(server.url(role="admin"), "SHOW listen_addresses") == "127.0.0.1"
    assert await ask(server.url(role="admin"), "SHOW unix_socket_directories") == ""


async def test_passwords_stay_out_of_the_log_and_of_repr(server: EmbeddedServer) -> None:
    passwords = [urlsplit(server.url(role=role)).password or "" for role in ROLES]
    assert len({*passwords, ""}) == len(ROLES) + 1
    log = DataFolder(server.folder).log_file.read_text()
    assert "ready to accept connections" in log
    assert not [password for password in passwords if password in log or password in repr(server)]


async def test_the_defaults_are_durable(used_folder: Path) -> None:
    server = await EmbeddedServer.start(used_folder)
    try:
        expected = {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "max_wal_size": "4GB",
            "wal_compression": "off",
            "jit": "off",
            "max_connections": "100",
            "TimeZone": "UTC",
            "idle_session_timeout": "0",
            "logging_collector": "off",
        }
        url = server.url(role="admin")
        assert {name: await ask(url, f"SHOW {name}") for name in expected} == expected
        megabytes = await ask(url, "SELECT setting::int / 128 FROM pg_settings WHERE name = 'shared_buffers'")
        assert f"{megabytes}MB" == launcher.shared_buffers(launcher.usable_memory())
    finally:
        await server.stop()


@pytest.mark.parametrize(("gigabytes", "buffers"), [(0.5, 128), (8, 819), (64, 2048)])
def test_shared_buffers_are_a_tenth_of_memory_within_bounds(gigabytes: float, buffers: int) -> None:
    assert launcher.shared_buffers(int(gigabytes * 1024**3)) == f"{buffers}MB"


async def test_settings_override_the_defaults(used_folder: Path, start: Start) -> None:
    server = await start(used_folder, settings={"max_connections": "33"})
    assert await ask(server.url(), "SHOW max_connections") == "33"


@pytest.mark.parametrize("name", ["port", "listen_addresses", "hba_file", "no such", "", "x" * 101])
async def test_settings_that_are_not_the_callers_are_refused(new_folder: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"settings: .*leave it out"):
        await EmbeddedServer.start(new_folder, settings={name: "1"})
    assert os.listdir(new_folder.parent) == []


@pytest.mark.parametrize("setting", [{"no_such_setting": "1"}, {"max_connections": "many"}])
async def test_a_setting_that_postgresql_refuses_is_named(
    used_folder: Path, start: Start, setting: dict[str, str]
) -> None:
    with pytest.raises(EmbeddedServerError, match=rf"Correct the setting it names.*{next(iter(setting))}"):
        await start(used_folder, settings=setting)
    assert await is_answering(await start(used_folder))


async def test_a_port_may_be_chosen(used_folder: Path, start: Start) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = await start(used_folder, port=port)
    assert server.port == port
    assert await is_answering(server)


@pytest.mark.parametrize("port", [0, -1, 65536])
async def test_a_port_that_cannot_be_is_refused(new_folder: Path, port: int) -> None:
    with pytest.raises(ConfigurationError, match="port: "):
        await EmbeddedServer.start(new_folder, port=port)


async def test_a_chosen_port_that_is_taken_is_named(used_folder: Path, start: Start, taken_port: int) -> None:
    with pytest.raises(EmbeddedServerError, match=f"Port {taken_port} .* is taken.*choose another"):
        await start(used_folder, port=taken_port)
    assert await is_answering(await start(used_folder))


async def test_another_port_is_tried_when_somebody_was_faster(
    used_folder: Path, start: Start, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_port = launcher._free_port
    offered = iter([taken_port, taken_port])
    monkeypatch.setattr(launcher, "_free_port", lambda: next(offered, None) or free_port())
    server = await start(used_folder)
    assert server.port != taken_port
    assert next(offered, None) is None


async def test_a_held_folder_is_refused_and_its_server_left_alone(used_folder: Path, start: Start) -> None:
    server = await start(used_folder)
    with pytest.raises(DataFolderInUse, match=f"in use by process {os.getpid()}.*--data DIR"):
        await start(used_folder)
    linked = used_folder.with_name("linked")
    linked.symlink_to(used_folder)
    with pytest.raises(DataFolderInUse):
        await start(linked)
    assert await is_answering(server)


async def test_a_running_server_is_found_and_not_stopped_by_the_finder(
    used_folder: Path, start: Start
) -> None:
    assert await EmbeddedServer.find(used_folder / "nowhere") is None
    assert await EmbeddedServer.find(used_folder) is None
    server = await start(used_folder)

    found = await EmbeddedServer.find(used_folder)
    assert found is not None
    assert (found.pid, found.port, found.version, found.folder) == (
        server.pid,
        server.port,
        server.version,
        server.folder,
    )
    assert [found.url(role=role) for role in ROLES] == [server.url(role=role) for role in ROLES]
    await found.stop()
    assert await is_answering(server)

    files = DataFolder(used_folder)
    files.write(files.server_file, {"port": server.port, "pid": os.getpid(), "version": server.version})
    assert await EmbeddedServer.find(used_folder) is None, "the note is of an earlier server"

    await server.stop()
    assert await EmbeddedServer.find(used_folder) is None
    assert not found.is_running


async def test_stop_cuts_connections_and_may_be_called_again(used_folder: Path, start: Start) -> None:
    server = await start(used_folder)
    connection = await asyncpg.connect(server.url())
    begun = time.monotonic()
    await server.stop()
    assert time.monotonic() - begun < 6
    assert not server.is_running
    assert not DataFolder(used_folder).server_file.exists()
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.AdminShutdownError)):
        await connection.fetchval("SELECT 1")
    connection.terminate()
    await server.stop()


async def test_another_major_version_is_refused(used_folder: Path, start: Start) -> None:
    (used_folder / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(
        EmbeddedServerError, match=r"written by PostgreSQL 16, and this is PostgreSQL 18.*pg_dump"
    ):
        await start(used_folder)


async def test_a_folder_that_is_no_database_is_refused(new_folder: Path, start: Start) -> None:
    (new_folder / "postgres").mkdir(parents=True)
    with pytest.raises(EmbeddedServerError, match=r"does not hold a database.*--data DIR"):
        await start(new_folder)


@pytest.mark.parametrize("below", ["", "data"])
async def test_a_file_instead_of_a_folder_is_refused(new_folder: Path, start: Start, below: str) -> None:
    shutil.copyfile(__file__, new_folder)
    with pytest.raises(EmbeddedServerError, match=rf"{new_folder}\S* is not a folder. .*--data DIR"):
        await start(new_folder / below)
    with pytest.raises(EmbeddedServerError, match="--data DIR"):
        await EmbeddedServer.find(new_folder)


async def test_lost_passwords_are_explained(used_folder: Path, start: Start) -> None:
    credentials = used_folder / "credentials.json"
    kept = credentials.read_text()
    credentials.unlink()
    with pytest.raises(EmbeddedServerError, match=r"credentials.json is missing.*backup"):
        await start(used_folder)
    credentials.write_text(kept[:10])
    with pytest.raises(EmbeddedServerError, match=r"credentials.json is damaged.*backup"):
        await start(used_folder)
    credentials.write_text(json.dumps(dict.fromkeys(ROLES, "guess")))
    with pytest.raises(EmbeddedServerError, match=r"do not open the database.*backup"):
        await start(used_folder)
    credentials.write_text(kept)
    assert await is_answering(await start(used_folder))


async def test_a_log_that_has_grown_large_is_set_aside(used_folder: Path, start: Start) -> None:
    log = DataFolder(used_folder).log_file
    with log.open("wb") as file:
        file.truncate(10_000_001)
    await start(used_folder)
    assert log.stat().st_size < 10_000
    assert log.with_name("postgres.log.old").stat().st_size == 10_000_001


def test_the_default_folder_is_where_such_data_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_folder() == Path("/var/lib/timebell")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_data_folder() == Path("/home/somebody/.local/share/timebell")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_data_folder() == Path("/home/somebody/.local/share/timebell")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_folder() == Path("/data/timebell")
