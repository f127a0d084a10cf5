"""A PostgreSQL of our own, from the programs in a wheel: one data folder, one server, one process to run it.

The server ends with the process that started it, however that process ends (`keeper.py`). It listens on the
loopback address only and lets nobody in without a password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

import asyncpg

from timebell.db.data_folder import DataFolder, default_data_folder
from timebell.db.launcher import Launcher, Running, check_settings
from timebell.db.provision import (
    DATABASE,
    ROLES,
    Connection,
    Role,
    close_public_schema,
    provision_database,
    provision_roles,
)
from timebell.db.server_user import MAJOR, ServerUser, find_programs, open_way, server_user
from timebell.errors import EmbeddedServerError

__all__ = ["EmbeddedServer", "default_data_folder"]

_LOOK_SECONDS = 0.5
_CONNECT_SECONDS = 5.0
_STATEMENT_SECONDS = 30.0
_CONNECTION_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


class EmbeddedServer:
    """One running server on one data folder. Keep the object: the server ends when nobody holds it."""

    def __init__(
        self,
        folder: DataFolder,
        *,
        port: int,
        pid: int,
        version: str,
        passwords: Mapping[Role, str],
        running: Running | None = None,
        lock: int | None = None,
    ) -> None:
        self._folder = folder
        self._port = port
        self._pid = pid
        self._version = version
        self._passwords = dict(passwords)
        self._running = running
        self._lock = lock

    @classmethod
    async def start(
        cls,
        folder: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        programs: Path | None = None,
    ) -> EmbeddedServer:
        """Start a server on this folder, making the folder if need be, and return when it answers.

        `settings` are PostgreSQL's own and override ours. `programs` is where those of another version are, for tests.
        If this raises, nothing is left running.
        """
        check_settings(port, settings)
        place = DataFolder(folder)
        with place.explained():
            _open_way(place, server_user(place))
            place.make()
            lock = await place.hold()
            try:
                server = await cls._start(place, lock, port, settings, programs)
            except BaseException:
                place.let_go(lock)
                raise
        return server

    @classmethod
    async def _start(
        cls,
        folder: DataFolder,
        lock: int,
        port: int | None,
        settings: Mapping[str, str],
        given: Path | None,
    ) -> EmbeddedServer:
        if given is None:
            _check_version(folder)
        user = server_user(folder)
        _open_way(folder, user)
        programs = await asyncio.to_thread(find_programs, user, given)
        await folder.end_orphan()
        passwords = folder.credentials(ROLES)
        launcher = Launcher(folder, programs, user, lock, settings)
        if not folder.postgres.exists():
            await launcher.initialise(ROLES["admin"], passwords["admin"])
        served = await launcher.serve(port)
        server = cls(
            folder,
            port=served.port,
            pid=served.pid,
            version=programs.version,
            passwords=passwords,
            running=served.running,
            lock=lock,
        )
        try:
            await server._provision()
        except BaseException:
            await served.running.end()
            raise
        return server

    @classmethod
    async def find(cls, folder: Path) -> EmbeddedServer | None:
        """The server that another process runs on this folder, if it answers. `stop` leaves it alone."""
        place = DataFolder(folder)
        with place.explained():
            note = place.read(place.server_file)
            postmaster = place.postmaster()
            if note is None or postmaster is None or note.get("pid") != postmaster.pid:
                return None
            passwords = place.credentials(ROLES, is_holder=False)
        server = cls(
            place,
            port=postmaster.port,
            pid=postmaster.pid,
            version=str(note.get("version")),
            passwords=passwords,
        )
        try:
            connection = await server._connect("postgres")
            await connection.close(timeout=_CONNECT_SECONDS)
        except _CONNECTION_ERRORS:
            return None
        return server

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def port(self) -> int:
        return self._port

    @property
    def version(self) -> str:
        return self._version

    @property
    def is_started_here(self) -> bool:
        return self._running is not None

    @property
    def is_running(self) -> bool:
        postmaster = self._folder.postmaster()
        return postmaster is not None and postmaster.pid == self._pid

    async def ended(self) -> None:
        """As long as it runs: it is a process of its own, and tells nobody when it ends."""
        while True:
            if not self.is_running:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def __repr__(self) -> str:
        return f"EmbeddedServer(folder={str(self.folder)!r}, port={self.port}, pid={self.pid})"

    def url(self, database: str = DATABASE, *, role: Role = "app") -> str:
        """A connection string that asyncpg and psycopg both read. It contains the password of the role."""
        if role not in self._passwords:
            raise EmbeddedServerError(
                f"The server on {self.folder} was started by an older version, which has no role {ROLES[role]}; stop "
                "that process and start it again with this version."
            )
        password = quote(self._passwords[role], safe="")
        address = f"127.0.0.1:{self._port}/{quote(database, safe='')}"
        return f"postgresql://{ROLES[role]}:{password}@{address}?sslmode=disable"

    def secret_key(self) -> str | None:
        """What signs links and tokens where the settings do not say; None where the server's holder has made none."""
        return self._folder.secret_key(is_holder=self._lock is not None)

    def previous_secret_keys(self) -> tuple[str, ...]:
        return self._folder.previous_secret_keys()

    async def stop(self) -> None:
        """End the server if this process started it; connections that are still open are cut."""
        running, lock = self._running, self._lock
        self._running = self._lock = None
        if running is None or lock is None:
            return
        try:
            self._folder.server_file.unlink(missing_ok=True)
            if not await running.end():
                raise EmbeddedServerError(
                    f"The server, process {self._pid}, does not end; end it by hand. "
                    f"Its log is {self._folder.log_file}."
                )
        finally:
            self._folder.let_go(lock)

    async def _connect(self, database: str) -> Connection:
        return await asyncpg.connect(
            self.url(database, role="admin"), timeout=_CONNECT_SECONDS, command_timeout=_STATEMENT_SECONDS
        )

    async def _provision(self) -> None:
        """Bring roles and database to what this version wants, then leave a note for `find`."""
        try:
            connection = await self._connect("postgres")
            try:
                started = await connection.fetchval("SELECT pg_postmaster_start_time()")
                await provision_roles(connection, self._passwords)
                await provision_database(connection, DATABASE)
            finally:
                await connection.close(timeout=_CONNECT_SECONDS)
            connection = await self._connect(DATABASE)
            try:
                await close_public_schema(connection)
            finally:
                await connection.close(timeout=_CONNECT_SECONDS)
        except asyncpg.InvalidPasswordError as error:
            raise EmbeddedServerError(
                f"The passwords in {self._folder.credentials_file} do not open the database beside it. "
                "Restore that file from a backup of the folder."
            ) from error
        except _CONNECTION_ERRORS as error:
            raise EmbeddedServerError(
                f"The server on port {self._port} started but cannot be prepared: {error}. "
                f"Its log is {self._folder.log_file}."
            ) from error
        note = {
            "port": self._port,
            "pid": self._pid,
            "version": self._version,
            "started": started.isoformat(),
        }
        self._folder.write(self._folder.server_file, note)


def _open_way(folder: DataFolder, user: ServerUser | None) -> None:
    """Done before the folder is made, so that a place that will not do stays as it was, and again after."""
    if user is not None:
        open_way(next(place for place in (folder.path, *folder.path.parents) if place.exists()), user)


def _check_version(folder: DataFolder) -> None:
    if not folder.postgres.exists():
        return
    try:
        found = (folder.postgres / "PG_VERSION").read_text().strip()[:20]
    except FileNotFoundError:
        raise EmbeddedServerError(
            f"{folder.postgres} does not hold a database of PostgreSQL. "
            "Move it away, or choose another folder with --data DIR."
        ) from None
    if found != str(MAJOR):
        raise EmbeddedServerError(
            f"The data in {folder.path} was written by PostgreSQL {found}, and this is PostgreSQL {MAJOR}. "
            f"Dump it with pg_dump of version {found} and restore it into a new folder, "
            "or choose another folder with --data DIR."
        )
