"""Consumer and Producer as processes of their own, each with its health and its figures, and nodes for some queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.broker.ground import Ground, eventually, ground_on, heard
from tests.acceptance.broker.talking import REQUESTS, Ear, calling, cancel, listening, request
from tests.acceptance.processes import Process
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)


@pytest.fixture
def ground(place: Path, database: TestDatabase, broker_url: str) -> Iterator[Ground]:
    with ground_on(database, broker_url, place, lease_seconds=3.0) as made:
        yield made


async def started(ground: Ground, name: str, *command: object) -> Process:
    child = ground.run(name, *command, has_port=True)
    await ground.ready(name)
    return child


def figures(process: Process) -> dict[str, float]:
    """All samples without labels of a page that parses."""
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(process.page("/metrics"))
        for sample in family.samples
        if not sample.labels
    }


@pytest.mark.req("S-1.1", "S-6.1", "S-6.2")
async def test_each_role_is_well_and_counts_what_it_does(ground: Ground, broker_url: str) -> None:
    intake = await started(ground, "ivy", "consume")
    producer = await started(ground, "ada", "work")
    now = datetime.now(UTC)
    async with calling(broker_url) as caller, listening(broker_url) as ear:
        first = [request(f"a{number}", at=now + SECOND) for number in range(3)]
        await caller.send(request("later", at=now + timedelta(hours=1)), *first, first[0])

        async def is_queued() -> bool:
            return figures(intake)["jobs_queued_total"] == 4

        await eventually(is_queued, 20, "four requests")
        await caller.send(cancel("later"), cancel("later"))

        async def is_cancelled() -> bool:
            return figures(intake)["jobs_cancelled_total"] == 1

        await eventually(is_cancelled, 20, "the cancel")
        await heard(ear.heard, 3)

        async def is_counted() -> bool:
            return figures(producer)["jobs_due_total"] == 3

        await eventually(is_counted, 20, "three messages")
        assert await caller.depth(REQUESTS) == 0
    told, fired = figures(intake), figures(producer)
    assert (told["jobs_queued_total"], told["jobs_cancelled_total"], told["jobs_due_total"]) == (4, 1, 0)
    assert (fired["jobs_queued_total"], fired["jobs_due_total"]) == (0, 3)
    assert fired["fire_lag_seconds_count"] == 3
    for process in (intake, producer):
        assert (process.status("/healthz"), process.status("/readyz")) == (200, 200)
        assert process.status("/v1/jobs") == 404
        assert process.stop() == 0, process.words
        assert "warning" not in process.log, process.log


async def publish_later(database: TestDatabase, number: int) -> None:
    """As any program does that can speak SQL."""
    connection = await asyncpg.connect(database.url)
    try:
        message = {
            "exchange": "timebell",
            "routing_key": "schedule.due.by-hand",
            "body": {"id": f"sql-{number}"},
        }
        await connection.execute("SELECT timebell.enqueue('broker.publish', $1::jsonb)", json.dumps(message))
    finally:
        await connection.close()


async def comes(ear: Ear, id: str, seconds: float = 30.0) -> None:
    async def is_so() -> bool:
        return id in ear.ids()

    await eventually(is_so, seconds, id)


async def test_nodes_run_the_jobs_of_their_queues_alone(
    ground: Ground, database: TestDatabase, broker_url: str
) -> None:
    """Either has what the other leaves, wherever in the table it is."""
    now = datetime.now(UTC)
    intake = await started(ground, "ivy", "consume")
    fires = await started(ground, "ada", "work", "--queues", "scheduler")
    async with calling(broker_url) as caller, listening(broker_url) as ear:
        for number in range(20):
            await publish_later(database, number)
        await caller.send(*(request(f"first-{number}", at=now) for number in range(20)))
        await heard(ear.heard, 20)
        assert {*ear.ids()} == {f"first-{number}" for number in range(20)}
        rest = await started(ground, "bob", "work", "--queues", "broker,timebell.check")
        await heard(ear.heard, 40)
        await caller.send(*(request(f"second-{number}", at=now) for number in range(20)))
        for number in range(20, 40):
            await publish_later(database, number)
        await heard(ear.heard, 80)
        assert fires.stop() == 0, fires.words
        await caller.send(request("third", at=now))
        await publish_later(database, 40)
        await comes(ear, "sql-40")
        again = await started(ground, "cyd", "work", "--queues", "scheduler")
        await comes(ear, "third")
    assert len(ear.heard) == 82
    for process in (intake, rest, again):
        assert process.stop() == 0, process.words
