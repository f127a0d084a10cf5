"""Three brokers that are one, on this machine: what a queue has, two of them have, whoever is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.contract.brokers import rabbit_server
from tests.contract.brokers.rabbit_server import RabbitServer
from tests.packages import need_program

NAMES: Final = ("one", "two", "three")
_QUEUE: Final = '{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), '
_LEADER: Final = _QUEUE + "element(2, amqqueue:get_pid(Queue))"
_MEMBERS: Final = _QUEUE + "length(maps:get(nodes, amqqueue:get_type_state(Queue)))"
_COUNT: Final = "length(rabbit_nodes:all_running())"


class Cluster:
    """The nodes by their names."""

    def __init__(self, nodes: dict[str, RabbitServer]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())
        return f"amqp://guest:guest@{hosts}/"

    def wait(self) -> None:
        for node in self.nodes.values():
            node.wait()

    def count(self, name: str) -> int:
        """How many nodes one of them sees, itself included."""
        return int(self.nodes[name].ask(_COUNT))

    def members(self, queue: str) -> int:
        """How many nodes have what a queue has."""
        return int(self.nodes[NAMES[0]].ask(_MEMBERS % queue))

    def leader(self, queue: str, asked: str) -> str:
        """The name of the node that leads a queue, as another one knows it."""
        found = re.search(r"(\w+)@localhost", self.nodes[asked].ask(_LEADER % queue))
        assert found is not None
        return found[1]


@contextmanager
def own_cluster(place: Path) -> Iterator[Cluster]:
    """They start meanwhile: `wait` until they are ready."""
    need_program("rabbitmq-server")
    # One that tells where the nodes are is enough, and the first to ask for the port is it.
    ports = iter(rabbit_server._free_ports(1 + 2 * len(NAMES)))
    epmd_port = next(ports)
    folders = []
    nodes = {}
    try:
        for name in NAMES:
            folder = place / name / "rabbit"
            folders.append(folder)
            _launch(folder, epmd_port, next(ports), next(ports))
            nodes[name] = RabbitServer(folder)
        yield Cluster(nodes)
    finally:
        for folder in folders:
            (folder / "known.json").unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


def _launch(folder: Path, epmd_port: int, port: int, distribution_port: int) -> None:
    """As `rabbit_server.launch` does, with a secret and peers that all have in common, and without TLS."""
    folder.parent.mkdir()
    folder.mkdir(mode=0o700)
    questions = rabbit_server._QUESTIONS.format(path=folder / "questions")
    (folder / "questions.erl").write_text(questions)
    (folder / "broker.conf").write_text(_configuration(port, NAMES))
    (folder / "plugins").write_text("[].\n")
    cookie = folder / ".erlang.cookie"
    cookie.write_text("known-to-three")
    cookie.chmod(0o400)
    (folder / "known.json").write_text(json.dumps({"port": port, "tls_port": 0}))
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    subprocess.run(
        [sys.executable, "-I", "-S", str(rabbit_server._KEEPER), str(folder), str(owner)],
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=rabbit_server.START_SECONDS,
        env=rabbit_server._environment(folder, epmd_port, distribution_port),
    )


def _configuration(port: int, names: Sequence[str]) -> str:
    lines = {
        "listeners.tcp.default": f"127.0.0.1:{port}",
        "log.console": "true",
        "log.console.level": "warning",
        "log.file": "false",
        "disk_free_limit.absolute": "10MB",
        "raft.wal_max_size_bytes": "64000000",
        "cluster_partition_handling": "pause_minority",
        "cluster_formation.peer_discovery_backend": "classic_config",
        **{
            f"cluster_formation.classic_config.nodes.{number}": f"{name}@localhost"
            for number, name in enumerate(names, 1)
        },
    }
    return "".join(f"{name} = {value}\n" for name, value in lines.items())
