"""The benches with a broker: what they compare, and how that is shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.plan import QUICK, Size, plan_messages
from bench.render import put
from bench.render_messages import message_blocks
from bench.run import PARTS
from bench.scratch import MESSAGE_PEERS
from timebell.bench import rabbit
from timebell.bench.bars import beside_bars, missed
from timebell.bench.cost import Cost, Meter, memory_mb
from timebell.bench.messages import by_turns, figures, publish_all, requests, spread
from timebell.brokers import Confirmed, Heard, Message, Published, Returned
from timebell.brokers.local import LocalBroker
from timebell.errors import TimebellError

NOW = datetime(2026, 11, 17, 9, tzinfo=UTC)


class Counting(LocalBroker):
    """Takes everything, and notes how many were on their way at once."""

    def __init__(self, answer: Published | None = None) -> None:
        super().__init__()
        self.answer = answer or Confirmed()
        self.published: list[Message] = []
        self.under_way = self.most = 0

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        self.under_way += len(messages)
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= len(messages)
        self.published += messages
        return [self.answer] * len(messages)


def test_instants_of_the_coming_weeks_are_in_no_order_and_all_different() -> None:
    dues = spread(NOW, 1_000)
    assert len(set(dues)) == 1_000
    assert dues != sorted(dues)
    assert min(dues) >= NOW + timedelta(days=1)


async def test_the_raw_loop_has_as_many_under_way_as_it_may_and_hands_over_all() -> None:
    broker = Counting()
    messages = requests("round", [NOW] * 1_003)
    await publish_all(broker, messages, 100)
    assert broker.most == 100
    assert sorted(one.body for one in broker.published) == sorted(one.body for one in messages)


async def test_a_message_that_was_not_confirmed_ends_the_bench() -> None:
    with pytest.raises(TimebellError, match="1 messages not"):
        await publish_all(Counting(Returned("no queue")), requests("round", [NOW]), 4)


async def test_both_sides_take_turns_and_every_other_round_is_backwards() -> None:
    order: list[str] = []

    async def ours(count: int, prefix: str) -> Cost:
        order.append(prefix)
        return Cost(seconds=2.0, client_seconds=1.0, server_seconds=None, broker_seconds=0.5)

    async def raw(count: int, prefix: str) -> Cost:
        order.append(prefix)
        return Cost(seconds=1.0 + len(order), client_seconds=1.0, server_seconds=None)

    compared = await by_turns(ours, raw, 1_000, 3)
    assert [name.rpartition("-")[2] for name in order] == ["raw", "ours", "ours", "raw", "raw", "ours"]
    assert len(set(order)) == 6
    # The raw side took 2, 5 and 6 seconds.
    assert compared["ratio"] == 2.5
    assert compared["timebell"] == {
        "per_s": 500,
        "client_us": 1_000.0,
        "server_us": None,
        "broker_us": 500.0,
        "rounds": [500, 500, 500],
    }


def test_one_slow_round_is_not_what_is_told() -> None:
    costs = [Cost(seconds=seconds, client_seconds=seconds, server_seconds=0.0) for seconds in (1, 60, 2)]
    told = figures(costs, 100)
    assert (told["per_s"], told["client_us"], told["broker_us"]) == (50, 20_000.0, None)


def test_the_meter_counts_a_broker_that_is_named() -> None:
    assert Meter(os.getpid()).read().broker_seconds is None
    assert Meter(os.getpid(), broker_pid=os.getpid()).read().broker_seconds is not None


def test_memory_is_what_is_held_now() -> None:
    held = memory_mb()
    assert held is None or 5 < held < 10_000


def test_a_machine_without_a_broker_is_told_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbit, "SERVER", Path("/nowhere/rabbitmq-server"))
    with pytest.raises(TimebellError, match="install the Debian package of that name, or give --broker-url"):
        rabbit.PrivateRabbit()


def test_the_bars_are_half_of_raw_and_a_lateness() -> None:
    result = {"bench": "publish", "ratio": 0.49, "late": {"p50_ms": 5.0, "p99_ms": 25.1}}
    assert missed({**result, "bars": beside_bars(result)}) == [
        "ratio is 0.49, the bar is at least 0.5",
        "late.p99_ms is 25.1, the bar is at most 25",
    ]
    assert beside_bars({"bench": "intake", "ratio": 0.5})[0]["is_met"]


def side(*rates: int, broker: float | None = 60.0) -> dict[str, Any]:
    costs = {"client_us": 80.4, "server_us": 40.0, "broker_us": broker}
    return {"per_s": sorted(rates)[len(rates) // 2], **costs, "rounds": list(rates)}


def lateness(future: int, **more: Any) -> dict[str, Any]:
    figures = {"rate": 500, "seconds": 30, "future": future, "n": 15_000, "memory_mb": 110.4, "early": 0}
    return {**figures, "p50_ms": 3.21, "p99_ms": 12.0, "max_ms": 40.0, **more}


@pytest.fixture
def results() -> dict[str, Any]:
    runs = {
        "intake": {
            "messages": 40_000,
            "timebell": side(6_000, 3_000),
            "raw": side(9_000, 6_000, broker=None),
        },
        "late celery": {
            "future": 100_000,
            "memory_mb": 812.3,
            "late": [lateness(0, rate=10), lateness(0, p50_ms=25_000.0)],
            "version": "5.7.0",
            "settings": "solo",
        },
        "publish": {
            "messages": 40_000,
            "timebell": side(8_000, 4_000, 8_800),
            "raw": side(16_000, 8_000, 16_000),
            "late": lateness(1_000_000),
        },
    }
    weather = {"load": 0.5, "other_cpu": 0.1}
    return {
        "conditions": {
            "date": "2026-11-17",
            "commit": "abc1234",
            "processor": "a processor",
            "processors": 2,
            "memory_gb": 24,
            "system": "Linux",
            "postgresql": "18.4",
            "settings": {"fsync": "on"},
            "versions": {"RabbitMQ": "3.10.8"},
        },
        "size": {"rounds": 3, "messages_rounds": 5},
        "peers": ["celery"],
        "not_run": {},
        "runs": [{"name": name, "weather": weather, "result": result} for name, result in runs.items()],
    }


def cells(block: str, title: str) -> list[str]:
    [line] = [line for line in block.splitlines() if line.startswith(f"| {title}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_of_messages(results: dict[str, Any]) -> None:
    table = message_blocks(results)["messages"]
    assert cells(table, "fired and confirmed")[1:] == [
        "40,000",
        "8,000 (4,000–8,800)",
        "16,000 (8,000–16,000)",
        "0.50 (0.50–0.55)",
        "80, 40, 60",
        "80, 40, 60",
    ]
    assert cells(table, "requests taken in")[-1] == "80, 40, —"


def test_the_table_of_lateness_has_the_peer_beside_us(results: dict[str, Any]) -> None:
    table = message_blocks(results)["message-late"]
    assert cells(table, "Timebell")[1:] == ["1,000,000", "15,000", "3.2", "12.0", "40.0", "0", "110"]
    assert cells(table, "celery 5.7.0, 10/s for 30 s")[-1] == "812"
    assert cells(table, "celery 5.7.0, 500/s for 30 s")[1:4] == ["100,000", "15,000", "25,000.0"]
    assert "- celery 5.7.0: solo" in table
    results["not_run"] = {"celery": "it could not be installed"}
    table = message_blocks(results)["message-late"]
    assert cells(table, "celery")[1] == "not run: it could not be installed"


def test_the_conditions_are_those_of_this_part(results: dict[str, Any]) -> None:
    conditions = message_blocks(results)["message-conditions"]
    assert "5 rounds, every other one backwards" in conditions
    assert "RabbitMQ 3.10.8" in conditions


def test_the_page_has_a_place_for_each_table(results: dict[str, Any]) -> None:
    part = PARTS["messages"]
    texts = part.blocks(results)
    for page, names in part.pages.items():
        text = page.read_text(encoding="utf-8")
        for name in names:
            text = put(text, name, texts[name])
    assert {name for names in part.pages.values() for name in names} == texts.keys()


def test_a_quick_run_measures_the_same_messages() -> None:
    peers = list(MESSAGE_PEERS.values())
    quick, whole = ([each.name for each in plan_messages(size, peers)] for size in (QUICK, Size()))
    assert quick == whole == ["intake", "late celery", "publish"]
