"""Processes that are forked from one which has loaded Timebell already.

Loading takes a second of the processor, as often as a test starts a node or asks something. What a process does it
does in a process of its own all the same, with its own arguments, environment, folder, session and output, from the
first line of its module to its exit code. One whose environment Python itself obeys is started as an operator starts
it, and so is one of which a test says so, for how a process starts is to be seen too.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
# `timebell.testing.fixtures` has it, but loads all of pytest, which the commands do not.
_RUN_FOLDER = "PYTEST_TIMEBELL_FOLDER"
# What Python or the loader reads before our first line runs.
_EARLY = ("LD_", "PYTHON", "FAKETIME", "TZ", "LC_", "LANG")
_STARTING_SECONDS = 60.0


def can_fork(environment: Mapping[str, str]) -> bool:
    early = {
        name
        for name in {*environment, *os.environ}
        if name.startswith(_EARLY) and name != "PYTHONPATH" and environment.get(name) != os.environ.get(name)
    }
    is_ours = str(SOURCE) in environment.get("PYTHONPATH", "").split(":")
    return _RUN_FOLDER in os.environ and is_ours and not early


class ForkedProcess:
    """`python -m MODULE ARGUMENTS`, with as much of the face of `subprocess.Popen` as tests use."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *said: Path,
    ) -> None:
        request = {
            "module": module,
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder),
            "said": [str(path) for path in said],
        }
        self.args = [module, *arguments]
        self.returncode: int | None = None
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_STARTING_SECONDS)
            line.connect(_address())
            line.sendall(json.dumps(request).encode() + b"\n")
            self._line = line.makefile()
            self.pid = int(self._line.readline())

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> int | None:
        """Its exit code, which the one who forked it sends when it has ended."""
        if self.returncode is None and select.select([self._line.fileno()], [], [], seconds)[0]:
            answer = self._line.readline()
            assert answer, "the process that others are forked from has ended"
            self.returncode = int(answer)
            self._line.close()
        return self.returncode


def run_forked(
    arguments: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """One command to its end, as `subprocess.run` does it."""
    with tempfile.TemporaryDirectory(dir=os.environ[_RUN_FOLDER]) as folder:
        out, err = [Path(folder, name) for name in ("stdout", "stderr")]
        process = ForkedProcess("timebell", arguments, environment, Path("/"), out, err)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        words = [path.read_text(encoding="utf-8") for path in (out, err)]
    return subprocess.CompletedProcess(list(arguments), code, *words)


@cache
def _address() -> str:
    """Where the process that commands are forked from listens; it is started once, and ends with this one."""
    address = str(Path(tempfile.mkdtemp(prefix="forked-", dir=os.environ[_RUN_FOLDER]), "line"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        origin = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno())],
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}"},
            cwd="/",
            stdin=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
    atexit.register(_end, origin)
    return address


def _end(origin: subprocess.Popen[bytes]) -> None:
    assert origin.stdin is not None
    origin.stdin.close()
    origin.wait(10)


def serve(listener: socket.socket) -> None:
    """Until whoever started this has ended."""
    _load()
    gc.freeze()
    # Nobody asks what became of those who answer; what became of a command is asked by the one who answers for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener.fileno(), 0], [], [])
        if 0 in ready:
            return
        line, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(line)
        line.close()


def _load() -> None:
    """What the processes would load: the commands, and the apps that a node brings along."""
    import timebell.apps
    from timebell.cli.program import _MODULES

    for name in sorted(set(_MODULES.values())):
        importlib.import_module(f"timebell.cli.{name}")
    for app in pkgutil.walk_packages(timebell.apps.__path__, "timebell.apps."):
        importlib.import_module(app.name)
    for name in ("uvloop", "timebell.brokers.rabbitmq"):
        importlib.import_module(name)


def _answer(line: socket.socket) -> NoReturn:
    try:
        request = json.loads(line.makefile().readline())
        process = os.fork()
        if process == 0:
            line.close()
            _become(request)
        line.sendall(f"{process}\n".encode())
        # Its end is awaited, and so is that of whoever asked for it, behind whom nothing is to be left.
        ended, _, _ = select.select([os.pidfd_open(process), line.fileno()], [], [])
        if line.fileno() in ended:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:
        os._exit(0)


def _become(request: dict[str, Any]) -> NoReturn:
    code: Any = 1
    try:
        for descriptor, path in enumerate([os.devnull, *request["said"]]):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        paths = os.environ["PYTHONPATH"].split(":")
        ours = (str(ROOT), str(SOURCE), "/")
        sys.path[:] = [request["folder"], *paths, *(each for each in sys.path if each not in ours)]
        sys.argv[1:] = request["arguments"]
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ending:
        code = ending.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
