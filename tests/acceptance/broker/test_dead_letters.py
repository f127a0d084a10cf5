"""The example that looks at dead letters and brings them back, on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pika
import pytest

from tests.acceptance.processes import clean_environment
from tests.shape.tree import ROOT
from timebell.apps.scheduler.letters import copy_of
from timebell.apps.scheduler.models import Poison
from timebell.apps.scheduler.topology import DEAD, EXCHANGE, REQUESTS, topology
from timebell.brokers import Confirmed, Received
from timebell.brokers.rabbitmq import RabbitBroker

SCRIPT = ROOT / "examples" / "messages" / "dead_letters.py"
HELLO = b'{"type": "ScheduleRequest", "id": "a", "at": "2030-01-01T00:00:00Z", "tenant": "acme"}'


def run(url: str, *arguments: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=clean_environment(BROKER_URL=url),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def letter(body: bytes, reason: Any, detail: str, body_bytes: int | None = None) -> Any:
    received = Received(
        queue=REQUESTS,
        exchange=EXCHANGE,
        routing_key="schedule.request",
        body=body,
        body_bytes=body_bytes or len(body),
        tag=1,
        type="ScheduleRequest",
        headers={"shop": "north"},
    )
    return copy_of(received, Poison(reason=reason, detail=detail))


@pytest.fixture
async def letters(broker_url: str) -> None:
    broker = RabbitBroker(broker_url)
    await broker.open(topology(""))
    copies = [
        letter(HELLO, "foreign_tenant", "tenant: 'acme' may not be named here"),
        letter(b"hello", "not_json", "the body is not JSON"),
        letter(b"x" * 10, "too_large", "the body has 200000 bytes", 200_000),
    ]
    assert await broker.publish(copies) == [Confirmed()] * 3
    await broker.close()


@pytest.mark.usefixtures("letters")
def test_letters_are_shown_returned_and_dropped(broker_url: str) -> None:
    shown = run(broker_url, "list")
    assert [one["reason"] for one in shown] == ["foreign_tenant", "not_json", "too_large"]
    assert shown[0]["detail"] == "tenant: 'acme' may not be named here"
    assert shown[0]["body"] == HELLO.decode()
    assert run(broker_url, "list", "not_json") == [shown[1]], "looking takes nothing away"

    assert run(broker_url, "return", "foreign_tenant") == []
    assert run(broker_url, "return", "too_large") == []
    assert run(broker_url, "drop", "not_json") == []
    assert [one["reason"] for one in run(broker_url, "list")] == ["too_large"], "there is only its beginning"

    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    method, properties, body = channel.basic_get(REQUESTS)
    assert (method.exchange, method.routing_key, body) == (EXCHANGE, "schedule.request", HELLO)
    assert properties.type == "ScheduleRequest"
    assert {name for name in properties.headers if not name.startswith("x-")} == {"shop"}
    assert properties.delivery_mode == 2
    assert channel.queue_declare(DEAD, passive=True).method.message_count == 1
    connection.close()


def test_whoever_says_nothing_is_told_what_can_be_said() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "dead_letters.py list" in done.stderr
