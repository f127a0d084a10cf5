"""What the benches count: rates, and the processor time of both sides."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from timebell.bench.bars import beside_bars, missed
from timebell.bench.cost import Cost, Meter, mean_of, peak_memory_mb, server_seconds


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
    assert cost.client_seconds is not None
    assert cost.client_seconds >= 0.05
    assert cost.seconds >= 0.05


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system does not tell")
def test_the_meter_counts_another_process_that_is_named() -> None:
    busy = "import time, sys\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        meter = Meter(os.getpid(), child.pid)
        assert child.stdout is not None
        child.stdout.readline()
        cost = meter.read()
    assert cost.client_seconds is not None
    assert cost.client_seconds >= 0.2
    assert Meter(os.getpid(), child.pid).read().per_job(1)["client_us"] is None


def test_the_mean_of_two_costs_is_that_of_rates_and_times() -> None:
    mean = mean_of(
        Cost(seconds=1, client_seconds=2, server_seconds=4),
        Cost(seconds=3, client_seconds=4, server_seconds=None),
    )
    assert mean == Cost(seconds=1.5, client_seconds=3, server_seconds=None)
    assert (
        mean.processor_seconds,
        Cost(seconds=1, client_seconds=2, server_seconds=4).processor_seconds,
    ) == (None, 6)


def test_a_bar_is_met_on_it_and_missed_beyond_it() -> None:
    def suggest(client: float, server: float | None) -> dict[str, Any]:
        result = {"bench": "suggest", "timebell": {"client_us": client, "server_us": server}}
        return {**result, "bars": beside_bars(result)}

    on = suggest(6_000, 3_500)
    assert on["bars"][0] == {"figure": "timebell.client_us", "value": 6_000, "at_most": 6_000, "is_met": True}
    assert missed(on) == []
    assert missed(suggest(6_001, None)) == ["timebell.client_us is 6001, the bar is at most 6000"]
    http = {"bench": "http", "processor_ratio": 1.99, "bulk": {"client_us": 10.0, "server_us": 36.0}}
    assert missed({**http, "bars": beside_bars(http)}) == [
        "processor_ratio is 1.99, the bar is at least 2",
        "bulk.server_us is 36.0, the bar is at most 35",
    ]
    assert missed({"bench": "drain"}) == []
    assert beside_bars({"bench": "drain"}) == []


def test_memory_is_counted_in_megabytes() -> None:
    assert 5 < peak_memory_mb() < 10_000
