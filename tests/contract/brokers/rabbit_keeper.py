"""Runs a private RabbitMQ for exactly as long as a test run lives. A script: `python rabbit_keeper.py FOLDER OWNER`.

It takes orders over a socket in the folder: `wait`, `kill`, `stop` and `start`, each answered once it is carried out.
When the owner's process ends, however it ends, or the folder is gone, so is the broker. If the keeper itself is killed,
the kernel ends what it runs.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

EPMD = "epmd"
BROKER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
LOOK_SECONDS = 0.1
STOP_SECONDS = 20.0
PR_SET_PDEATHSIG = 1


def main(folder: Path, owner: int, environment: dict[str, str]) -> None:
    """Whoever starts it waits until it takes orders, and no longer."""
    alive = os.pidfd_open(owner)
    orders = socket.socket(socket.AF_UNIX)
    orders.bind(str(folder / "orders"))
    orders.listen(16)
    if os.fork():
        os._exit(0)
    os.setsid()
    keeper = Keeper(folder, environment, orders)
    try:
        keeper.serve(alive)
    finally:
        keeper.end()
        shutil.rmtree(folder, ignore_errors=True)
        # The owner removes the folder around it, unless it was killed, or the broker was faster to write into it again.
        with suppress(OSError):
            folder.with_suffix(".lock").unlink(missing_ok=True)
            folder.parent.rmdir()


class Keeper:
    def __init__(self, folder: Path, environment: dict[str, str], orders: socket.socket) -> None:
        self._folder = folder
        self._environment = environment
        self._waiting: list[socket.socket] = []
        self._orders = orders
        self._log = (folder / "log").open("ab")
        port = environment["ERL_EPMD_PORT"]
        self._epmd = self._run([EPMD, "-port", port, "-address", "127.0.0.1"])
        self._broker = self._run([BROKER])

    def serve(self, owner: int) -> None:
        while (self._folder / "known.json").exists():
            ready, _, _ = select.select([owner, self._orders.fileno()], [], [], LOOK_SECONDS)
            if owner in ready:
                return
            if self._orders.fileno() in ready:
                peer, _ = self._orders.accept()
                # Whoever asks may be gone by the time of the answer.
                with suppress(OSError):
                    self._obey(peer)
            if self._waiting and (self._broker.poll() is not None or self._is_ready()):
                answer = b"ready" if self._broker.poll() is None else b"the broker ended; see its log"
                for peer in self._waiting:
                    with suppress(OSError):
                        peer.sendall(answer)
                    peer.close()
                self._waiting.clear()

    def end(self) -> None:
        for child in (self._broker, self._epmd):
            child.kill()
            child.wait()
        self._orders.close()
        self._log.close()

    def _obey(self, peer: socket.socket) -> None:
        peer.settimeout(1)
        match peer.recv(16):
            case b"kill":
                self._broker.kill()
                self._broker.wait()
                peer.sendall(b"killed")
                peer.close()
            case b"stop":
                self._broker.terminate()
                self._broker.wait(STOP_SECONDS)
                peer.sendall(b"stopped")
                peer.close()
            case b"start":
                if self._broker.poll() is not None:
                    self._broker = self._run([BROKER])
                self._waiting.append(peer)
            case _:
                self._waiting.append(peer)

    def _is_ready(self) -> bool:
        """The socket for questions is there once all else is."""
        with socket.socket(socket.AF_UNIX) as questions:
            questions.settimeout(1)
            return questions.connect_ex(str(self._folder / "questions")) == 0

    def _run(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=self._folder,
            env=self._environment,
            preexec_fn=_end_with(os.getpid()),
        )


def _end_with(keeper: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    return arrange


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    main(Path(sys.argv[1]), int(sys.argv[2]), dict(os.environ))
