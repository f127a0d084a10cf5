"""The benches with a broker, on the one that the tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.test_bench import bench, run_bench
from tests.contract.brokers.rabbit_server import RabbitServer, shared_server
from timebell.bench.vhost import lent_vhost
from timebell.brokers import BrokerQueue, Exchange, Topology
from timebell.brokers.opening import open_broker
from timebell.db.embedded import EmbeddedServer


@pytest.fixture
def rabbit() -> Iterator[RabbitServer]:
    server = shared_server()
    with server.shared():
        yield server


def side(answer: dict[str, Any], name: str) -> dict[str, Any]:
    figures: dict[str, Any] = answer[name]
    return figures


def test_requests_that_are_taken_in_are_measured_beside_those_by_hand(
    rabbit: RabbitServer, server: EmbeddedServer
) -> None:
    place = ("--broker-url", rabbit.url(rabbit.new_vhost()), "--data", str(server.folder))
    answer: dict[str, Any] = bench("intake", "--messages", "300", "--rounds", "1", *place)
    assert (answer["bench"], answer["messages"]) == ("intake", 300)
    for name in ("timebell", "raw"):
        figures = side(answer, name)
        assert figures["per_s"] > 0
        assert figures["client_us"] > 0
        # Nobody has said which process the broker is.
        assert figures["broker_us"] is None
    assert isinstance(answer["ratio"], float)


def test_messages_that_are_fired_are_measured_beside_a_tight_loop(
    rabbit: RabbitServer, server: EmbeddedServer
) -> None:
    place = ("--broker-url", rabbit.url(rabbit.new_vhost()), "--data", str(server.folder))
    small = ("--messages", "300", "--rounds", "1", "--rate", "100", "--seconds", "1", "--future", "200")
    answer: dict[str, Any] = bench("publish", *small, *place)
    assert (answer["bench"], answer["messages"]) == ("publish", 300)
    assert all(side(answer, name)["per_s"] > 0 for name in ("timebell", "raw"))
    assert isinstance(answer["ratio"], float)
    late = answer["late"]
    assert (late["n"], late["early"], late["future"]) == (100, 0, 200)
    assert [bar["figure"] for bar in answer["bars"]] == ["ratio", "late.p50_ms", "late.p99_ms"]


def test_a_virtual_host_that_somebody_uses_is_refused(rabbit: RabbitServer) -> None:
    url = rabbit.url(rabbit.new_vhost())
    mine = BrokerQueue(name="timebell.due", exchange="mine", keys=("#",))

    async def declare() -> None:
        broker = open_broker(url)
        await broker.open(Topology(exchanges=(Exchange(name="mine"),), queues=(mine,)))
        await broker.close()

    asyncio.run(declare())
    ended = run_bench("intake", "--messages", "10", "--broker-url", url)
    assert ended.returncode != 0
    assert "'timebell.due' is there already; give a virtual host that nobody uses" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_nothing_is_left_of_what_was_declared(rabbit: RabbitServer) -> None:
    url = rabbit.url(rabbit.new_vhost())
    topology = Topology(
        exchanges=(Exchange(name="lent"),),
        queues=(BrokerQueue(name="lent.one", exchange="lent", keys=("#",)),),
    )

    async def borrow() -> None:
        broker = open_broker(url)
        async with lent_vhost(url, queues=["lent.one"], exchanges=["lent"]):
            await broker.open(topology)
            await broker.close()

    # The second time would be refused.
    asyncio.run(borrow())
    asyncio.run(borrow())


@pytest.mark.slow
def test_a_broker_of_its_own_is_started_and_counted(rabbit: RabbitServer) -> None:
    answer: dict[str, Any] = bench("intake", "--messages", "300", "--rounds", "1")
    assert side(answer, "timebell")["broker_us"] is not None
    assert side(answer, "raw")["broker_us"] is not None
