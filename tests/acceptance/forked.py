"""Commands in processes that are forked from one which has loaded Timebell already.

Loading takes most of a second, as often as a test asks something. What a command does it does in a process of its own
all the same, with its own arguments, environment and output, from `main` to its exit code. Processes that stay, and
commands whose environment Python itself obeys, are started as an operator starts them.
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


def can_fork(variables: Mapping[str, str]) -> bool:
    return _RUN_FOLDER in os.environ and not any(name.startswith(_EARLY) for name in variables)


def run_forked(
    arguments: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """One command to its end, as `subprocess.run` does it."""
    with tempfile.TemporaryDirectory(dir=os.environ[_RUN_FOLDER]) as folder:
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "said": [str(path) for path in said],
        }
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(seconds)
            line.connect(_address())
            try:
                line.sendall(json.dumps(request).encode() + b"\n")
                answer = line.makefile().readline()
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(arguments), seconds) from None
        assert answer, "the process that commands are forked from has ended"
        words = [path.read_text(encoding="utf-8") for path in said]
    return subprocess.CompletedProcess(list(arguments), int(answer), *words)


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
    from timebell.cli.program import _MODULES

    for name in sorted(set(_MODULES.values())):
        importlib.import_module(f"timebell.cli.{name}")
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


def _answer(line: socket.socket) -> NoReturn:
    try:
        request = json.loads(line.makefile().readline())
        command = os.fork()
        if command == 0:
            line.close()
            _become(request)
        _, status = os.waitpid(command, 0)
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:
        os._exit(0)


def _become(request: dict[str, Any]) -> NoReturn:
    code: Any = 1
    try:
        for descriptor, path in enumerate([os.devnull, *request["said"]]):
            opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:] = ["/", *(each for each in sys.path if each not in ("/", str(ROOT)))]
        sys.argv = ["timebell", *request["arguments"]]
        from timebell.cli import main

        main()
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
