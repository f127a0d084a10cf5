"""Whoever RabbitMQ will not have is told in one line what to do about it, and nobody is told a password."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any

import pytest
import trustme

from tests.contract.brokers.rabbit_server import PASSWORD, RabbitServer
from tests.contract.brokers.rabbit_side import rabbit_side, until_line
from tests.log_lines import kept_lines
from timebell.brokers.contract import Away, BrokerQueue, Confirmed, Exchange, Refused, Topology
from timebell.brokers.rabbitmq import RabbitBroker
from timebell.brokers.rabbitmq import broker as broker_module
from timebell.errors import ConfigurationError
from timebell.testing.broker_side import (
    EXCHANGE,
    QUEUE,
    TOPOLOGY,
    in_time,
    message,
    numbers,
    publish,
    receive,
    until_there,
)


@dataclass(frozen=True)
class Case:
    """What somebody may do, and what they hear."""

    rights: dict[str, str] | None
    said: tuple[str, ...]


CASES = {
    "nothing at all": Case(None, ("may not use the virtual host", "set_permissions")),
    "declare nothing": Case(
        {"configure": "^$"}, ("the exchange 'suite'", "lacks a right", "set_permissions")
    ),
    "declare no queue": Case({"configure": "^suite$"}, ("the queue 'suite.one'", "lacks a right")),
    "bind no queue": Case({"write": "^suite$"}, ("the queue 'suite.one'", "lacks a right")),
    "bind to nothing": Case({"read": "^suite[.]"}, ("the queue 'suite.one'", "exchange 'suite'")),
    "publish nothing": Case({"write": "^suite[.]"}, ("publishing to the exchange 'suite'", "lacks a right")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_right_that_is_missing_is_told(rabbit: RabbitServer, case: Case) -> None:
    with rabbit.shared():
        vhost, user = rabbit.new_vhost(), rabbit.new_user()
        if case.rights is not None:
            rabbit.grant(user, vhost, **case.rights)
        refusal = await refusal_of(rabbit.url(vhost, user=user, password=PASSWORD))
    assert all(part in refusal for part in (*case.said, user))


DUES = Topology(
    exchanges=(Exchange(name="timebell"),),
    queues=(
        BrokerQueue(name="timebell.requests", exchange="timebell", keys=("request",)),
        BrokerQueue(name="shop.due+", exchange="timebell", keys=("due",)),
    ),
)


@pytest.mark.parametrize("name", ["timebell.due", "shop.due+"])
async def test_the_remedy_grants_what_is_needed_and_no_more(rabbit: RabbitServer, name: str) -> None:
    """The rights that a refusal names are those with which everything goes, and nothing else does."""
    requests, due = DUES.queues
    topology = replace(DUES, queues=(requests, replace(due, name=name)))
    with rabbit.shared():
        vhost, user = rabbit.new_vhost(), rabbit.new_user()
        url = rabbit.url(vhost, user=user, password=PASSWORD)
        rabbit.grant(user, vhost, configure="^$", write="^$", read="^$")
        refusal = await refusal_of(url, topology)
        [rights] = re.findall(r"set_permissions -p \S+ \S+ ('.*')`", refusal)
        configure, write, read = shlex.split(rights)
        rabbit.grant(user, vhost, configure=_escaped(configure), write=_escaped(write), read=_escaped(read))
        broker = RabbitBroker(url)
        try:
            await in_time(broker.open(topology))
            sent = [message(n, exchange="timebell", key=key) for n, key in enumerate(("request", "due"))]
            assert await publish(broker, sent) == [Confirmed()] * 2
            for number, queue in enumerate(("timebell.requests", name)):
                async with broker.intake(queue, prefetch=1, body_bytes_max=10) as intake:
                    taken = await receive(intake, 1)
                    assert numbers(taken) == [number]
                    await in_time(intake.acknowledge(taken))
            assert isinstance((await publish(broker, [message(1, exchange="amq.topic")]))[0], Refused)
            for other in ("shop.dues", "shopXdue+", "timebells", "a.timebell"):
                with pytest.raises(ConfigurationError, match="lacks a right"):
                    await in_time(broker.open(Topology(exchanges=(Exchange(name=other),))))
        finally:
            await in_time(broker.close())


def _escaped(pattern: str) -> str:
    """As a text of Erlang."""
    return pattern.replace("\\", "\\\\")


async def test_the_right_to_take_is_asked_for_by_whoever_takes(rabbit: RabbitServer) -> None:
    with rabbit.shared():
        vhost, user = rabbit.new_vhost(), rabbit.new_user()
        rabbit.grant(user, vhost, read="^suite$")
        broker = RabbitBroker(rabbit.url(vhost, user=user, password=PASSWORD))
        try:
            await in_time(broker.open(TOPOLOGY))
            with pytest.raises(ConfigurationError, match=r"^broker_url: .*taking from the queue 'suite.one'"):
                async with broker.intake(QUEUE, prefetch=1, body_bytes_max=1):
                    raise AssertionError("nothing can be taken")
            assert broker.is_there
        finally:
            await in_time(broker.close())


async def test_a_wrong_password_is_told_without_it(rabbit: RabbitServer) -> None:
    with rabbit.shared(), kept_lines("pika") as lines:
        refusal = await refusal_of(rabbit.url(password="wr0ng-one"))
        assert "refuses the user guest" in refusal
        assert "correct the user and the password" in refusal
    assert "wr0ng-one" not in refusal + repr(lines)


async def test_a_virtual_host_that_is_not_there_is_told(rabbit: RabbitServer) -> None:
    with rabbit.shared():
        refusal = await refusal_of(rabbit.url("no/where"))
    assert "no virtual host no/where" in refusal
    assert "rabbitmqctl add_vhost no/where" in refusal


async def test_a_queue_that_is_not_there_cannot_be_taken_from(rabbit: RabbitServer) -> None:
    with rabbit.shared():
        broker = RabbitBroker(rabbit.url(rabbit.new_vhost()))
        try:
            await in_time(broker.open(TOPOLOGY))
            with pytest.raises(ConfigurationError, match=r"^broker_url: there is no queue 'nothing'"):
                async with broker.intake("nothing", prefetch=1, body_bytes_max=1):
                    raise AssertionError("nothing can be taken")
        finally:
            await in_time(broker.close())


async def test_keys_that_may_not_be_published_are_refused_alone(rabbit: RabbitServer) -> None:
    """The others that were on their way may have to be tried again, and are."""
    with rabbit.shared():
        vhost, user = rabbit.new_vhost(), rabbit.new_user()
        rabbit.grant(user, vhost)
        rabbit.ask(
            f'rabbit_auth_backend_internal:set_topic_permissions(<<"{user}">>, <<"{vhost}">>, <<"{EXCHANGE}">>,'
            ' <<"^one[.]">>, <<".*">>, <<"tests">>)'
        )
        broker = RabbitBroker(rabbit.url(vhost, user=user, password=PASSWORD))
        try:
            await in_time(broker.open(TOPOLOGY))
            answers = await publish(broker, [message(1), message(2, key="two.key"), message(3)])
            assert isinstance(answers[1], Refused)
            assert "two.key" in answers[1].reason
            assert not any(isinstance(each, Refused) for each in (answers[0], answers[2]))
            assert await publish(broker, [message(4)]) == [Confirmed()]
        finally:
            await in_time(broker.close())


async def test_tls_is_spoken_with_whom_the_authority_vouches_for(rabbit: RabbitServer) -> None:
    with rabbit.shared():
        vhost = rabbit.new_vhost()
        broker = RabbitBroker(tls_url(rabbit, vhost, str(rabbit.authority)))
        try:
            await in_time(broker.open(TOPOLOGY))
            assert await publish(broker, [message(1)]) == [Confirmed()]
            large = message(2, key="two.key")
            assert await publish(broker, [large] * 2_000) == [Confirmed()] * 2_000
            async with broker.intake(QUEUE, prefetch=10, body_bytes_max=100) as intake:
                assert numbers(await receive(intake, 1)) == [1]
        finally:
            await in_time(broker.close())


async def test_a_stranger_is_not_spoken_to(rabbit: RabbitServer, tmp_path: Any) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    with rabbit.shared():
        assert "the certificate of the broker is not trusted" in await refusal_of(
            tls_url(rabbit, "/", str(other))
        )
        plain = tls_url(rabbit, "/", str(rabbit.authority)).replace(str(rabbit.tls_port), str(rabbit.port))
        assert "does not agree on TLS" in await refusal_of(plain)


async def test_a_refusal_that_comes_later_ends_nothing(rabbit: RabbitServer) -> None:
    """Somebody took the right away while the connection was lost; it is told once, and tried again."""
    with rabbit.shared(), kept_lines() as lines:
        vhost, user = rabbit.new_vhost(), rabbit.new_user()
        rabbit.grant(user, vhost)
        broker = RabbitBroker(rabbit.url(vhost, user=user, password=PASSWORD))
        try:
            await in_time(broker.open(TOPOLOGY))
            rabbit.grant(user, vhost, configure="^$")
            rabbit.cut(vhost)
            await until_there(broker, False)
            await until_line(lines, "the broker refuses us")
            assert isinstance((await publish(broker, [message(1)]))[0], Away)
        finally:
            await in_time(broker.close())
    told = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"].partition(";")[0] for line in told] == [
        "the broker is away",
        "the broker refuses us",
    ]
    assert "set_permissions" in told[1]["reason"]


async def test_one_that_was_away_may_refuse_when_it_comes(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started has gone on by then, so it is told in a line."""
    monkeypatch.setattr(broker_module, "OPEN_SECONDS", 0.1)
    async with rabbit_side(rabbit) as side:
        user = rabbit.new_user()
        await side.show("stop")
        with kept_lines() as lines:
            broker = RabbitBroker(
                rabbit.url(side.vhost, user=user, password=PASSWORD, port=side.proxy.port),
            )
            try:
                await in_time(broker.open(TOPOLOGY))
                assert not broker.is_there
                await side.mend("stop")
                await until_line(lines, "the broker refuses us")
            finally:
                await in_time(broker.close())


def tls_url(rabbit: RabbitServer, vhost: str, authority: str) -> str:
    plain = rabbit.url(vhost, port=rabbit.tls_port)
    return f"{plain.replace('amqp://', 'amqps://')}?cacertfile={authority}"


async def refusal_of(url: str, topology: Topology = TOPOLOGY) -> str:
    """What whoever starts is told."""
    broker = RabbitBroker(url)
    try:
        with pytest.raises(ConfigurationError) as raised:
            await in_time(broker.open(topology))
    finally:
        await in_time(broker.close())
    refusal = str(raised.value)
    assert refusal.startswith("broker_url: ")
    assert len(refusal.splitlines()) == 1
    assert not broker.is_there
    return refusal
