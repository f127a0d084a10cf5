"""The environments that the peers run in: made when they are first wanted, never kept under version control."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "build" / "peers"
PYTHON_PACKAGES = ("asyncpg", "pgqueuer", "procrastinate", "psycopg[binary,pool]", "uvloop")
CELERY_PACKAGES = ("celery",)
NODE_PACKAGES = ("graphile-worker", "pg")
_INSTALL_SECONDS = 600.0


class NotRun(Exception):
    """A peer cannot be measured here; the text says why, and the table repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One library in one setting."""

    name: str
    program: str
    jobs_share: float = 1.0
    options: tuple[str, ...] = ()
    packages: tuple[str, ...] = PYTHON_PACKAGES

    @property
    def is_python(self) -> bool:
        return self.program.endswith(".py")


# How much graphile-worker takes at once decides more than anything else, so it is shown with little and with much.
PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in [
        Peer(name="graphile-worker", program="graphile_peer.mjs"),
        Peer(
            name="graphile-worker, tuned",
            program="graphile_peer.mjs",
            options=("--concurrency=100", "--local-queue=2000", "--complete-delay=10", "--chunk=2000"),
        ),
        Peer(name="pgqueuer", program="pgqueuer_peer.py"),
        Peer(name="procrastinate", program="procrastinate_peer.py", jobs_share=1 / 30),
    ]
}


# Those that work on a broker have an environment of their own: where one cannot be installed the others can.
MESSAGE_PEERS: Mapping[str, Peer] = {
    peer.name: peer for peer in [Peer(name="celery", program="celery_peer.py", packages=CELERY_PACKAGES)]
}


def command(peer: Peer) -> tuple[list[str], Path]:
    """How to start a peer, and in which folder. Installs it first, or raises `NotRun`."""
    if peer.is_python:
        module = f"bench.peers.{peer.program.removesuffix('.py')}"
        return [str(_python(peer.packages)), "-m", module, *peer.options], ROOT
    node, folder = _node()
    return [node, str(ROOT / "bench" / "peers" / peer.program), *peer.options], folder


def node_version() -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    return subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def _python(packages: Sequence[str]) -> Path:
    folder = SCRATCH / ("python" if packages == PYTHON_PACKAGES else packages[0])
    python = folder / "bin" / "python"
    if not _is_ready(folder, packages):
        _install([sys.executable, "-m", "venv", "--clear", str(folder)], "a virtual environment")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _install([*pip, *packages], "the Python peers")
        _note_ready(folder, packages)
    return python


def _node() -> tuple[str, Path]:
    folder = SCRATCH / "node"
    node = shutil.which("node")
    if (node is None or shutil.which("npm") is None) and os.geteuid() == 0 and shutil.which("apt-get"):
        # A fresh machine has no list of packages yet, or an old one.
        for step in (["update"], ["install", "-y", "--no-install-recommends", "nodejs", "npm"]):
            _install(["apt-get", "-q", *step], "Node.js")
        node = shutil.which("node")
    npm = shutil.which("npm")
    if node is None or npm is None:
        raise NotRun("Node.js is not installed")
    if not _is_ready(folder, NODE_PACKAGES):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        _install([npm, "install", "--no-audit", "--no-fund", *NODE_PACKAGES], "the Node.js peers", folder)
        _note_ready(folder, NODE_PACKAGES)
    return node, folder


def _is_ready(folder: Path, packages: Sequence[str]) -> bool:
    note = folder / "ready"
    return note.exists() and note.read_text(encoding="utf-8").split() == list(packages)


def _note_ready(folder: Path, packages: Sequence[str]) -> None:
    (folder / "ready").write_text("\n".join(packages) + "\n", encoding="utf-8")


def _install(arguments: list[str], what: str, folder: Path = ROOT) -> None:
    print(f"Installing {what}", file=sys.stderr)
    try:
        subprocess.run(arguments, cwd=folder, check=True, stdout=sys.stderr, timeout=_INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotRun(f"{what} could not be installed") from error
