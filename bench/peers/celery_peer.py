"""Celery with an ETA on the same broker: what its worker holds in memory, and how late it begins.

A worker takes whatever has an ETA from the broker at once, and keeps it until it is due. So it is given what is due
tomorrow first, and then, beside that, what is due soon.

Settings: in its favour. One process that runs everything itself (`solo`) holds less and is sooner than one with
children; nothing but its queue is spoken of; what it is given is not confirmed. It may take all that there is: with a
limit it raises that by and by, and what is due soon waits at the broker behind what is due tomorrow.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from celery import Celery

from bench.peers.common import PAYLOAD, server_seconds

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "celery_peer"
WORKER = ("worker", "--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat")
ASK_EVERY_SECONDS = 0.05
SOON_SECONDS = 0.5
WITHIN_SECONDS = 2.0
_WARM_UP = 50
_READY_SECONDS = 60.0
_DEADLINE_SECONDS = 600.0
_REST_SECONDS = 2.0
_LOOK_SECONDS = 0.2

app = Celery("celery_peer", broker=os.environ.get("BENCH_BROKER_URL"))
app.conf.update(
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_prefetch_multiplier=0,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
late: list[float] = []


@app.task(name="nothing")  # type: ignore[untyped-decorator,unused-ignore]
def nothing(due: float | None = None, **_: Any) -> None:
    if due is not None:
        late.append((time.time() - due) * 1_000)


@app.task(name="tell")  # type: ignore[untyped-decorator,unused-ignore]
def tell(file: str) -> None:
    """What was noted since it was asked last. The file is whole as soon as it is there."""
    unfinished = Path(f"{file}.new")
    unfinished.write_text(json.dumps(late), encoding="utf-8")
    unfinished.rename(file)
    late.clear()


def _end_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)


class Worker:
    """A worker in a process of its own, as its users start it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._told = 0
        command = [sys.executable, "-m", "celery", "-A", "bench.peers.celery_peer", *WORKER]
        self._process = subprocess.Popen(
            [*command, "--loglevel=ERROR"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "C_FORCE_ROOT": "1"},
            # It must not outlive us, however we end.
            preexec_fn=_end_with_parent,
        )

    def noted(self, count: int) -> list[float]:
        """How late those were that have begun since it was asked last, once there are so many."""
        found: list[float] = []
        until = time.monotonic() + _DEADLINE_SECONDS
        while True:
            self._told += 1
            file = self._home / f"{self._told}.json"
            tell.apply_async(args=[str(file)])
            while not file.exists():
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the worker has told of {len(found)} of {count}")
                time.sleep(_LOOK_SECONDS)
            found += json.loads(file.read_text(encoding="utf-8"))
            if len(found) >= count:
                return found
            time.sleep(_LOOK_SECONDS)

    def take_all(self) -> None:
        """Wait until it has all that is in the queue, and has come to rest."""
        until = time.monotonic() + _DEADLINE_SECONDS
        is_at_rest = False
        while waiting() > 0 or not is_at_rest:
            if time.monotonic() > until:
                raise RuntimeError(f"{waiting()} messages wait for the worker")
            used = self._used()
            time.sleep(_REST_SECONDS)
            is_at_rest = self._used() - used < _REST_SECONDS / 10

    def memory_mb(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        (held,) = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
        return round(int(held) / 1024, 1)

    def end(self) -> None:
        """At once: what it has not run it would hand back, one by one."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_READY_SECONDS)

    def _used(self) -> float:
        return server_seconds(self._process.pid) or 0.0


def waiting() -> int:
    """How many the broker has that it has handed to nobody."""
    with app.connection_for_read() as connection:
        declared = connection.default_channel.queue_declare(QUEUE, passive=True)
        return int(declared.message_count)


def ask_later(count: int) -> float:
    """Jobs that are due tomorrow; how many of them a second were written."""
    began = time.perf_counter()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for number in range(count):
        nothing.apply_async(kwargs=PAYLOAD, eta=tomorrow + timedelta(seconds=number % 3_600))
    return round(count / (time.perf_counter() - began))


def ask_soon(rate: int, count: int) -> None:
    """Evenly over the time, each due at any instant of two seconds that begin half a second later."""
    asked, began = 0, time.monotonic()
    while asked < count:
        owed = min(count, int(rate * (time.monotonic() - began + ASK_EVERY_SECONDS))) - asked
        for _ in range(owed):
            due = time.time() + SOON_SECONDS + WITHIN_SECONDS * random.random()
            eta = datetime.fromtimestamp(due, UTC)
            nothing.apply_async(kwargs={**PAYLOAD, "due": due}, eta=eta)
        asked += owed
        time.sleep(ASK_EVERY_SECONDS)


def measure(worker: Worker, future: int, rates: Sequence[tuple[int, int]]) -> dict[str, Any]:
    ask_soon(_WARM_UP, _WARM_UP)
    worker.noted(_WARM_UP)
    empty = worker.memory_mb()
    written = ask_later(future)
    worker.take_all()
    return {
        "future": future,
        "enqueue_per_s": written,
        "memory_mb": worker.memory_mb(),
        "memory_before_mb": empty,
        "late": [lateness(worker, rate, seconds) for rate, seconds in rates],
    }


def lateness(worker: Worker, rate: int, seconds: int) -> dict[str, Any]:
    ask_soon(rate, rate * seconds)
    ordered = sorted(worker.noted(rate * seconds))
    return {
        "rate": rate,
        "seconds": seconds,
        "n": len(ordered),
        "p50_ms": round(ordered[len(ordered) // 2], 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "max_ms": round(ordered[-1], 3),
        "early": sum(1 for each in ordered if each < 0),
    }


def _rate(text: str) -> tuple[int, int]:
    rate, _, seconds = text.partition("x")
    return int(rate), int(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures Celery's ETA and prints one line of JSON.")
    parser.add_argument("--future", type=int, required=True)
    parser.add_argument(
        "--late",
        type=_rate,
        action="append",
        required=True,
        help="So many a second for so many seconds: 10x30.",
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        worker = Worker(Path(home))
        try:
            figures = measure(worker, given.future, given.late)
        finally:
            worker.end()
            with app.connection_for_write() as connection:
                connection.default_channel.queue_delete(QUEUE)
    settings = f"{' '.join(WORKER)}, no limit of prefetch, classic queue, no confirms, no result backend"
    version = importlib.metadata.version("celery")
    print(json.dumps({"peer": "celery", "version": version, "settings": settings, **figures}))


if __name__ == "__main__":
    main()
