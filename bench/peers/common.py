"""What the peers written in Python share: the work they are given, and how it is measured.

Only the standard library is used, because each peer runs in an environment of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

PAYLOAD = {"to": "recipient", "text": "t" * 120, "number": 42, "flags": [True, False]}
LATE_RATE = 100
# All are written before the first is due, and the worker runs by then.
LATE_FROM_SECONDS = 4.0
_DEADLINE_SECONDS = 300.0


@dataclass(slots=True)
class Counter:
    """Counts what the no-op handler was called for, and says when it was the last."""

    wanted: int
    count: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self) -> None:
        self.count += 1
        if self.count >= self.wanted:
            self.reached.set()


async def until_reached(worker: asyncio.Task[None], counter: Counter) -> float:
    """The instant at which the counter was reached; raises what ended the worker before that."""
    reached = asyncio.create_task(counter.reached.wait())
    try:
        await asyncio.wait([worker, reached], timeout=_DEADLINE_SECONDS, return_when="FIRST_COMPLETED")
        ended = time.perf_counter()
        if not reached.done():
            if worker.done():
                worker.result()
            raise RuntimeError(f"{counter.count} of {counter.wanted} jobs were run")
        return ended
    finally:
        reached.cancel()


class Peer(Protocol):
    """A library under the same work as everybody else."""

    name: str
    settings: str

    async def set_up(self, url: str) -> None: ...

    async def enqueue(self, count: int) -> None:
        """Write jobs that are due now, in the fastest way there is."""

    async def enqueue_later(self, delays: Sequence[float]) -> None:
        """Write one job for each delay in seconds, and remember when it is due."""

    async def run_until(self, counter: Counter, *, late: list[float] | None = None) -> float:
        """Run one worker until the counter is reached, then stop it in order.

        The answer is the instant of the last handler: the end that is left to write is not held against a peer.
        """

    async def unfinished(self) -> int:
        """How many jobs are left in the table."""

    async def close(self) -> None: ...


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures one peer and prints one line of JSON.")
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--warm-up", type=int, required=True)
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument(
        "--late", type=int, help="Measure the lateness of so many jobs instead of throughput."
    )
    return parser.parse_args()


async def measure(peer: Peer, given: argparse.Namespace) -> None:
    await peer.set_up(os.environ["BENCH_URL"])
    try:
        await peer.enqueue(given.warm_up)
        await peer.run_until(Counter(given.warm_up))
        figures = await (_lateness(peer, given.late) if given.late else _throughput(peer, given))
        version = importlib.metadata.version(peer.name)
        print(json.dumps({"peer": peer.name, "version": version, "settings": peer.settings, **figures}))
    finally:
        await peer.close()


async def _throughput(peer: Peer, given: argparse.Namespace) -> dict[str, Any]:
    jobs: int = given.jobs

    async def write() -> float:
        await peer.enqueue(jobs)
        return time.perf_counter()

    async def drain() -> float:
        return await peer.run_until(Counter(jobs))

    enqueued = await _cost(write, jobs, given.server_pid)
    drained = await _cost(drain, jobs, given.server_pid)
    if left := await peer.unfinished():
        raise RuntimeError(f"{left} of {jobs} jobs are left unfinished")
    return {"jobs": jobs, "enqueue": enqueued, "drain": drained}


async def _lateness(peer: Peer, jobs: int) -> dict[str, Any]:
    late: list[float] = []
    await peer.enqueue_later([LATE_FROM_SECONDS + number / LATE_RATE for number in range(jobs)])
    await peer.run_until(Counter(jobs), late=late)
    ordered = sorted(late)
    return {
        "n": len(ordered),
        "p50_ms": round(ordered[len(ordered) // 2], 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "max_ms": round(ordered[-1], 3),
        "early": sum(1 for each in ordered if each < 0),
    }


async def _cost(work: Callable[[], Awaitable[float]], jobs: int, server_pid: int) -> dict[str, float | None]:
    server, client, began = server_seconds(server_pid), time.process_time(), time.perf_counter()
    ended = await work()
    used, after = time.process_time() - client, server_seconds(server_pid)
    return {
        "per_s": round(jobs / (ended - began)),
        "client_us": round(used / jobs * 1e6, 1),
        "server_us": None if server is None or after is None else round((after - server) / jobs * 1e6, 1),
    }


def server_seconds(pid: int) -> float | None:
    """Processor time of the server and of its children, also of those that have ended; None if unknown."""
    try:
        ticks = sum(_times(pid))
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return None
    for child in children:
        with suppress(OSError):
            ticks += sum(_times(child)[:2])
    return ticks / os.sysconf("SC_CLK_TCK")


def _times(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]


def run(peer: Peer) -> None:
    import uvloop

    given = arguments()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(peer, given))
