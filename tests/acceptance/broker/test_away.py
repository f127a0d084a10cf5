"""What the page about operating says of a broker that is away, seen from outside: who waits, and who says so."""

from __future__ import annotations

import json
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.acceptance.broker.rabbit import own_rabbit
from tests.acceptance.broker.test_scraping import KEY, Roles, get
from tests.acceptance.conftest import Up
from tests.acceptance.processes import Process, until
from timebell.config import Settings


def call(port: int, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"authorization": f"Bearer {KEY}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.loads(reply.read())


def message_of(url: str) -> Any:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    _, _, body = connection.channel().basic_get(Settings().broker_due_queue, auto_ack=True)
    connection.close()
    return None if body is None else json.loads(body)


def holds_nothing(port: int) -> bool:
    return "timebell_queue_held{" not in get(port, "/metrics")


@pytest.mark.slow
def test_what_is_due_waits_for_the_broker(
    up: Up, used_folder: Path, place: Path, processes: list[Process]
) -> None:
    with own_rabbit(place) as server:
        server.wait()
        roles = Roles(up, used_folder, place, processes, server.url())
        api, node, intake = roles.ports.values()
        everything, working, taking = processes
        server.stop()
        until(lambda: taking.status() == 503, 20, "the intake to say that it is not ready")
        until(lambda: 'timebell_queue_held{queue="scheduler"} 1.0' in get(node, "/metrics"), 20, "a hold")
        assert 'timebell_queue_held{queue="broker"} 1.0' in get(node, "/metrics")

        asked = call(api, "/api/scheduler/jobs", {"id": "a", "at": "2026-01-01T00:00:00Z", "payload": 7})
        assert asked["status"] == "pending"
        until(lambda: "\njobs_overdue 1.0" in get(intake, "/metrics"), 30, "the gauge of what is overdue")
        assert call(api, "/api/scheduler/jobs/a")["status"] == "pending"
        assert (everything.status(), working.status()) == (200, 200), "they have other work"

        server.start()
        until(lambda: taking.status() == 200, 30, "the intake to be ready")
        until(lambda: call(api, "/api/scheduler/jobs/a")["status"] == "done", 30, "the message to be out")
        due = message_of(server.url())
        assert (due["id"], due["payload"], due["scheduled_for"]) == ("a", 7, "2026-01-01T00:00:00.000000Z")
        # Whichever of the two had the broker back first has sent it.
        for port in (api, node):
            until(partial(holds_nothing, port), 30, "nothing held")
        for process in processes:
            assert process.log.count("the broker is away; it is tried again") == 1, process.log
            assert process.log.count("the broker is back") == 1, process.log
        assert everything.stop() == 0, everything.words
