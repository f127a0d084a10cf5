"""A connection may break around any statement while the node lives on: nothing is lost and nothing gets stuck."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.support import Cluster, Moment, Owner
from timebell.kernel import App, Handler, Job
from timebell.kernel.models import Mode

PLACES: list[tuple[Mode, Moment, str]] = [
    ("plain", "before", "read_due"),
    ("plain", "after", "read_due"),
    ("plain", "before", "finish_jobs"),
    ("plain", "after", "finish_jobs"),
    ("external", "before", "start_jobs"),
    ("external", "after", "start_jobs"),
    ("external", "before", "finish_jobs"),
    ("external", "after", "finish_jobs"),
    ("transactional", "before", "BEGIN"),
    ("transactional", "before", "lock_job"),
    ("transactional", "after", "lock_job"),
    ("transactional", "before", "finish_jobs"),
    ("transactional", "after", "finish_jobs"),
    ("transactional", "before", "COMMIT"),
    ("transactional", "after", "COMMIT"),
]


@pytest.mark.req("U-1")
@pytest.mark.parametrize(("mode", "moment", "name"), PLACES)
async def test_a_job_is_done_although_a_connection_broke(
    cluster: Cluster, owner: Owner, mode: Mode, moment: Moment, name: str
) -> None:
    """After a statement was carried out, only its reply is lost: the row tells what became of it."""
    await owner.connection.execute(
        "CREATE TABLE timebell.effects (job_id uuid NOT NULL); GRANT INSERT ON timebell.effects TO timebell"
    )
    ran: list[UUID] = []

    async def act(job: Job) -> None:
        ran.append(job.id)
        if mode == "transactional":
            await job.tx.connection.execute("INSERT INTO timebell.effects VALUES ($1)", job.id)

    node = await cluster.node([App(name="t", handlers={"t.act": Handler(run=act, mode=mode)})])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act", max_attempts=1)
    node.stage.fail(moment, name, ConnectionResetError("the line is dead"))
    for _ in range(6):
        await node.run_due()
        cluster.clock.move(timedelta(seconds=20))

    assert await owner.jobs() == []
    (end,) = [row for row in await owner.log() if row["state"] != "pending"]
    assert end["state"] == "done"
    assert await owner.value("SELECT count(*) FROM timebell.effects") == (mode == "transactional")
    if mode != "transactional":
        assert len(ran) == 1
    assert node.engine.worker.is_idle()
    assert node.engine.worker.ledger._entries == {}


@pytest.mark.parametrize("name", ["read_clock", "renew_node", "read_nodes", "read_slots", "read_pauses"])
async def test_a_beat_or_a_look_around_that_failed_is_made_again(
    cluster: Cluster, owner: Owner, name: str
) -> None:
    ran: list[UUID] = []

    async def act(job: Job) -> None:
        ran.append(job.id)

    node = await cluster.node([App(name="t", handlers={"t.act": act})])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.act")
    node.stage.fail("before", name, ConnectionResetError("the line is dead"))
    with pytest.raises(ConnectionResetError):
        await node.run_due()
    await node.run_due()
    assert len(ran) == 1
    assert await owner.jobs() == []
