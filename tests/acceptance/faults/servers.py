"""PostgreSQL servers and poolers of a test's own: killed, copied, promoted, starved of room, given another clock.

They run under the keeper of the embedded server, so none outlives the test run, however that ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import asyncpg
import pytest

from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import free_port
from tests.packages import need_library
from timebell.db import keeper
from timebell.db.data_folder import DataFolder, is_alive, write_private
from timebell.db.migrate import migrate
from timebell.db.provision import (
    DATABASE,
    ROLES,
    Role,
    close_public_schema,
    provision_database,
    provision_roles,
)
from timebell.db.server_user import ServerUser, find_programs, open_way, server_user
from timebell.kernel.migrations import KERNEL

PASSWORD = "open-to-tests-alone"
_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_CONNECTING = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
# Durable as in production; small, because several of these run beside each other.
_SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "64MB",
    "max_connections": "80",
    "max_wal_size": "256MB",
    "wal_keep_size": "64MB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "jit": "off",
    "logging_collector": "off",
}


class FakeClock:
    """A clock that is set while a process runs under it. What only measures how long something takes stays true."""

    def __init__(self, file: Path) -> None:
        self._library = need_library("libfaketimeMT.so.1")
        self._file = file
        self.set(0)

    def set(self, seconds: float) -> None:
        """Ahead of the true time by so many seconds, or behind it. Replaced as a whole, never half written."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds:+.3f}\n")
        draft.chmod(0o644)
        draft.rename(self._file)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }


class Kept:
    """A program under the keeper: as another user where we are root, and gone when we are."""

    def __init__(
        self, command: Sequence[str], log: Path, user: ServerUser | None, environment: Mapping[str, str]
    ) -> None:
        self.log = log
        uid, gid = (str(user.uid), str(user.gid)) if user else ("-", "-")
        # The variables are for the program alone: the keeper must keep its own clock.
        given = ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items())]
        with log.open("ab") as words:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, uid, gid, str(log), *given, *command],
                stdin=subprocess.PIPE,
                stdout=words,
                stderr=words,
                bufsize=0,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            )

    @property
    def has_ended(self) -> bool:
        return self._keeper.poll() is not None

    @property
    def code(self) -> int | None:
        return self._keeper.poll()

    @property
    def words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    @property
    def pid(self) -> int | None:
        """The program itself, which is the keeper's only child."""
        below = children(self._keeper.pid)
        return below[0] if below else None

    async def ended(self, seconds: float) -> None:
        """Until it has, by itself or because of something done to it."""
        await until(lambda: self.has_ended, seconds, f"the end of what logs to {self.log}")
        self._let_go()

    async def end(self) -> None:
        self._let_go()
        await self.ended(_STOP_SECONDS)

    def _let_go(self) -> None:
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()


