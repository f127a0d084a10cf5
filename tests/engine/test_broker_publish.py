"""`broker.publish`: a message for later, enqueued by any program in its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.engine.support import Cluster, Owner
from timebell.brokers.app import PUBLISH, QUEUE, broker_app
from timebell.brokers.contract import BrokerQueue, Exchange, Header, Message, Topology
from timebell.brokers.local import LocalBroker
from timebell.brokers.local_server import Fate, LocalServer
from timebell.kernel import App, Registry
from timebell.rules.backoff import decide_retry
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
CAFE = BrokerQueue(name="cafe", exchange="cafe", keys=("",))
SHOP = Topology(
    exchanges=(Exchange(name="shop"),),
    queues=(BrokerQueue(name="orders", exchange="shop", keys=("order.#",)),),
)
PAYLOAD: dict[str, Any] = {"exchange": "shop", "routing_key": "order.late", "body": {"number": 7}}


def app_of(broker: LocalBroker | None, *, trusts_tenant: bool = False) -> App:
    return broker_app(broker, tenant="default", trusts_tenant=trusts_tenant)


@asynccontextmanager
async def publishing(
    database: TestDatabase, server: LocalServer, *, topology: Topology = SHOP, **terms: Any
) -> AsyncIterator[Harness]:
    """A process that publishes, and holds its queue while the broker is away."""
    broker = LocalBroker(server)
    app = app_of(broker, **terms)
    await broker.open(topology)
    try:
        async with harness(database.url, [app]) as h:
            assert app.on_open is not None
            async with app.on_open(h.bell):
                yield h
    finally:
        await broker.close()


async def enqueue(h: Harness, payload: dict[str, Any], *, tenant: str = "default", **options: Any) -> UUID:
    async with h.bell.transaction(tenant=tenant) as tx:
        return (await h.bell.enqueue(tx, PUBLISH, payload, **options)).id


def orders(server: LocalServer) -> list[Message]:
    return server.messages("orders")


async def test_what_is_due_is_published_as_json(database_url: TestDatabase, owner: Owner) -> None:
    server = LocalServer()
    bodies: list[Any] = [
        {"number": 7, "text": "grüße"},
        [1, 2.5, None],
        "text",
        7,
        True,
        None,
        {},
        [{"a": []}],
    ]
    headers: dict[str, Header] = {"text": "grüße", "number": 7, "yes": True, "nothing": None}
    async with publishing(database_url, server) as h:
        asked = {}
        for number, body in enumerate(bodies):
            payload = {**PAYLOAD, "body": body, "headers": headers}
            id = await enqueue(h, payload, delay=HOUR, correlation_id=f"c-{number}")
            asked[str(id)] = (body, f"c-{number}")
        await h.advance(HOUR - timedelta(milliseconds=1))
        assert orders(server) == []
        await h.advance(timedelta(milliseconds=1))
    assert {one.message_id for one in orders(server)} == asked.keys()
    for message in orders(server):
        assert message.message_id is not None
        body, correlation_id = asked.pop(message.message_id)
        assert message == Message(
            exchange="shop",
            routing_key="order.late",
            body=message.body,
            content_type="application/json",
            type=None,
            message_id=message.message_id,
            correlation_id=correlation_id,
            headers=headers,
        )
        assert orjson.loads(message.body) == body
    assert await owner.jobs() == []
    assert {row["state"] for row in await owner.log()} == {"done"}


async def test_any_program_asks_for_it_in_sql(database_url: TestDatabase, owner: Owner, caller: Any) -> None:
    """In the transaction that it has open anyway: what is rolled back was never asked for."""
    server = LocalServer()
    ask = (
        "SELECT timebell.enqueue('broker.publish', due_at => '2100-01-01Z', payload => jsonb_build_object("
        "'exchange', 'shop', 'routing_key', 'order.' || $1::text, 'body', jsonb_build_object('number', $2::int)))"
    )
    async with publishing(database_url, server) as h:
        async with caller.transaction():
            id = await caller.fetchval(ask, "late", 7)
        undone = caller.transaction()
        await undone.start()
        await caller.fetchval(ask, "never", 8)
        await undone.rollback()
        assert (await owner.jobs())[0]["queue"] == QUEUE
        await h.advance(to=datetime(2100, 1, 1, tzinfo=UTC))
    (message,) = orders(server)
    assert (message.routing_key, message.body, message.message_id) == ("order.late", b'{"number":7}', str(id))


async def test_a_cancelled_message_does_not_leave(database_url: TestDatabase) -> None:
    server = LocalServer()
    async with publishing(database_url, server) as h:
        id = await enqueue(h, PAYLOAD, delay=HOUR)
        async with h.bell.transaction() as tx:
            await h.bell.cancel(tx, id=id)
        await h.advance(2 * HOUR)
    assert orders(server) == []


async def test_many_leave_together(database_url: TestDatabase, owner: Owner) -> None:
    server = LocalServer()
    async with publishing(database_url, server) as h:
        ids = {str(await enqueue(h, {**PAYLOAD, "body": number}, delay=HOUR)) for number in range(60)}
        await h.advance(HOUR)
    assert {one.message_id for one in orders(server)} == ids
    assert len(orders(server)) == 60
    assert await owner.jobs() == []


async def test_while_the_broker_is_away_everything_waits_and_costs_no_attempt(
    database_url: TestDatabase, owner: Owner
) -> None:
    server = LocalServer()
    back = asyncio.Event()
    async with publishing(database_url, server) as h:
        server.stop()
        await asyncio.sleep(0)
        h.bell.holds.watch(back.set)
        for number in range(5):
            await enqueue(h, {**PAYLOAD, "body": number}, delay=number * HOUR)
        await h.advance(timedelta(days=3))
        rows = await owner.jobs()
        assert len(rows) == 5
        assert {(row["attempt"], row["started_by"]) for row in rows} == {(0, None)}
        server.start()
        async with asyncio.timeout(10):
            await back.wait()
        await h.advance(timedelta(minutes=1))
    assert sorted(orjson.loads(one.body) for one in orders(server)) == [0, 1, 2, 3, 4]
    assert await owner.jobs() == []


@pytest.mark.parametrize(("fate", "copies"), [("lose", 1), ("lose_confirm", 2)])
async def test_one_whose_answer_is_lost_is_published_again_as_the_same(
    database_url: TestDatabase, owner: Owner, fate: Any, copies: int
) -> None:
    server = LocalServer()
    fates = [Fate(sort=fate)]
    server.fate = lambda message: fates.pop() if fates else Fate()
    async with publishing(database_url, server) as h:
        id = await enqueue(h, PAYLOAD)
        await h.run_due()
        (row,) = await owner.jobs()
        assert row["attempt"] == 0
        await h.advance(timedelta(minutes=1))
    assert [one.message_id for one in orders(server)] == [str(id)] * copies
    assert len({one.body for one in orders(server)}) == 1
    assert await owner.jobs() == []


def test_what_has_nowhere_to_go_is_tried_for_about_a_day() -> None:
    handler = Registry([app_of(LocalBroker())]).handlers[PUBLISH]
    assert handler.retry is not None
    waited = timedelta()
    for attempt in range(1, 101):
        delay = decide_retry(
            handler.retry,
            attempt=attempt,
            error_class="transient",
            retry_after=None,
            elapsed=waited,
            fraction=0.5,
        )
        waited += delay or timedelta()
    assert delay is None
    assert timedelta(hours=20) < waited < timedelta(hours=28)


async def test_what_gets_somewhere_to_go_arrives(database_url: TestDatabase, owner: Owner) -> None:
    """Somebody binds a queue, or makes room in one."""
    server = LocalServer()
    async with publishing(database_url, server) as h:
        server.limit("orders", messages_max=0)
        await enqueue(h, PAYLOAD)
        await enqueue(h, {**PAYLOAD, "exchange": "", "routing_key": "letters", "body": 1})
        await enqueue(h, {**PAYLOAD, "exchange": "cafe", "body": 2})
        await h.advance(10 * SECOND)
        assert min(row["attempt"] for row in await owner.jobs()) > 1
        assert {row["error"] for row in await owner.log("pending")} == {
            "refused: the queue 'orders' is full",
            "refused: there is no exchange 'cafe'; declare it, or name another",
            "returned: no queue is bound to the exchange '' for the key 'letters'",
        }
        server.limit("orders")
        server.declare_queue("letters")
        server.declare(Topology(exchanges=(Exchange(name="cafe", sort="fanout"),), queues=(CAFE,)))
        await h.advance(60 * SECOND)
    assert len(orders(server)) == len(server.messages("letters")) == len(server.messages("cafe")) == 1
    assert await owner.jobs() == []


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "exchange: it is not there, or no text; give"),
    ({**PAYLOAD, "exchange": None}, "exchange: it is not there, or no text; give"),
    ({**PAYLOAD, "routing_key": 7}, "routing_key: it is not there, or no text; give"),
    ({"exchange": "shop", "routing_key": "order"}, "body: it is not there; give any JSON value"),
    ({**PAYLOAD, "routing_key": "ä" * 128}, "routing_key: it has 256 bytes; give at most 255"),
    (
        {**PAYLOAD, "header": {}},
        "header: there is no such field; give exchange, routing_key, body, headers",
    ),
    ({**PAYLOAD, "headers": [1]}, "headers: they are no object; give"),
    (
        {**PAYLOAD, "headers": {"a": 1.5}},
        "headers: 'a': it is no text, whole number, boolean or null; give",
    ),
    (
        {**PAYLOAD, "headers": {"a": ["b"]}},
        "headers: 'a': it is no text, whole number, boolean or null; give",
    ),
    ({**PAYLOAD, "headers": {"": 1}}, "headers: '': give a name of 1 to 255 bytes"),
    ({**PAYLOAD, "headers": {"CC": "order"}}, "headers: 'CC': brokers keep this name for themselves; give"),
    ({**PAYLOAD, "headers": {"n" * 256: 1}}, "headers: 'nnn"),
    ({**PAYLOAD, "headers": {str(n): n for n in range(65)}}, "headers: there are 65; give at most 64"),
    ({**PAYLOAD, "headers": {"a": "ä" * 8_192}}, "headers: they have 16385 bytes; give at most 16384"),
]


async def test_what_cannot_be_published_is_dead_with_its_remedy(
    database_url: TestDatabase, owner: Owner
) -> None:
    """And is in nobody's way."""
    server = LocalServer()
    async with publishing(database_url, server) as h:
        whys = {await enqueue(h, payload): why for payload, why in WRONG}
        await enqueue(h, PAYLOAD)
        await h.run_due()
    rows = await owner.rows("SELECT id, reason, attempt FROM timebell.dead_jobs")
    assert {row["id"] for row in rows} == whys.keys()
    for row in rows:
        assert row["reason"].startswith(whys[row["id"]])
        assert row["attempt"] == 1
    assert len(orders(server)) == 1


