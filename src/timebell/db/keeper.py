"""Runs one command for exactly as long as its starter lives. A script: `python keeper.py UID GID LOG COMMAND…`.

Standard input is a pipe whose other end the starter holds. When the starter writes to it, closes it or dies,
even of SIGKILL, the command is asked to stop, then told to, then killed. If the keeper itself is killed, the
kernel sends the command the first of these signals. Either way nothing is left running.

Standard output is the log of the command, and the keeper bounds it while the command runs: what is too much is set
aside as `LOG.old`, in the place of what was set aside before.

PostgreSQL reads SIGINT as a fast shutdown and SIGQUIT as an immediate one, which the next start repairs.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

ENDING = ((signal.SIGINT, 6.0), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 2.0))
PR_SET_PDEATHSIG = 1
LOG_BYTES_MAX = 10_000_000
LOG_SECONDS = 10.0
_PIECE = 1_000_000


def main(uid: str, gid: str, log: str, *command: str) -> int:
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    # A terminal or a service manager may signal every process it sees, but the starter alone decides when the
    # command ends. A handler that does nothing, unlike SIG_IGN, is not passed on to the command.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    is_other_user = uid != "-"
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        cwd="/",
        user=int(uid) if is_other_user else None,
        group=int(gid) if is_other_user else None,
        extra_groups=[] if is_other_user else None,
        # Code between fork and exec is safe here, because this process has one thread.
        preexec_fn=_end_with(os.getpid()),
    )
    while child.poll() is None:
        ready, _, _ = select.select([0, woken], [], [], LOG_SECONDS)
        if not ready:
            set_aside(log)
        if woken in ready:
            os.read(woken, 512)
        if 0 in ready:
            _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def set_aside(log: str, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Copy a log that has grown large, and begin it anew. Whoever writes has it open at its end, and goes on there.

    What is written between the two is lost; a log that fills the disk loses more. Nothing that goes wrong here may end
    the keeper, and with it the command.
    """
    with suppress(OSError):
        source = _opened(log, os.O_RDWR)
        try:
            found = os.fstat(source)
            if found.st_size > bytes_max:
                with suppress(OSError):
                    _copy(source, f"{log}.new", found.st_size - bytes_max, found)
                    os.replace(f"{log}.new", f"{log}.old")
                os.ftruncate(source, 0)
        finally:
            os.close(source)


def _copy(source: int, path: str, offset: int, found: os.stat_result) -> None:
    target = _opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.fchown(target, found.st_uid, found.st_gid)
        # Whoever makes room by hand may cut it off meanwhile; then there is less to copy than there was.
        while piece := os.pread(source, min(_PIECE, found.st_size - offset), offset):
            offset += os.write(target, piece)
    finally:
        os.close(target)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _end(child: subprocess.Popen[bytes]) -> None:
    for number, seconds in ENDING:
        child.send_signal(number)
        try:
            child.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue


def _end_with(keeper: int) -> Callable[[], None] | None:
    """For the child to call after its change of user, which would undo the arrangement."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    return arrange


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
