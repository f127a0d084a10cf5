"""A RabbitMQ of one's own: one node on the loopback address, in a folder that is gone afterwards.

It ends with the process that started it, however that process ends: a guard in its process group waits for the other
end of a pipe to close, and then kills the group. Nobody needs what a throwaway broker has on disk.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timebell.errors import TimebellError

SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_HELLO: Final = b"AMQP\x00\x00\x09\x01"
_USER: Final = "bench"
_START_SECONDS: Final = 120.0
_ANSWER_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 10.0
_LOG_SHOWN: Final = 500
# What the programs need of our environment; the rest may hold variables that they obey.
_ENVIRONMENT: Final = ("LANG", "PATH", "TMPDIR")
_GUARD: Final = "read -r _; kill -KILL 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlace:
    """Where a broker is, and the process that it is, where that runs here."""

    url: str
    pid: int | None = None


def rabbit_version() -> str | None:
    """As the folder of the server says it; None where it does not."""
    found = re.search(r"rabbitmq_server-([0-9.]+)", str(SERVER.resolve()))
    return found[1] if found else None


@asynccontextmanager
async def private_rabbit() -> AsyncIterator[BrokerPlace]:
    """A broker for as long as the block lasts, with the defaults that its package has."""
    server = PrivateRabbit()
    try:
        await asyncio.to_thread(server.start)
        yield BrokerPlace(url=server.url, pid=server.pid)
    finally:
        await asyncio.to_thread(server.stop)


class PrivateRabbit:
    """One node, with an `epmd` of its own, since Erlang would start one that listens everywhere and stays."""

    def __init__(self) -> None:
        if not SERVER.exists():
            raise TimebellError(
                "rabbitmq-server: is not installed; install the Debian package of that name, or give --broker-url"
            )
        self._password = secrets.token_hex(16)
        self._port, self._names_port, self._nodes_port = _free_ports(3)
        self._home: Path | None = None
        self._names: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://{_USER}:{self._password}@127.0.0.1:{self._port}/"

    @property
    def pid(self) -> int:
        assert self._node is not None
        return self._node.pid

    def start(self) -> None:
        """Returns when it answers. What has been started by then if it raises is ended by `stop`."""
        home = self._home = Path(tempfile.mkdtemp(prefix="timebell-rabbit-"))
        settings = self._prepare(home)
        names = ("epmd", "-port", str(self._names_port), "-address", "127.0.0.1")
        with (home / "output.log").open("wb") as log:
            group = 0
            for command, attribute in ((names, "_names"), ((str(SERVER),), "_node")):
                process = subprocess.Popen(
                    command,
                    env=settings,
                    cwd=home,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=group,
                )
                setattr(self, attribute, process)
                group = group or process.pid
        self._guard = subprocess.Popen(["/bin/sh", "-c", _GUARD], stdin=subprocess.PIPE, process_group=group)
        self._wait_until_it_answers(home / "output.log")

    def stop(self) -> None:
        """At once."""
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
        for process in (self._guard, self._node, self._names):
            if process is not None:
                if self._guard is None:
                    process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_SECONDS)
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def _prepare(self, home: Path) -> Mapping[str, str]:
        """The folder and the variables, as a node wants them that meets no other."""
        cookie = home / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(20), encoding="ascii")
        cookie.chmod(0o400)
        config = home / "rabbitmq.conf"
        lines = {
            "listeners.tcp.default": f"127.0.0.1:{self._port}",
            "default_user": _USER,
            "default_pass": self._password,
        }
        config.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()), encoding="ascii")
        plugins = home / "enabled_plugins"
        plugins.write_text("[].\n", encoding="ascii")
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        own = {
            "CONF_ENV_FILE": "/dev/null",
            "NODENAME": f"bench{self._port}@localhost",
            "DIST_PORT": str(self._nodes_port),
            "MNESIA_BASE": str(home / "mnesia"),
            "LOG_BASE": str(home / "log"),
            "CONFIG_FILE": str(config),
            "ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "ENABLED_PLUGINS_FILE": str(plugins),
            "GENERATED_CONFIG_DIR": str(home / "generated"),
            "SCHEMA_DIR": str(home / "schema"),
            "PID_FILE": str(home / "pid"),
            "SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        }
        return {
            **kept,
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_FLAGS": "-start_epmd false",
            # The script becomes the node then, instead of a shell that waits for it.
            "RUNNING_UNDER_SYSTEMD": "true",
            **{f"RABBITMQ_{name}": value for name, value in own.items()},
        }

    def _wait_until_it_answers(self, log: Path) -> None:
        assert self._node is not None
        until = time.monotonic() + _START_SECONDS
        while not _answers(self._port):
            if self._node.poll() is not None or time.monotonic() > until:
                last = log.read_text(encoding="utf-8", errors="replace").strip()[-_LOG_SHOWN:]
                raise TimebellError(f"rabbitmq-server: does not answer; its last words: {last}")
            time.sleep(_POLL_SECONDS)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS) as probe:
            probe.sendall(_HELLO)
            # A frame of a method: it begins the conversation.
            return probe.recv(1) == b"\x01"
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    """Different ones: all are taken before the first is let go."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