async def test_the_most_that_headers_may_be(database_url: TestDatabase) -> None:
    server = LocalServer()
    many: dict[str, Any] = {f"{number:02}": number for number in range(63)}
    many["text"] = "x" * (16_384 - 63 * 2 - 4 - 10 - 53 * 2)
    async with publishing(database_url, server) as h:
        assert sum(len(f"{name}{value}") for name, value in many.items()) == 16_384
        await enqueue(h, {**PAYLOAD, "headers": many})
        await enqueue(h, {**PAYLOAD, "headers": None}, correlation_id="ä" * 200)
        await h.run_due()
    assert sorted((one.headers for one in orders(server)), key=len) == [{}, many]
    assert [one.correlation_id for one in orders(server)] == [None, None], "too long for AMQP"


@pytest.mark.parametrize("trusts_tenant", [False, True])
async def test_only_one_tenant_may_publish_unless_all_are_trusted(
    database_url: TestDatabase, owner: Owner, trusts_tenant: bool
) -> None:
    server = LocalServer()
    async with publishing(database_url, server, trusts_tenant=trusts_tenant) as h:
        await enqueue(h, PAYLOAD, tenant="acme")
        await h.run_due()
        refusal = h.bell.registry.refusal(PUBLISH, "acme")
        assert h.bell.registry.refusal(PUBLISH, "default") is None
    if trusts_tenant:
        assert refusal is None
        assert len(orders(server)) == 1
    else:
        assert orders(server) == []
        (dead,) = await owner.rows("SELECT * FROM timebell.dead_jobs")
        assert dead["reason"] == refusal
        assert refusal is not None
        assert refusal.startswith("broker.publish: only the tenant 'default' may publish; ")


async def test_a_process_without_a_broker_leaves_it_to_one_that_has_one(
    cluster: Cluster, owner: Owner
) -> None:
    server = LocalServer()
    broker = LocalBroker(server)
    await broker.open(SHOP)
    without = await cluster.node([app_of(None)])
    having = await cluster.node([app_of(broker)])
    for _ in range(3):
        for node in (without, having):
            await node.engine.beat()
    async with without.bell.transaction() as tx:
        for number in range(20):
            await without.bell.enqueue(tx, PUBLISH, {**PAYLOAD, "body": number})
    for _ in range(2):
        for node in (without, having):
            await node.turn()
    assert sorted(orjson.loads(one.body) for one in orders(server)) == list(range(20))
    assert await owner.jobs() == []
    await broker.close()


def test_a_process_without_a_broker_knows_who_may_publish() -> None:
    app = app_of(None)
    assert app.on_open is None
    assert PUBLISH not in Registry([app]).handlers
    assert Registry([app]).refusal(PUBLISH, "acme") is not None
