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

from tests.acceptance.forked import can_fork, run_forked
from timebell.db.data_folder import is_alive

SOURCE = Path(__file__).parents[2] / "src"
READY_SECONDS = 60.0
STOP_SECONDS = 10.0
_COMMAND_SECONDS = 120.0


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
    if can_fork(variables):
        return run_forked([str(each) for each in arguments], clean_environment(**variables), _COMMAND_SECONDS)
    return subprocess.run(
        [sys.executable, "-m", "timebell", *map(str, arguments)],
        env=clean_environment(**variables),
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
    """A process that goes on until it is told to stop. Its words are kept in files, so that no pipe fills up."""

    def __init__(
        self,
        notes: Path,
        *arguments: object,
        program: tuple[str, ...] = (sys.executable, "-m", "timebell"),
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self._out = notes.with_suffix(".out")
        self._err = notes.with_suffix(".err")
        with self._out.open("w") as out, self._err.open("w") as err:
            self.popen = subprocess.Popen(
                [*program, *map(str, arguments)],
                env=dict(environment or clean_environment()),
                cwd=notes.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

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
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)
        except OSError:
            return None

    def wait_ready(self) -> None:
        """Until it says that it is ready, by HTTP where it has a port and in words where it has none."""

        def is_ready() -> bool:
            assert self.popen.poll() is None, self.words
            return self.status() == 200 if self.port is not None else "at work" in self.words

        until(is_ready, READY_SECONDS, "readiness")

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
        """At the end of a test, whatever has become of it."""
        with suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait(10)


def postmaster_of(folder: Path) -> int:
    return int((folder / "postgres" / "postmaster.pid").read_text().split()[0])


def wait_gone(pid: int, seconds: float = 20.0) -> None:
    until(lambda: not is_alive(pid), seconds, f"the end of process {pid}")
