"""A broker that will never have us is told at the start, in one line with the remedy, and the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import pytest

from tests.acceptance.broker.ground import settings_of
from tests.acceptance.processes import assert_refused, command, free_port
from tests.contract.brokers.rabbit_server import PASSWORD, RabbitServer
from timebell.testing.database import TestDatabase

COMMANDS = ("work", "consume", "up")


def wrong_password(server: RabbitServer, vhost: str) -> str:
    return server.url(vhost, password="not-that-one")


def no_such_vhost(server: RabbitServer, vhost: str) -> str:
    return server.url(f"{vhost}-not-there")


def nothing_granted(server: RabbitServer, vhost: str) -> str:
    return server.url(vhost, user=server.new_user(), password=PASSWORD)


def may_not_declare(server: RabbitServer, vhost: str) -> str:
    user = server.new_user()
    server.grant(user, vhost, configure="^$")
    return server.url(vhost, user=user, password=PASSWORD)


def queue_is_otherwise(server: RabbitServer, vhost: str) -> str:
    """Somebody declared the queue of requests as a classic one."""

    async def declare() -> None:
        async with await aio_pika.connect(server.url(vhost), timeout=10) as connection:
            channel = await connection.channel()
            await channel.declare_queue("timebell.requests", durable=True)

    asyncio.run(declare())
    return server.url(vhost)


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (wrong_password, ["guest", "password"]),
        (no_such_vhost, ["-not-there", "add_vhost"]),
        (nothing_granted, ["set_permissions"]),
        (may_not_declare, ["set_permissions"]),
        (queue_is_otherwise, ["timebell.requests", "virtual host"]),
    ],
)
def test_what_the_broker_refuses_for_good(
    arrange: Callable[[RabbitServer, str], str],
    words: list[str],
    database: TestDatabase,
    rabbit_server: RabbitServer,
    vhost: str,
) -> None:
    url = arrange(rabbit_server, vhost)
    variables = settings_of(database, url, TIMEBELL_OWNER_URL=database.owner_url)
    for name in COMMANDS:
        port = ["--port", free_port()] if name == "up" else []
        done = command(name, *port, **variables)
        assert_refused(done, 2, "broker_url: ", *words)
        assert "not-that-one" not in done.stderr
        assert PASSWORD not in done.stderr


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:5672/", ["amqp://"]),
        ("amqp://guest:hunter2@127.0.0.1:5672/a/b", ["amqp://"]),
        (None, ["is missing"]),
    ],
)
def test_a_url_that_is_none(database: TestDatabase, url: str | None, words: list[str]) -> None:
    variables = settings_of(database, url or "")
    if url is None:
        del variables["TIMEBELL_BROKER_URL"]
    done = command("consume", **variables)
    assert_refused(done, 2, "broker_url", *words)
    assert "hunter2" not in done.stderr
