"""The page about a message for later shows what works: in SQL, in a trigger, in Python and over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest_asyncio

from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from tests.web.support import open_site
from timebell.brokers import BrokerQueue, Exchange, Message, Topology
from timebell.brokers.app import HEADERS_BYTES_MAX, HEADERS_MAX, PUBLISH, broker_app
from timebell.brokers.local import LocalBroker
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

PAGE = (ROOT / "docs" / "howto" / "messages-later.md").read_text(encoding="utf-8")
BLOCKS = list(blocks(PAGE))
ONCE, WITH_REASON, PAID, TRIGGER = [block.code for block in BLOCKS if block.language == "sql"]
[PYTHON] = [block.code for block in BLOCKS if block.language == "python"]
[CURL] = [block.code for block in BLOCKS if block.language == "sh" and "curl" in block.code]
HALF_AN_HOUR = timedelta(minutes=30)
SHOP = Topology(
    exchanges=(Exchange(name="shop"),),
    queues=(BrokerQueue(name="unpaid", exchange="shop", keys=("order.unpaid",)),),
)


class Shop:
    """A table of orders, a node that publishes, and a queue of the shop's own."""

    def __init__(self, bench: Harness, broker: LocalBroker, connection: Any) -> None:
        self.bench = bench
        self.bell = bench.bell
        self.connection = connection
        self._broker = broker

    async def published(self) -> list[Message]:
        """What the queue gets after half an hour, and not before. SQL counts from its own clock, which goes on while a
        slow machine comes this far."""
        began = self.bench.clock.now
        row = await self.connection.fetchrow(
            "SELECT min(due_at) AS first, max(due_at) AS last FROM timebell.jobs"
        )
        first, last = (row[name] or began + HALF_AN_HOUR for name in ("first", "last"))
        assert first >= began + HALF_AN_HOUR
        await self.bench.advance(first - began - timedelta(seconds=1))
        assert self._broker.server.messages("unpaid") == []
        await self.bench.advance(last - self.bench.clock.now)
        return self._broker.server.messages("unpaid")


@pytest_asyncio.fixture
async def shop(database_url: TestDatabase) -> AsyncIterator[Shop]:
    owner = await asyncpg.connect(database_url.owner_url)
    await owner.execute("CREATE TABLE public.orders (number integer PRIMARY KEY)")
    await owner.execute("GRANT ALL ON public.orders TO public; GRANT CREATE ON SCHEMA public TO public")
    clock = ManualClock(await owner.fetchval("SELECT now()"))
    await owner.close()
    broker = LocalBroker()
    await broker.open(SHOP)
    connection = await asyncpg.connect(database_url.url)
    app = broker_app(broker, tenant="default", trusts_tenant=False)
    async with harness(database_url.url, [app], clock=clock) as bench:
        yield Shop(bench, broker, connection)
    await connection.close()
    await broker.close()


async def test_one_line_of_sql(shop: Shop) -> None:
    job = await shop.connection.fetchval(ONCE)
    [message] = await shop.published()
    assert (message.exchange, message.routing_key, message.body) == ("shop", "order.unpaid", b'{"order":7}')
    assert (message.content_type, message.message_id) == ("application/json", str(job))


async def test_the_line_in_the_readme(shop: Shop) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [line] = [block.code for block in blocks(readme) if block.language == "sql"]
    await shop.connection.execute(line)
    assert [one.body for one in await shop.published()] == [b'{"order":7}']


async def test_the_message_shares_the_fate_of_its_order(shop: Shop) -> None:
    await shop.connection.execute(WITH_REASON.replace("COMMIT", "ROLLBACK"))
    assert await shop.connection.fetchval("SELECT count(*) FROM timebell.jobs") == 0
    await shop.connection.execute(WITH_REASON)
    [message] = await shop.published()
    assert json.loads(message.body) == {"order": 7}


async def test_an_order_that_is_paid_is_not_told_of(shop: Shop) -> None:
    await shop.connection.execute(WITH_REASON)
    assert [row["answer"] for row in await shop.connection.fetch(PAID)] == ["cancelled"]
    assert await shop.published() == []


async def test_a_trigger(shop: Shop, database_url: TestDatabase) -> None:
    owner = await asyncpg.connect(database_url.owner_url)
    await owner.execute(TRIGGER)
    await owner.close()
    await shop.connection.execute("INSERT INTO orders (number) VALUES (8), (9)")
    assert sorted(json.loads(one.body)["order"] for one in await shop.published()) == [8, 9]


async def test_python(shop: Shop) -> None:
    names: dict[str, Any] = {}
    exec(PYTHON, names)
    async with shop.bell.transaction() as tx:
        await names["remember"](shop.bell, tx, 7)
        await names["remember"](shop.bell, tx, 8)
        [answer] = await names["forget"](shop.bell, tx, 8)
    assert answer.answer == "cancelled"
    assert [json.loads(one.body) for one in await shop.published()] == [{"order": 7}]


async def test_http(shop: Shop, database_url: TestDatabase) -> None:
    body = json.loads(re.findall(r"-d '(.*)'", CURL, re.DOTALL)[0])
    async with open_site(database_url, apps=[], clock=shop.bench.clock) as site:
        made = [await site.post("/v1/jobs", json=body) for _ in range(2)]
    assert [reply.status_code for reply in made] == [201, 201], made[0].text
    assert [reply.json()["created"] for reply in made] == [True, False]
    assert [json.loads(one.body) for one in await shop.published()] == [{"order": 7}]


def test_the_fields_and_their_limits_are_told() -> None:
    section = PAGE.partition("## What can be said")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [
        "exchange",
        "routing_key",
        "body",
        "headers",
    ]
    assert f"up to {HEADERS_MAX}, and {HEADERS_BYTES_MAX // 1024} KiB in all" in section


async def test_a_field_with_another_name_is_dead_and_says_so(shop: Shop) -> None:
    async with shop.bell.transaction() as tx:
        payload = {"exchange": "shop", "routing_key": "order.unpaid", "body": 1, "key": "order.unpaid"}
        await shop.bell.enqueue(tx, PUBLISH, payload, delay=HALF_AN_HOUR)
    assert await shop.published() == []
    dead = await shop.connection.fetchval("SELECT reason FROM timebell.dead_jobs")
    assert dead.startswith("key: there is no such field")
