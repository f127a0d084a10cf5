"""Where everybody is measured: one server with durable defaults, a fresh database each, and the machine's load."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from timebell.bench.cost import process_seconds, server_seconds
from timebell.db.embedded import EmbeddedServer
from timebell.db.provision import provision_database


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The server that all share. The contestants that are not ours work as the owner of a database of their own."""

    server: EmbeddedServer

    @property
    def data(self) -> Path:
        return self.server.folder

    async def settle(self) -> None:
        """Write out what the one before has left, so that the next does not pay for it."""
        admin = await asyncpg.connect(self.server.url("postgres", role="admin"))
        try:
            await admin.execute("CHECKPOINT")
        finally:
            await admin.close()

    @asynccontextmanager
    async def database(self, name: str) -> AsyncIterator[str]:
        admin = await asyncpg.connect(self.server.url("postgres", role="admin"))
        try:
            await provision_database(admin, name)
            try:
                yield self.server.url(name, role="owner")
            finally:
                await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        finally:
            await admin.close()


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    home = Path(tempfile.mkdtemp(prefix="timebell-bench-"))
    try:
        server = await EmbeddedServer.start(home / "data")
        try:
            yield Place(server=server)
        finally:
            await server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Weather:
    """How busy the machine was with other work while something was measured."""

    def __init__(self, server_pid: int, broker_pid: int | None = None) -> None:
        self._server_pid = server_pid
        self._broker_pid = broker_pid
        self._load = os.getloadavg()[0]
        self._before = self._readings()

    def read(self) -> dict[str, float | None]:
        """The load average at the beginning, and the processors that neither the measured nor the servers used."""
        load: dict[str, float | None] = {"load": round(self._load, 2), "other_cpu": None}
        after = self._readings()
        if self._before is not None and after is not None:
            (uptime, busy, ours), (uptime_after, busy_after, ours_after) = self._before, after
            others = (busy_after - busy) - (ours_after - ours)
            load["other_cpu"] = round(max(0.0, others / (uptime_after - uptime)), 2)
        return load

    def _readings(self) -> tuple[float, float, float] | None:
        """Seconds since the start of the machine, of all its processors at work, and of those at our work."""
        server = server_seconds(self._server_pid)
        broker = 0.0 if self._broker_pid is None else process_seconds(self._broker_pid)
        if server is None or broker is None:
            return None
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:10])
        busy = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return uptime, busy, server + broker + sum(each.ru_utime + each.ru_stime for each in used)