def children(pid: int) -> list[int]:
    """The processes that this one is the parent of."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found


def mount_memory(folder: Path, megabytes: int) -> None:
    """A small file system of its own; whoever mounts it unmounts it."""
    if os.geteuid() != 0:
        pytest.skip("a file system of a given size can only be mounted by root")
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting a tmpfs was refused: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, timeout=30, check=False)


class Server:
    """One PostgreSQL: a folder, a port, and whatever is done to it."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        clock: FakeClock | None = None,
        log: Path | None = None,
    ) -> None:
        self.folder = folder
        self.log = log or folder.with_suffix(".log")
        self.port = port or free_port()
        self.settings = {**_SETTINGS, **settings}
        self._files = DataFolder(folder)
        self._clock = clock
        self._kept: Kept | None = None
        self._user = server_user(self._files)
        self._programs = find_programs(self._user)

    @property
    def data(self) -> Path:
        return self._files.postgres

    @property
    def words(self) -> str:
        return self.log.read_text(errors="replace")[-5000:] if self.log.exists() else ""

    def url(self, role: Role = "app", *, port: int | None = None) -> str:
        address = f"127.0.0.1:{port or self.port}/{DATABASE}"
        return f"postgresql://{ROLES[role]}:{PASSWORD}@{address}?sslmode=disable"

    async def make(self, *, log_folder: Path | None = None) -> Server:
        """Initialise the files; the folder may be a mounted one, and PostgreSQL's own log may lie on another disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._open_way()
        self.data.mkdir(mode=0o700)
        self._give(self.data)
        secret = self.folder / "password"
        write_private(secret, PASSWORD)
        self._give(secret)
        options = [f"--pgdata={self.data}", f"--username={ROLES['admin']}", f"--pwfile={secret}"]
        options += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync"]
        if log_folder is not None:
            log_folder.mkdir(mode=0o700)
            self._give(log_folder)
            options.append(f"--waldir={log_folder}")
        await self._run("initdb", *options)
        return self

    async def provision(self) -> Server:
        """Roles, database and schema, on a server that runs."""
        async with self.connection("admin", "postgres") as admin:
            await provision_roles(admin, dict.fromkeys(ROLES, PASSWORD))
            await provision_database(admin, DATABASE)
        async with self.connection("admin") as admin:
            await close_public_schema(admin)
        async with self.connection("owner") as owner:
            await migrate(owner, [KERNEL], api_role=ROLES["api"], read_role=ROLES["read"])
        return self

    async def move_database(self, name: str, folder: Path) -> None:
        """All that belongs to a database that nobody uses just now, to a tablespace on another disk."""
        folder.mkdir(mode=0o700)
        self._give(folder)
        async with self.connection("admin", "postgres") as admin:
            await admin.execute(f"CREATE TABLESPACE elsewhere LOCATION '{folder}'")
            await admin.execute(f"ALTER DATABASE {name} SET TABLESPACE elsewhere")

    async def start(self, seconds: float = _READY_SECONDS) -> Server:
        """Return when it takes connections; raises with its last words if it ends instead."""
        if self._kept is not None:
            await self._kept.ended(_STOP_SECONDS)
        self._files.drop_stale_pid_file()
        await until(lambda: self._files.postmaster() is None, _STOP_SECONDS, "the end of its predecessor")
        command = [str(self._programs.folder / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        environment = self._clock.environment if self._clock else {}
        self._kept = kept = Kept(command, self.log, self._user, environment)

        async def takes_connections() -> bool:
            assert not kept.has_ended, f"PostgreSQL ended: {kept.words}"
            try:
                async with self.connection("admin", "postgres"):
                    return True
            except _CONNECTING:
                return False

        await until(takes_connections, seconds, "a server that takes connections")
        return self

    async def stop(self) -> None:
        if self._kept is not None:
            await self._kept.end()
            self._kept = None

    async def kill(self) -> None:
        """The postmaster and all its children, at once and without a word."""
        postmaster = self._files.postmaster()
        assert postmaster is not None, "there is nothing to kill"
        assert self._kept is not None
        pids = [postmaster.pid, *children(postmaster.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await until(lambda: not any(map(is_alive, pids)), _STOP_SECONDS, "the end of the killed server")
        await self._kept.ended(_STOP_SECONDS)
        self._kept = None

    @property
    def is_running(self) -> bool:
        return self._files.postmaster() is not None

    async def standby(self, folder: Path, *, port: int | None = None, via_port: int | None = None) -> Server:
        """A copy that follows this server under the name of its folder, not yet started."""
        copy, name = Server(folder, port=port, settings=self.settings), folder.name
        folder.mkdir(parents=True, exist_ok=True)
        copy._open_way()
        copy.data.mkdir(mode=0o700)
        copy._give(copy.data)
        source = (
            f"host=127.0.0.1 port={{port}} user={ROLES['admin']} password={PASSWORD} application_name={name}"
        )
        await self._run(
            *("pg_basebackup", "--pgdata", str(copy.data), "--checkpoint=fast", "--no-sync", "-R"),
            *("-d", source.format(port=self.port)),
        )
        with (copy.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{source.format(port=via_port or self.port)}'\n")
        return copy

    async def promote(self) -> None:
        async with self.connection("admin", "postgres") as admin:
            assert await admin.fetchval("SELECT pg_promote(true, 30)")

    async def ask(self, statement: str, *arguments: object) -> Any:
        """One value, asked as the administrator in the application's database."""
        async with self.connection("admin") as admin:
            return await admin.fetchval(statement, *arguments)

    async def configure(self, **settings: str) -> None:
        """Change settings while it runs."""
        async with self.connection("admin", "postgres") as admin:
            for name, value in settings.items():
                await admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            await admin.execute("SELECT pg_reload_conf()")

    @asynccontextmanager
    async def connection(self, role: Role = "app", database: str = DATABASE) -> AsyncIterator[Any]:
        url = self.url(role).replace(f"/{DATABASE}?", f"/{database}?")
        connection = await asyncpg.connect(url, timeout=5, command_timeout=60)
        try:
            yield connection
        finally:
            with suppress(*_CONNECTING):
                await connection.close(timeout=5)

    def _open_way(self) -> None:
        if self._user is not None:
            open_way(self.folder, self._user)

    def _give(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.uid, self._user.gid)

    async def _run(self, program: str, *arguments: str) -> None:
        """One of PostgreSQL's own programs, to its end."""
        log = self.folder.parent / f"{self.folder.name}.{program}.log"
        kept = Kept([str(self._programs.folder / program), *arguments], log, self._user, {})
        await kept.ended(120)
        assert kept.code == 0, kept.words


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[Server]:
    """A server with roles, database and schema, for as long as the block lasts."""
    server = Server(folder, **options)
    await server.make()
    try:
        await server.start()
        await server.provision()
        yield server
    finally:
        await server.stop()
