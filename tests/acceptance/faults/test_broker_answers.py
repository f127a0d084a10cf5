"""The broker is there and does not answer as it should: no queue takes what is due, confirms are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.broker.checking import Seen, Wanted
from tests.acceptance.broker.ground import Ground, eventually, ground_on, heard
from tests.acceptance.broker.rabbit import scheduler_database
from tests.acceptance.broker.reporting import report
from tests.acceptance.broker.talking import calling, listening, request
from tests.acceptance.faults.proxy import Proxy
from tests.acceptance.processes import Process
from tests.contract.brokers.rabbit_server import shared_server
from timebell.testing.database import DatabaseFactory

# The library that these speak through leaves this behind where a connection is lost as it is made.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine 'Connection.close' was never awaited:RuntimeWarning"
)

COUNT = 100


@asynccontextmanager
async def shared_ground(server: DatabaseFactory, place: Path, **variables: Any) -> AsyncIterator[Ground]:
    """On a virtual host of the broker that all share."""
    rabbit = await asyncio.to_thread(shared_server)
    with rabbit.shared():
        vhost = rabbit.new_vhost()
        async with scheduler_database(server) as database:
            with ground_on(database, rabbit.url(vhost), place, **variables) as ground:
                yield ground


def failures(process: Process) -> dict[str, float]:
    """The publishes that failed, by their reason."""
    return {
        sample.labels["reason"]: sample.value
        for family in text_string_to_metric_families(process.page("/metrics"))
        for sample in family.samples
        if sample.name == "publish_failures_total"
    }


@pytest.mark.req("S-2.3")
async def test_no_queue_takes_what_is_due(timebell_server: DatabaseFactory, place: Path) -> None:
    """It stays pending, is counted, and goes as soon as somebody binds a queue."""
    own = {"TIMEBELL_BROKER_DUE_QUEUE": "none"}
    async with shared_ground(timebell_server, place, **own) as ground:
        producer = ground.run("ada", "work", has_port=True)
        ground.launch("intake", "ivy")
        await ground.ready()
        at = datetime.now(UTC)
        wanted = [Wanted(id=f"u{number}", dues=(at,)) for number in range(COUNT)]
        async with calling(ground.broker_url) as caller:
            await caller.send(*(request(one.id, at=at) for one in wanted))
            await ground.taken(COUNT)

            async def is_told() -> bool:
                return failures(producer).get("returned", 0) >= 2 * COUNT

            await eventually(is_told, 30, "what comes back to be counted, and tried again")
            assert {each.status for each in (await ground.standings()).values()} == {"pending"}
            assert producer.status() == 200
            await bind(ground.broker_url, "ours")
            bound = datetime.now(UTC)
            async with listening(ground.broker_url, "ours") as ear:
                await heard(ear.heard, COUNT)
                await ground.settled()
            seen = Seen(wanted=wanted, fired=ear.fired(), standings=await ground.standings())
        assert await asyncio.to_thread(producer.stop) == 0, producer.words
    waited = max(each.received_at for each in seen.fired) - bound
    report(
        "F13",
        "no queue is bound",
        f"{COUNT} come back from the broker, until a queue is bound",
        seen,
        recovery_seconds=waited.total_seconds(),
    )


async def bind(url: str, name: str) -> None:
    async with await aio_pika.connect(url, timeout=10) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        await queue.bind("timebell", "schedule.due.#")


@pytest.mark.slow
@pytest.mark.req("S-5.1")
async def test_confirms_are_lost(timebell_server: DatabaseFactory, place: Path) -> None:
    """Nobody can say whether they arrived, so they go again, and the receiver knows them by their ids."""
    async with shared_ground(timebell_server, place) as ground:
        address = urlsplit(ground.broker_url)
        assert address.port is not None
        async with Proxy("127.0.0.1", address.port) as proxy:
            through = ground.broker_url.replace(f":{address.port}/", f":{proxy.port}/")
            producer = ground.run("ada", "work", has_port=True, TIMEBELL_BROKER_URL=through)
            ground.launch("intake", "ivy")
            await ground.ready()
            now = datetime.now(UTC)
            at = now + timedelta(seconds=3)
            # The first goes through: it takes answers to make a way for the others.
            wanted = [Wanted(id=f"l{number}", dues=(at if number else now,)) for number in range(COUNT)]
            async with calling(ground.broker_url) as caller, listening(ground.broker_url) as ear:
                await caller.send(*(request(one.id, at=one.dues[0]) for one in wanted))
                await ground.taken(COUNT)
                await heard(ear.heard, 1)
                with ground.broker_away():
                    proxy.lose_replies = True
                    await heard(ear.heard, COUNT // 2)

                    async def is_noticed() -> bool:
                        return "the jobs of a queue wait" in producer.log

                    await eventually(is_noticed, 60, "the producer to see that nobody answers")
                    proxy.abort()
                    proxy.heal()
                healed = datetime.now(UTC)
                await ground.settled()
                recovery = (datetime.now(UTC) - healed).total_seconds()
                seen = Seen(
                    wanted=wanted,
                    fired=ear.fired(),
                    standings=await ground.standings(),
                    outages=ground.outages,
                )
            assert await asyncio.to_thread(producer.stop) == 0, producer.words
    report(
        "F14",
        "confirms are lost",
        f"a proxy swallows what the broker says after {COUNT} publishes",
        seen,
        recovery_seconds=recovery,
    )
