"""The folder an embedded server lives in: what lies where, who holds it, and whether a server runs on it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from timebell.errors import DataFolderInUse, EmbeddedServerError

# A holder that was killed leaves a keeper behind, which needs this long at most to end its server.
_KEEPER_SECONDS = 15.0
_ENDING = ((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 2.0))
_LOG_BYTES_MAX = 10_000_000
SECRET_FILES = ("credentials.json", "secret_key.json")
_LOG_BYTES_READ = 100_000
_POLL_SECONDS = 0.02

Name = TypeVar("Name", bound=str)


def default_data_folder() -> Path:
    """Where the data is kept when nobody says otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/timebell")
    base = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "timebell"
    try:
        return Path.home() / ".local" / "share" / "timebell"
    except RuntimeError:
        raise EmbeddedServerError(
            "This user has no home; say where to keep the data with --data DIR."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """A running server, as it describes itself in its pid file."""

    pid: int
    port: int
    is_ready: bool


def _not_a_folder(path: Path) -> Path:
    """What stands in the way: the system names the file that was asked for, which may lie below it."""
    return next((each for each in (path, *path.parents) if each.exists() and not each.is_dir()), path)


class DataFolder:
    """Knows every file by name. All belong to the folder's owner, but `postgres` to the server."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.postgres = self.path / "postgres"
        self.postgres_new = self.path / "postgres.new"
        self.log_file = self.path / "log" / "postgres.log"
        self.credentials_file, self.secret_file = [self.path / name for name in SECRET_FILES]
        self.server_file = self.path / "server.json"
        self.lock_file = self.path / "lock"

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the operating system refuses into an error that says what to do about it."""
        try:
            yield
        except (FileExistsError, NotADirectoryError) as error:
            reason = f"{_not_a_folder(Path(error.filename))} is not a folder. Move it away,"
            raise EmbeddedServerError(self._complaint(reason)) from error
        except PermissionError as error:
            reason = f"{error.filename or 'it'} is closed to user {os.geteuid()}. Run as its owner,"
            raise EmbeddedServerError(self._complaint(reason)) from error
        except OSError as error:
            reason = f"{error.strerror or error}. Check the disk it is on,"
            raise EmbeddedServerError(self._complaint(reason)) from error

    def _complaint(self, reason: str) -> str:
        return f"The data folder {self.path} cannot be used: {reason} or choose another with --data DIR."

    def make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.log_file.parent.mkdir(mode=0o700, exist_ok=True)
        self._give_to_owner(self.log_file.parent)

    def _give_to_owner(self, path: Path) -> None:
        """What root makes in another user's folder must stay usable for that user."""
        if os.geteuid() == 0:
            owner = self.path.stat()
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def write(self, path: Path, content: Mapping[str, object]) -> None:
        """Whole or not at all, for the owner's eyes only, and on disk when this returns."""
        draft = path.with_name(f"{path.name}.new")
        write_private(draft, json.dumps(content, indent=2) + "\n")
        self._give_to_owner(draft)
        self.rename(draft, path)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, path: Path) -> dict[str, object] | None:
        try:
            content = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise EmbeddedServerError(f"{path} is damaged; restore it from a backup of the folder.")
        return content

    def credentials(self, roles: Iterable[Name], *, is_holder: bool = True) -> dict[Name, str]:
        """The password of each role; made once and kept for as long as the database.

        Roles that a newer version brings get theirs from whoever holds the folder. To others they are not there until
        the server was started anew.
        """
        found = self.read(self.credentials_file)
        if found is not None:
            kept = {role: str(found[role]) for role in roles if role in found}
            missing = {role: secrets.token_urlsafe(24) for role in roles if role not in found}
            if missing and is_holder:
                self.write(self.credentials_file, found | {str(role): word for role, word in missing.items()})
                kept |= missing
            return kept
        if self.postgres.exists():
            raise EmbeddedServerError(
                f"{self.credentials_file} is missing, and the database opens only with the passwords in it. "
                "Restore it from a backup of the folder, or choose another folder with --data DIR."
            )
        made = {role: secrets.token_urlsafe(24) for role in roles}
        self.write(self.credentials_file, {str(role): password for role, password in made.items()})
        return made

    def secret_key(self, *, is_holder: bool) -> str | None:
        """What signs links and tokens where nobody chose it; made once, by whoever holds the folder."""
        found = self.read(self.secret_file)
        if found is None and is_holder:
            found = {"secret_key": secrets.token_urlsafe(32)}
            self.write(self.secret_file, found)
        return None if found is None else str(found.get("secret_key"))

    def previous_secret_keys(self) -> tuple[str, ...]:
        """Those that signed before, the last one first."""
        found = self.read(self.secret_file) or {}
        kept = found.get("previous_secret_keys")
        return tuple(str(each) for each in kept) if isinstance(kept, list) else ()

    def rotate_secret_key(self, *, kept: int) -> None:
        """Sign with a new one from the next start on; so many of those before are still believed."""
        current = self.secret_key(is_holder=True)
        previous = [current, *self.previous_secret_keys()][:kept]
        made = {"secret_key": secrets.token_urlsafe(32), "previous_secret_keys": previous}
        self.write(self.secret_file, made)

    def open_log(self) -> int:
        """A descriptor at the end of the log; a log that has grown large is set aside first."""
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_BYTES_MAX:
            self.log_file.rename(self.log_file.with_name("postgres.log.old"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.log_file, flags, 0o600)
        self._give_to_owner(self.log_file)
        os.lseek(descriptor, 0, os.SEEK_END)
        return descriptor

    def log_since(self, offset: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(offset)
            return log.read(_LOG_BYTES_READ).decode(errors="replace").strip()

    def remove_half_made(self) -> None:
        """What an interrupted initialisation left."""
        if self.postgres_new.exists():
            shutil.rmtree(self.postgres_new)

    async def hold(self) -> int:
        """Take the folder for this process, or say who has it. The descriptor is the lock.

        The keeper of a server inherits the descriptor, so that the folder stays held until the server is
        gone, even if its process was killed. A holder that is dead is therefore worth waiting for.
        """
        descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _KEEPER_SECONDS
        try:
            self._give_to_owner(self.lock_file)
            while not _locked(descriptor):
                holder = _number(os.pread(descriptor, 20, 0).decode(errors="replace"))
                if (holder is not None and is_alive(holder)) or time.monotonic() > deadline:
                    raise DataFolderInUse(
                        f"The data folder {self.path} is in use by process {holder or 'unknown'}. "
                        "Stop that process first, or choose another folder with --data DIR."
                    )
                await asyncio.sleep(_POLL_SECONDS)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @staticmethod
    def let_go(descriptor: int) -> None:
        """Unlocked and not only closed, in case this process has forked and its child kept the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def postmaster(self) -> Postmaster | None:
        try:
            lines = self._pid_file().read_text().splitlines()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        pid = _number(lines[0]) if lines else None
        if pid is None or not _is_postmaster(pid, self.postgres):
            return None
        port = _number(lines[3]) if len(lines) > 3 else None
        return Postmaster(pid=pid, port=port or 0, is_ready=len(lines) > 7 and lines[7].strip() == "ready")

    def _pid_file(self) -> Path:
        return self.postgres / "postmaster.pid"

    async def end_orphan(self) -> None:
        """Stop a server that outlived its process and its keeper. Only the holder of the folder may ask."""
        running = self.postmaster()
        if running is None:
            return
        for number, seconds in _ENDING:
            try:
                os.kill(running.pid, number)
            except ProcessLookupError:
                return
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if not _is_postmaster(running.pid, self.postgres):
                    return
                await asyncio.sleep(_POLL_SECONDS)
        raise EmbeddedServerError(f"An old server, process {running.pid}, does not end; end it by hand.")

    def drop_stale_pid_file(self) -> None:
        """PostgreSQL sees through a stale pid file unless another program has been given its number since."""
        try:
            first = self._pid_file().read_text().partition("\n")[0]
        except FileNotFoundError:
            return
        pid = _number(first)
        if not first or (pid is not None and is_alive(pid) and not _is_postmaster(pid, self.postgres)):
            self._pid_file().unlink(missing_ok=True)


def write_private(path: Path, content: str) -> None:
    """A new file that only its owner reads, on disk when this returns. It never follows a planted link."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but has not been waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] != "Z"


def _is_postmaster(pid: int, data: Path) -> bool:
    """Whether the process is the server of this very folder, and not another program with its number."""
    if not is_alive(pid):
        return False
    if Path("/proc/self").exists():
        try:
            return os.path.samefile(f"/proc/{pid}/cwd", data)
        except OSError:
            return False
    command = ["/bin/ps", "-o", "command=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    return str(data) in shown.stdout


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None
