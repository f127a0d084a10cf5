"""What the benches count: rates, and the processor time of both sides."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from timebell.bench.cost import Cost, Meter, peak_memory_mb, server_seconds


def test_a_cost_is_told_for_one_job() -> None:
    cost = Cost(seconds=2.0, client_seconds=0.5, server_seconds=1.0)
    assert cost.per_job(100_000) == {"per_s": 50_000, "client_us": 5.0, "server_us": 10.0}


def test_a_server_that_cannot_be_seen_costs_nothing_known() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert server_seconds(gone.pid) is None
    assert Meter(gone.pid).read().per_job(1)["server_us"] is None


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system does not tell")
def test_children_count_while_they_live_and_after() -> None:
    """This process stands for the server: what a child of it uses is its own."""
    before = server_seconds(os.getpid())
    assert before is not None
    busy = "import time, sys\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = server_seconds(os.getpid())
    after = server_seconds(os.getpid())
    assert alive is not None
    assert after is not None
    assert alive - before >= 0.25
    assert after - before >= 0.25


def test_the_meter_counts_this_process() -> None:
    meter = Meter(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    cost = meter.read()
    assert cost.client_seconds >= 0.05
    assert cost.seconds >= 0.05


def test_memory_is_counted_in_megabytes() -> None:
    assert 5 < peak_memory_mb() < 10_000
