"""Processes of `timebell` that stay, forked from one which has loaded everything already.

Loading takes most of a second, and where processes are killed again and again it would be most of what a machine does.
Each is a process of its own all the same, from `main` on, with its own arguments, environment and output.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.acceptance.forked import ROOT, SOURCE, _become
from tests.acceptance.processes import READY_SECONDS, STOP_SECONDS, clean_environment, until

_ANSWER_SECONDS: Final = 60.0
_END_SECONDS: Final = 20.0
# What a process says once it is ready, that has no port to be asked at.
_READY: Final = ("at work", "are taken", "answers at")


class Child:
    """One of them, used as a `Process` is."""

    def __init__(self, nursery: Nursery, pid: int, out: Path, err: Path, port: int | None) -> None:
        self.pid = pid
        self.port = port
        self._nursery = nursery
        self._out, self._err = out, err
        # Ready to be read once the process has ended. Its number stays its own until the nursery has heard of the end.
        self._handle = os.pidfd_open(pid)
        self._code: int | None = None

    @property
    def words(self) -> str:
        return self._out.read_text() + self._err.read_text()

    @property
    def log(self) -> str:
        return self._err.read_text()

    @property
    def is_alive(self) -> bool:
        return self._code is None and not select.select([self._handle], [], [], 0)[0]

    @property
    def is_ready(self) -> bool:
        assert self.is_alive, self.words
        if self.port is not None:
            return self.status() == 200
        said = self._out.read_text()
        return any(word in said for word in _READY)

    def wait_ready(self) -> None:
        until(lambda: self.is_ready, READY_SECONDS, f"readiness: {self.words[-3000:]}")

    def status(self, path: str = "/readyz") -> int | None:
        """The status of the answer, or None where nobody answers."""
        try:
            return 200 if self.page(path) is not None else None
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)
        except OSError:
            return None

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as reply:
            return str(reply.read().decode())

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """What it ended with."""
        if self._code is None:
            gone, _, _ = select.select([self._handle], [], [], seconds)
            assert gone, f"still running after {seconds:g} s: {self.words}"
            self._code = self._nursery.code_of(self.pid)
            os.close(self._handle)
        return self._code

    def stop(self) -> int:
        self.signal()
        return self.wait()

    def kill(self) -> None:
        """At once, and until it is gone; also one that was stopped."""
        if self._code is None:
            self.signal(signal.SIGKILL)
            self.wait(_END_SECONDS)


class Nursery:
    """The process that has loaded everything, and starts others when it is asked to."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            self._origin = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=clean_environment(PYTHONPATH=f"{SOURCE}:{ROOT}"),
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._line.settimeout(_ANSWER_SECONDS)
        self._answers = self._line.makefile()

    def start(
        self, notes: Path, *arguments: object, environment: Mapping[str, str], port: int | None = None
    ) -> Child:
        out, err = notes.with_suffix(".out"), notes.with_suffix(".err")
        out.touch()
        err.touch()
        pid = self._ask(
            arguments=[str(each) for each in arguments],
            environment=dict(environment),
            said=[str(out), str(err)],
        )
        return Child(self, pid, out, err, port)

    def code_of(self, pid: int) -> int:
        """Of one that has ended."""
        return self._ask(ended=pid)

    def close(self) -> None:
        self._line.shutdown(socket.SHUT_RDWR)
        self._answers.close()
        self._line.close()
        try:
            self._origin.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._origin.kill()

    def _ask(self, **question: Any) -> int:
        self._line.sendall(json.dumps(question).encode() + b"\n")
        answer = self._answers.readline()
        assert answer, "the process that others are forked from has ended"
        return int(answer)


@cache
def nursery() -> Nursery:
    """The one of this process, which ends with it, and all that were started then."""
    made = Nursery()
    atexit.register(made.close)
    return made


def serve(line: socket.socket) -> None:
    """Until whoever asks has ended; then all of them end."""
    from timebell.cli.program import _MODULES

    for name in [f"timebell.cli.{each}" for each in sorted(set(_MODULES.values()))]:
        importlib.import_module(name)
    importlib.import_module("timebell.apps.scheduler")
    importlib.import_module("timebell.brokers.rabbitmq")
    gc.freeze()
    alive: set[int] = set()
    for text in line.makefile():
        asked = json.loads(text)
        if (pid := asked.get("ended")) is not None:
            _, status = os.waitpid(pid, 0)
            alive.discard(pid)
            line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            continue
        pid = os.fork()
        if pid == 0:
            line.close()
            os.setsid()
            _become(asked)
        alive.add(pid)
        line.sendall(f"{pid}\n".encode())
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
