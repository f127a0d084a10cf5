"""The cost of a stretch of work: time, and the processor time of this process, of the server, and of a broker."""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The processor time is steadier than the time on a machine that others use too."""

    seconds: float
    client_seconds: float | None
    server_seconds: float | None
    broker_seconds: float | None = None

    def per_job(self, jobs: int) -> dict[str, int | float | None]:
        client, server = self.client_seconds, self.server_seconds
        return {
            "per_s": round(jobs / self.seconds),
            "client_us": None if client is None else round(client / jobs * 1e6, 1),
            "server_us": None if server is None else round(server / jobs * 1e6, 1),
        }

    @property
    def processor_seconds(self) -> float | None:
        """Of both together."""
        return _sum(self.client_seconds, self.server_seconds)


def mean_of(before: Cost, after: Cost) -> Cost:
    """What the same work cost before and after something else, on average."""
    client = _sum(before.client_seconds, after.client_seconds)
    server = _sum(before.server_seconds, after.server_seconds)
    return Cost(
        seconds=2 * before.seconds * after.seconds / (before.seconds + after.seconds),
        client_seconds=None if client is None else client / 2,
        server_seconds=None if server is None else server / 2,
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def beside_raw(ours: Cost, before: Cost, after: Cost, jobs: int) -> dict[str, Any]:
    """What Timebell did beside what the raw loop did before and after it, on average."""
    raw = mean_of(before, after)
    return {
        "timebell": ours.per_job(jobs),
        "raw": {
            **raw.per_job(jobs),
            "before": round(jobs / before.seconds),
            "after": round(jobs / after.seconds),
        },
        "ratio": round(raw.seconds / ours.seconds, 3),
    }


class Meter:
    """Begins to count when it is made. The client is this process, unless another is named; a broker is one process."""

    def __init__(self, server_pid: int, client_pid: int | None = None, broker_pid: int | None = None) -> None:
        self._server_pid = server_pid
        self._client_pid = client_pid
        self._broker_pid = broker_pid
        self._server = server_seconds(server_pid)
        self._broker = self._broker_seconds()
        self._client = self._client_seconds()
        self._began = time.perf_counter()

    def read(self) -> Cost:
        seconds = time.perf_counter() - self._began
        client, server = self._client_seconds(), server_seconds(self._server_pid)
        return Cost(
            seconds=seconds,
            client_seconds=_since(self._client, client),
            server_seconds=_since(self._server, server),
            broker_seconds=_since(self._broker, self._broker_seconds()),
        )

    def _broker_seconds(self) -> float | None:
        return None if self._broker_pid is None else process_seconds(self._broker_pid)

    def _client_seconds(self) -> float | None:
        return time.process_time() if self._client_pid is None else process_seconds(self._client_pid)


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def process_seconds(pid: int) -> float | None:
    """Processor time of a process without its children; None where the system does not tell."""
    try:
        return sum(_times(pid)[:2]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return None


def server_seconds(pid: int) -> float | None:
    """Processor time of a PostgreSQL server: its own, its living children's, and that of those which have ended.

    None where the system does not tell.
    """
    try:
        ticks = sum(_times(pid))
        children = [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except OSError:
        return None
    for child in children:
        # One that has ended since it was listed is left out: what it used is small, and soon its parent's.
        with suppress(OSError):
            ticks += sum(_times(child)[:2])
    return ticks / os.sysconf("SC_CLK_TCK")


def _times(pid: int) -> list[int]:
    """User and system ticks of a process, then those of its children that have ended."""
    # The name of the program is in parentheses and may contain anything; what follows is numbers.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def peak_memory_mb() -> float:
    """The most that this process has ever held in memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def memory_mb() -> float | None:
    """What this process holds in memory now; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    (held,) = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return round(int(held) / 2**10, 1)
