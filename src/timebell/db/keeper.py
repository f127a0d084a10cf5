"""Runs one command for exactly as long as its starter lives. A script: `python keeper.py UID GID COMMAND…`.

Standard input is a pipe whose other end the starter holds. When the starter writes to it, closes it or dies,
even of SIGKILL, the command is asked to stop, then told to, then killed. If the keeper itself is killed, the
kernel sends the command the first of these signals. Either way nothing is left running.

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

ENDING = ((signal.SIGINT, 6.0), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 2.0))
PR_SET_PDEATHSIG = 1


def main(uid: str, gid: str, *command: str) -> int:
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
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 512)
        if 0 in ready:
            _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


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
