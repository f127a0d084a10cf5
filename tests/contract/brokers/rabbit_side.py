"""RabbitMQ, as the suite for brokers wants it: a virtual host, and a way to it that can be cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from pika import BlockingConnection, URLParameters
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.acceptance.faults.proxy import Proxy
from tests.contract.brokers.rabbit_server import RabbitServer
from timebell.brokers.rabbitmq import RabbitBroker
from timebell.brokers.rabbitmq.publishing import PUBLISH_SECONDS
from timebell.clock import Chance
from timebell.testing.broker_side import QUEUE, until
from timebell.testing.broker_suite import Fault

_FULL = "full"
_FILLING_MAX = 200


class RabbitSide:
    """A virtual host of its own."""

    faults: frozenset[Fault] = frozenset({"stop", "cut", "block", "full", "delete", "otherwise"})
    settling = timedelta(milliseconds=500)

    def __init__(self, server: RabbitServer, proxy: Proxy) -> None:
        self.server = server
        self.proxy = proxy
        self.vhost = server.new_vhost()
        self.publish_seconds = PUBLISH_SECONDS

    @property
    def url(self) -> str:
        return self.server.url(self.vhost, port=self.proxy.port)

    def broker(self) -> RabbitBroker:
        return RabbitBroker(self.url, chance=Chance(seed=1), publish_seconds=self.publish_seconds)

    async def show(self, fault: Fault, queue: str = QUEUE) -> None:
        match fault:
            case "stop":
                await self.proxy.close()
            case "cut":
                self.server.cut(self.vhost)
            case "block":
                self.server.block()
            case "full":
                self._fill(queue)
            case "delete":
                with self.channel() as channel:
                    channel.queue_delete(queue)
            case "otherwise":
                with self.channel() as channel:
                    channel.queue_declare(queue, durable=True)

    async def mend(self, fault: Fault, queue: str = QUEUE) -> None:
        match fault:
            case "stop":
                await self.proxy.start()
            case "block":
                self.server.unblock()
            case "full":
                self.server.ask(f'rabbit_policy:delete(<<"{self.vhost}">>, <<"{_FULL}">>, <<"tests">>)')
                with self.channel() as channel:
                    channel.queue_purge(queue)
            case "cut" | "delete" | "otherwise":
                pass

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        """Another program's, past the proxy. What it publishes is in the queue when the call returns: a connection that
        ends takes along what a quorum queue had not confirmed yet."""
        connection = BlockingConnection(URLParameters(self.server.url(self.vhost)))
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            connection.close()

    def _fill(self, queue: str) -> None:
        """A quorum queue looks at its limit now and then, so it is full when it says so."""
        terms = '[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]'
        self.server.ask(
            f'ok = rabbit_policy:set(<<"{self.vhost}">>, <<"{_FULL}">>, <<"^{queue}$">>, {terms}, 0, <<"queues">>,'
            ' <<"tests">>)'
        )
        with self.channel() as channel:
            for _ in range(_FILLING_MAX):
                try:
                    channel.basic_publish("", queue, b"-1")
                except NackError:
                    return
        raise AssertionError("it takes more than it should")


@asynccontextmanager
async def rabbit_side(server: RabbitServer, *, is_alone: bool = False) -> AsyncIterator[RabbitSide]:
    with server.alone() if is_alone else server.shared():
        async with Proxy("127.0.0.1", server.port) as proxy:
            yield RabbitSide(server, proxy)


async def until_line(lines: Sequence[Mapping[str, Any]], event: str) -> None:
    """Until one was logged that begins like this."""

    async def is_there() -> bool:
        return any(line["event"].startswith(event) for line in lines)

    await until(is_there)
