"""Runs the programs of PostgreSQL, `initdb` and `postgres`, on a data folder that this process holds."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from timebell.db.data_folder import DataFolder, write_private
from timebell.db.server_user import Programs, ServerUser
from timebell.errors import ConfigurationError, EmbeddedServerError

_KEEPER = Path(__file__).with_name("keeper.py")
_INITDB_SECONDS = 120.0
_FIRST_SIGN_SECONDS = 30.0
# After a crash the server replays what had not reached its tables. That may take minutes; let it.
_RECOVERY_SECONDS = 600.0
_LEFTOVERS_SECONDS = 15.0
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.02
_PORT_TRIES = 10
_MEGABYTE = 1024 * 1024

_SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "max_wal_size": "4GB",
    "wal_compression": "off",
    "jit": "off",
    "max_connections": "100",
    "idle_session_timeout": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    # The details of an error quote the values of rows, and those belong to tenants.
    "log_error_verbosity": "terse",
}
_OURS_ALONE = frozenset(
    {
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "password_encryption",
        "port",
        "unix_socket_directories",
    }
)
_BUILT_IN_SINCE = 17
# What the programs need of our environment; the rest may hold secrets, or variables that PostgreSQL obeys.
_ENVIRONMENT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A program under its keeper, and where in the log its own lines begin."""

    keeper: subprocess.Popen[bytes]
    log_offset: int

    async def ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.keeper.poll() is None:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def end(self) -> bool:
        """Ask the keeper to end the program; False if it could not in good time."""
        if self.keeper.stdin is not None and not self.keeper.stdin.closed:
            # The byte is for the case that this process has forked and its child keeps the pipe open.
            with suppress(BrokenPipeError):
                self.keeper.stdin.write(b".")
            self.keeper.stdin.close()
        return await self.ended(_STOP_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that says it is ready."""

    running: Running
    pid: int
    port: int


def locale_arguments(programs: Programs) -> list[str]:
    """Order by code point, which no library update changes, and case as Unicode has it."""
    if programs.major >= _BUILT_IN_SINCE:
        return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["--locale=C", "--lc-ctype=C.UTF-8"]


class Launcher:
    def __init__(
        self,
        folder: DataFolder,
        programs: Programs,
        user: ServerUser | None,
        lock: int,
        settings: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._programs = programs
        self._user = user
        self._lock = lock
        self._settings = {**_SETTINGS, "shared_buffers": shared_buffers(usable_memory()), **settings}

    async def initialise(self, admin: str, password: str) -> None:
        """Make the files under another name first: what carries the right name is complete."""
        folder = self._folder
        folder.remove_half_made()
        folder.postgres_new.mkdir(mode=0o700)
        self._give_to_server(folder.postgres_new)
        password_file = folder.path / "password.new"
        write_private(password_file, password)
        self._give_to_server(password_file)
        command = [
            "initdb",
            f"--pgdata={folder.postgres_new}",
            f"--username={admin}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            *locale_arguments(self._programs),
            "--no-instructions",
        ]
        if self._settings["fsync"] == "off":
            command.append("--no-sync")
        initdb = self._launch(command)
        try:
            finished = await initdb.ended(_INITDB_SECONDS)
        finally:
            await initdb.end()
            password_file.unlink(missing_ok=True)
        if not finished or initdb.keeper.returncode != 0:
            raise self._failure("initialise its files", initdb)
        folder.rename(folder.postgres_new, folder.postgres)

    async def serve(self, fixed_port: int | None) -> Served:
        """Start the server, on another port if somebody was faster to take the one we chose."""
        deadline = time.monotonic() + _LEFTOVERS_SECONDS
        tries = 0
        while True:
            self._folder.drop_stale_pid_file()
            port = fixed_port if fixed_port is not None else _free_port()
            running = self._launch(self._server_command(port))
            pid = None
            try:
                pid = await self._ready(running)
            finally:
                if pid is None:
                    await running.end()
            if pid is not None:
                return Served(running=running, pid=pid, port=port)
            log = self._folder.log_since(running.log_offset)
            if "Address already in use" in log:
                tries += 1
                if fixed_port is not None or tries == _PORT_TRIES:
                    raise EmbeddedServerError(
                        f"Port {port} on 127.0.0.1 is taken. "
                        "End the program that listens on it, or choose another port."
                    )
            # The processes of a server that was killed need a moment to notice.
            elif "still in use" in log and time.monotonic() < deadline:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                raise self._failure("start", running)

    def _server_command(self, port: int) -> list[str]:
        settings = {
            **self._settings,
            "listen_addresses": "127.0.0.1",
            "password_encryption": "scram-sha-256",
            "port": str(port),
            "unix_socket_directories": "",
        }
        command = ["postgres", "-D", str(self._folder.postgres)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    async def _ready(self, running: Running) -> int | None:
        """The process id once the server takes connections, or None if it ended instead."""
        begun = time.monotonic()
        while running.keeper.poll() is None:
            postmaster = self._folder.postmaster()
            if postmaster is not None and postmaster.is_ready:
                return postmaster.pid
            waited = time.monotonic() - begun
            if waited > (_FIRST_SIGN_SECONDS if postmaster is None else _RECOVERY_SECONDS):
                raise EmbeddedServerError(
                    f"The server is not ready after {waited:.0f} seconds. Its log is {self._folder.log_file}."
                )
            await asyncio.sleep(_POLL_SECONDS)
        return None

    def _launch(self, command: list[str]) -> Running:
        """Under a keeper that holds the lock with us, in a session of its own that no terminal interrupts."""
        program, *arguments = command
        uid, gid = (str(self._user.uid), str(self._user.gid)) if self._user else ("-", "-")
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        log = self._folder.open_log()
        try:
            offset = os.lseek(log, 0, os.SEEK_CUR)
            keeper = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_KEEPER), uid, gid, str(self._folder.log_file)),
                    *(str(self._programs.folder / program), *arguments),
                ],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(self._lock,),
                start_new_session=True,
                cwd="/",
                env={**environment, "LC_ALL": "C"},
            )
        finally:
            os.close(log)
        return Running(keeper=keeper, log_offset=offset)

    def _give_to_server(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.uid, self._user.gid, follow_symlinks=False)

    def _failure(self, verb: str, running: Running) -> EmbeddedServerError:
        log = self._folder.log_since(running.log_offset)
        if "No space left on device" in log:
            remedy = f"The disk of {self._folder.path} is full; free some space and start again."
        elif re.search(r"configuration parameter|value for parameter|parameter .* requires", log):
            remedy = "Correct the setting it names."
        elif "could not map anonymous shared memory" in log:
            remedy = "There is too little memory; give the setting shared_buffers a smaller value."
        else:
            remedy = f"The whole log is {self._folder.log_file}."
        said = " | ".join(log.splitlines()[-5:]) or "nothing"
        return EmbeddedServerError(
            f"PostgreSQL {self._programs.version} could not {verb}. {remedy} It said: {said}"
        )


def check_settings(port: int | None, settings: Mapping[str, str]) -> None:
    if port is not None and not 1 <= port <= 65535:
        raise ConfigurationError(f"port: {port} is not between 1 and 65535; leave it out to use a free one.")
    for name, value in settings.items():
        if name in _OURS_ALONE:
            raise ConfigurationError(f"settings: {name} is for the embedded server to decide; leave it out.")
        if not re.fullmatch(r"[a-z_][a-z0-9_.]{0,99}", name) or len(value) > 1000 or "\0" in value:
            raise ConfigurationError(
                f"settings: {name[:100]!r} is not a setting of PostgreSQL; leave it out."
            )


def shared_buffers(memory_bytes: int) -> str:
    """A tenth of the memory, within what is worth having and what is worth giving away."""
    return f"{min(max(memory_bytes // 10 // _MEGABYTE, 128), 2048)}MB"


def usable_memory() -> int:
    """In a container this is less than what the machine has."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return available
    return min(available, int(limit)) if limit.isdecimal() else available


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
