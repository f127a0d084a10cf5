"""The log has a partition a day: a missing one is made, an old one is dropped, and neither holds up a finish."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine.pruner import EVERY_SECONDS
from timebell.kernel import App, Handler, Job, Outcome, Retry
from timebell.kernel.models import Mode
from timebell.testing.database import TestDatabase


def app_of(mode: Mode, outcome: Outcome | None = None) -> App:
    async def act(job: Job) -> Outcome | None:
        return outcome

    return App(name="t", handlers={"t.act": Handler(run=act, mode=mode)})


async def enqueue(node: ClusterNode, **options: Any) -> None:
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", **options)


async def partitions(owner: Owner) -> list[str]:
    rows = await owner.rows(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'timebell.job_log'::regclass ORDER BY c.relname"
    )
    return [row["relname"] for row in rows]


async def make_partition(owner: Owner, day: date) -> str:
    name = f"job_log_{day:%Y%m%d}"
    await owner.connection.execute(
        f"CREATE TABLE timebell.{name} PARTITION OF timebell.job_log "
        f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
    )
    return name


async def today(owner: Owner) -> date:
    day: date = await owner.value("SELECT (now() AT TIME ZONE 'UTC')::date")
    return day


@pytest.mark.parametrize("outcome", [None, Retry("no", "permanent")], ids=["done", "dead"])
@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_a_missing_partition_is_made_and_the_job_settled(
    cluster: Cluster, owner: Owner, mode: Mode, outcome: Outcome | None
) -> None:
    """Failure 14: without today's partition every finish fails. The job is not charged with that."""
    node = await cluster.node([app_of(mode, outcome)])
    await enqueue(node, max_attempts=1)
    for name in await partitions(owner):
        await owner.connection.execute(f"DROP TABLE timebell.{name}")
    await node.run_due()
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()

    assert await owner.jobs() == []
    (end,) = await owner.log()
    assert (end["state"], end["attempt"]) == ("done" if outcome is None else "dead", 1)
    assert len(await partitions(owner)) >= 14


async def test_a_missing_partition_does_not_keep_a_dead_nodes_jobs_from_recovery(
    cluster: Cluster, owner: Owner
) -> None:
    node = await cluster.node([app_of("external")])
    await enqueue(node)
    finish = node.stage.hold("before", "finish_jobs")
    await node.run_until(finish)
    await cluster.kill(node)
    for name in await partitions(owner):
        await owner.connection.execute(f"DROP TABLE timebell.{name}")
    second = await cluster.node([app_of("external")])
    await second.engine.pruner.tick()
    await second.run_due()
    assert [row["state"] for row in await owner.log()] == ["pending", "done"]


async def test_only_partitions_past_the_kept_days_are_dropped(cluster: Cluster, owner: Owner) -> None:
    day = await today(owner)
    node = await cluster.node([app_of("plain")], log_days=30)
    kept = await partitions(owner)
    old = [await make_partition(owner, day - timedelta(days=days)) for days in (400, 45, 31)]
    kept.append(await make_partition(owner, day - timedelta(days=30)))
    assert set(old) < set(await partitions(owner))

    assert await node.engine.pruner.tick() == EVERY_SECONDS
    assert await partitions(owner) == sorted(kept)


async def test_a_reader_of_the_log_makes_the_pruner_give_up_and_holds_up_no_finish(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """Failure 14: a drop that waits behind a reader has every finish wait behind it."""
    node = await cluster.node([app_of("plain")])
    old = await make_partition(owner, await today(owner) - timedelta(days=100))
    await caller.execute("BEGIN")
    await caller.execute("SELECT count(*) FROM timebell.job_log")

    async with asyncio.timeout(5):
        await node.engine.pruner.tick()
        await enqueue(node)
        await node.run_due()
    assert old in await partitions(owner)
    assert len(await owner.log("done")) == 1

    await caller.execute("COMMIT")
    await node.engine.pruner.tick()
    assert old not in await partitions(owner)


async def test_a_finish_goes_on_while_the_pruner_waits_for_a_reader(
    cluster: Cluster, owner: Owner, caller: Any, database_url: TestDatabase
) -> None:
    """The finish queues behind the drop for no longer than the drop is prepared to wait."""
    node = await cluster.node([app_of("plain")])
    await make_partition(owner, await today(owner) - timedelta(days=100))
    await enqueue(node)
    finish = node.stage.hold("before", "finish_jobs")
    await node.run_until(finish)
    await caller.execute("BEGIN")
    await caller.execute("SELECT count(*) FROM timebell.job_log")
    pruning = asyncio.create_task(node.engine.pruner.tick())
    await owner.until_someone_waits()
    await node.passes_until(lambda: True)
    finish.release()
    async with asyncio.timeout(5):
        await pruning
    cluster.clock.move(timedelta(seconds=1))
    await node.go_on(finish)
    await node.run_due()
    assert len(await owner.log("done")) == 1


async def test_a_partition_is_made_beside_a_reader_of_the_log(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """Failure 14: to make a partition in its place would wait for every reader, and have every finish wait."""
    node = await cluster.node([app_of("plain")])
    last = (await partitions(owner))[-1]
    await owner.connection.execute(f"DROP TABLE timebell.{last}")
    await caller.execute("BEGIN")
    await caller.execute("SELECT count(*) FROM timebell.job_log")
    async with asyncio.timeout(2):
        await node.engine.pruner.tick()
    assert (await partitions(owner))[-1] == last
    indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'timebell' AND tablename = $1"
    assert await owner.value(indexes, last) == await owner.value(indexes, "job_log")
