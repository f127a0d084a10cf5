"""What the page about operating a broker advises, tried on a real one: rights, policies, and its own figures."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pika
import pytest

from tests.acceptance.processes import until
from tests.contract.brokers.rabbit_server import PASSWORD, RabbitServer
from tests.ops.figures import RABBITMQ, names_on
from tests.shape.tree import ROOT
from timebell.apps.scheduler.topology import CANCELS, DEAD, EXCHANGE, REQUESTS, topology
from timebell.brokers import Confirmed, Message, Refused, Returned, Topology
from timebell.brokers.rabbitmq import RabbitBroker
from timebell.config import Settings
from timebell.errors import ConfigurationError

PAGE = (ROOT / "docs" / "howto" / "broker.md").read_text(encoding="utf-8")
SCRAPING = (ROOT / "ops" / "prometheus.yml").read_text(encoding="utf-8")
ALL = topology(Settings().broker_due_queue)


def message(key: str, exchange: str = EXCHANGE) -> Message:
    return Message(exchange=exchange, routing_key=key, body=b"{}")


def set_policy(server: RabbitServer, vhost: str, name: str, **more: int) -> None:
    """The one that the page has under this name, with something added."""
    [(pattern, definition)] = re.findall(rf"set_policy {name} '([^']+)' '([^']+)' --apply-to queues", PAGE)
    terms = json.dumps({**json.loads(definition), **more}).replace('"', '\\"')
    escaped = pattern.replace("\\", "\\\\")
    server.ask(
        f'ok = rabbit_policy:parse_set(<<"{vhost}">>, <<"{name}">>, <<"{escaped}">>, <<"{terms}">>, 0,'
        ' <<"queues">>, <<"tests">>)'
    )


def count(url: str, queue: str) -> int:
    with closing(pika.BlockingConnection(pika.URLParameters(url))) as connection:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


async def test_the_rights_are_enough_and_no_more(rabbit_server: RabbitServer, vhost: str) -> None:
    [(configure, write, read)] = re.findall(r"set_permissions -p / bell '([^']+)' '([^']+)' '([^']+)'", PAGE)
    user = rabbit_server.new_user()
    rights = {"configure": configure, "write": write, "read": read}
    escaped = {name: pattern.replace("\\", "\\\\") for name, pattern in rights.items()}
    rabbit_server.grant(user, vhost, **escaped)
    broker = RabbitBroker(rabbit_server.url(vhost, user=user, password=PASSWORD))
    await broker.open(ALL)
    due, shop = await broker.publish([message("schedule.due.default"), message("a", "amq.topic")])
    assert isinstance(due, Confirmed)
    assert isinstance(shop, Refused)
    async with broker.intake(REQUESTS, prefetch=10, body_bytes_max=100) as intake:
        assert isinstance((await broker.publish([message("schedule.request")]))[0], Confirmed)
        await intake.acknowledge(await intake.take(1))
    await broker.close()

    more = re.findall(r"into the second: `'([^']+)'`", PAGE)[0].replace("shop", "amq.topic")
    rabbit_server.grant(user, vhost, **{**escaped, "write": more.replace("\\", "\\\\")})
    broker = RabbitBroker(rabbit_server.url(vhost, user=user, password=PASSWORD))
    await broker.open(Topology())
    [answer] = await broker.publish([message("a", "amq.topic")])
    assert isinstance(answer, Returned), "it may be published, and no queue is bound"
    await broker.close()


async def test_a_user_without_rights_is_told_which(rabbit_server: RabbitServer, vhost: str) -> None:
    user = rabbit_server.new_user()
    rabbit_server.grant(user, vhost, configure="^$")
    broker = RabbitBroker(rabbit_server.url(vhost, user=user, password=PASSWORD))
    with pytest.raises(ConfigurationError, match="rabbitmqctl set_permissions"):
        await broker.open(ALL)
    await broker.close()


async def test_what_came_back_too_often_goes_to_the_dead_letters(
    rabbit_server: RabbitServer, vhost: str, broker_url: str
) -> None:
    set_policy(rabbit_server, vhost, "timebell-dead", **{"delivery-limit": 1})
    broker = RabbitBroker(broker_url)
    await broker.open(ALL)
    await broker.publish([message("schedule.request"), message("schedule.cancel")])
    for queue in (REQUESTS, CANCELS):
        async with broker.intake(queue, prefetch=10, body_bytes_max=100) as intake:
            for _ in range(2):
                await intake.give_back(await intake.take(1))
    until(lambda: count(broker_url, DEAD) == 2, 20, "two dead letters")
    await broker.close()


async def test_a_queue_that_is_full_refuses_and_loses_nothing(
    rabbit_server: RabbitServer, vhost: str, broker_url: str
) -> None:
    set_policy(rabbit_server, vhost, "timebell-due", **{"max-length": 3})
    broker = RabbitBroker(broker_url)
    await broker.open(ALL)
    answers: list[object] = []

    def is_full() -> bool:
        return any(isinstance(one, Refused) for one in answers)

    # The queue notices a little late that it is full.
    for _ in range(100):
        answers += await broker.publish([message("schedule.due.default")])
        if is_full():
            break
    assert is_full()
    confirmed = sum(isinstance(one, Confirmed) for one in answers)
    until(lambda: count(broker_url, Settings().broker_due_queue) == confirmed, 20, "what was confirmed")
    await broker.close()


@pytest.fixture
def figures_port(rabbit_server: RabbitServer, vhost: str) -> Iterator[int]:
    """RabbitMQ's own exporter, on a port of the test's own, for as long as the test uses the broker. It counts queues
    oftener than every five seconds then."""
    assert vhost
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    plugins = rabbit_server.folder / "plugins"
    before = plugins.read_text()
    rabbit_server.ask(
        f'application:set_env(rabbitmq_prometheus, tcp_config, [{{port, {port}}}, {{ip, "127.0.0.1"}}])'
    )
    rabbit_server.ask("application:set_env(rabbit, quorum_tick_interval, 200)")
    plugins.write_text("[rabbitmq_prometheus].\n")
    rabbit_server.ask(f'rabbit_plugins:ensure("{plugins}")')
    yield port
    plugins.write_text(before)
    rabbit_server.ask(f'rabbit_plugins:ensure("{plugins}")')
    rabbit_server.ask("application:unset_env(rabbit, quorum_tick_interval)")


def page_of(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reply:
        return str(reply.read().decode())


@pytest.mark.req("S-6.1")
async def test_the_broker_has_every_figure_that_is_asked_of_it(
    figures_port: int, vhost: str, broker_url: str
) -> None:
    broker = RabbitBroker(broker_url)
    await broker.open(ALL)
    await broker.publish([message("schedule.request"), message("nowhere")])
    [path] = re.findall(r"metrics_path: (\S+)", SCRAPING)
    [families] = re.findall(r"family: \[(.*)\]", SCRAPING)
    query = "&".join(f"family={family.strip()}" for family in families.split(","))
    until(
        lambda: f'queue="{REQUESTS}"' in page_of(figures_port, f"{path}?{query}&vhost={vhost}"),
        20,
        "the figures of a queue",
    )
    found = names_on(page_of(figures_port, "/metrics"))
    found |= names_on(page_of(figures_port, f"{path}?{query}&vhost={vhost}"))
    assert found >= RABBITMQ, RABBITMQ - found
    await broker.close()
