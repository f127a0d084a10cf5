"""What the tests of the embedded server ask of servers and of processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from timebell.db.embedded import EmbeddedServer
from timebell.testing.database import FAST

SMALL = {**FAST, "shared_buffers": "16MB", "max_connections": "20"}
_SOURCE = Path(__file__).parents[3] / "src"
_PACKAGES = Path(asyncpg.__file__).parents[1]


class Start(Protocol):
    async def __call__(
        self, folder: Path, *, port: int | None = None, settings: Mapping[str, str] = SMALL
    ) -> EmbeddedServer: ...


async def ask(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url, timeout=10, command_timeout=10)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close(timeout=10)


async def is_answering(server: EmbeddedServer) -> bool:
    return bool(await ask(server.url(), "SELECT true"))


async def until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """For what happens in other processes, which no clock of ours can move."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def run_python(
    script: str, *arguments: str | Path, user: int | None = None, python: str = sys.executable
) -> subprocess.Popen[str]:
    """A process of its own that imports this source tree."""
    return subprocess.Popen(
        [python, "-c", script, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PATH": os.defpath, "PYTHONPATH": f"{_SOURCE}:{_PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
