"""Real `timebell` processes, started as an operator starts them and seen from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.acceptance.forked import ForkedProcess, can_fork, run_forked
from timebell.db.data_folder import is_alive

SOURCE = Path(__file__).parents[2] / "src"
MODULE = (sys.executable, "-m")
READY_SECONDS = 60.0
STOP_SECONDS = 10.0
_COMMAND_SECONDS = 120.0
# What a process says once it is ready, that has no port to be asked at.
_READY = ("at work", "are taken", "answers at")


def clean_environment(**variables: str) -> dict[str, str]:
    """The environment without any setting of ours, so that a developer's own do not reach the processes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TIMEBELL_") and name != "DATABASE_URL"
    }
    return {**kept, "PYTHONPATH": str(SOURCE), **variables}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """For what happens in other processes, which no clock of ours can move."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.02)


def command(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    environment = clean_environment(**variables)
    if can_fork(environment):
        return run_forked([str(each) for each in arguments], environment, _COMMAND_SECONDS)
    return subprocess.run(
        [sys.executable, "-m", "timebell", *map(str, arguments)],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )


def answer(*arguments: object, **variables: str) -> Any:
    """What a command answers as JSON, and nothing but that."""
    done = command(*arguments, "--json", **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One clear line on standard error, no traceback, nothing on standard output."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("timebell: ")
    for word in words:
        assert word in lines[0]


class Process:
    """A process that goes on until it is told to stop. Its words are kept in files, so that no pipe fills up.

    A module of Python is forked from a process that has it loaded, unless the test is about the start itself.
    """

    def __init__(
        self,
        notes: Path,
        *arguments: object,
        program: tuple[str, ...] = (*MODULE, "timebell"),
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        is_forked: bool = True,
    ) -> None:
        self.port = port
        environment = dict(environment or clean_environment())
        self._out = notes.with_suffix(".out")
        self._err = notes.with_suffix(".err")
        words = [str(each) for each in arguments]
        self.popen: subprocess.Popen[bytes] | ForkedProcess
        with self._out.open("w") as out, self._err.open("w") as err:
            if is_forked and program[:2] == MODULE and can_fork(environment):
                self.popen = ForkedProcess(program[2], words, environment, notes.parent, self._out, self._err)
            else:
                self.popen = subprocess.Popen(
                    [*program, *words],
                    env=environment,
                    cwd=notes.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    @property
    def words(self) -> str:
        return self._out.read_text() + self._err.read_text()

    @property
    def said(self) -> str:
        return self._out.read_text()

    @property
    def log(self) -> str:
        return self._err.read_text()

    def status(self, path: str = "/readyz") -> int | None:
        """The status of the answer, or None where nobody answers."""
        try:
            with self._asked(path) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)
        except OSError:
            return None

    def page(self, path: str) -> str:
        with self._asked(path) as reply:
            return str(reply.read().decode())

    def _asked(self, path: str) -> Any:
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5)

    @property
    def is_ready(self) -> bool:
        assert self.is_alive, self.words
        if self.port is not None:
            return self.status() == 200
        said = self.words
        return any(word in said for word in _READY)

    def wait_ready(self) -> None:
        """Until it says that it is ready, by HTTP where it has a port and in words where it has none."""
        until(lambda: self.is_ready, READY_SECONDS, f"readiness: {self.words[-3000:]}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s: {self.words}") from None

    def stop(self) -> int:
        self.signal()
        return self.wait()

    def end(self) -> None:
        """At once, and until it is gone; also one that was stopped."""
        with suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait(10)


def postmaster_of(folder: Path) -> int:
    return int((folder / "postgres" / "postmaster.pid").read_text().split()[0])


def wait_gone(pid: int, seconds: float = 20.0) -> None:
    until(lambda: not is_alive(pid), seconds, f"the end of process {pid}")
