"""Where the servers of a test run keep their files."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "timebell-tests-"
_MEMORY = Path("/dev/shm")  # noqa: S108 - the folders in it get names that nobody can guess
_MEMORY_BYTES_MIN = 4 * 1024**3
_STALE_SECONDS = 3600.0


def roomy_folder() -> Path:
    """In memory where there is plenty: a database is three hundred files, and disks are slow to make them."""
    try:
        room = shutil.disk_usage(_MEMORY).free
    except OSError:
        room = 0
    is_usable = room >= _MEMORY_BYTES_MIN and os.access(_MEMORY, os.W_OK)
    return _MEMORY if is_usable else Path(tempfile.gettempdir())


def make_run_folder() -> Path:
    """A folder for one run, which the process that makes it also removes at the end, with `shutil.rmtree`.

    A run that was killed could not, so its folder goes now.
    """
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=roomy_folder()))
    for old in made.parent.glob(f"{_PREFIX}*"):
        if _is_abandoned(old, made):
            shutil.rmtree(old, ignore_errors=True)
    return made


def _is_abandoned(old: Path, new: Path) -> bool:
    """A server holds the lock of its folder as long as it runs. A run that has started none yet is left alone."""
    try:
        locks = list(old.glob("*/lock"))
        if not locks or new.stat().st_mtime - old.stat().st_mtime < _STALE_SECONDS:
            return False
        for lock in locks:
            with lock.open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
