"""A node that stood still between taking a job and beginning it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, Owner
from timebell.kernel import App, Handler, Job


@pytest.mark.req("U-2")
async def test_what_was_marked_before_the_lease_ran_out_is_not_begun_after(
    cluster: Cluster, owner: Owner
) -> None:
    """To the others the node is dead: they have taken the job back and done it."""
    ran: list[UUID] = []

    async def send(job: Job) -> None:
        ran.append(job.id)

    app = App(name="t", handlers={"t.send": Handler(run=send, mode="external")})
    old = await cluster.node([app])
    async with old.bell.transaction() as tx:
        await old.bell.enqueue(tx, "t.send")
    marked = old.stage.hold("after", "start_jobs")
    await old.run_until(marked)
    cluster.clock.move(timedelta(minutes=2))
    await owner.expire_lease(old.incarnation)
    new = await cluster.node([app])
    await new.run_due()
    assert len(ran) == 1

    await old.go_on(marked)
    assert len(ran) == 1
    assert await owner.jobs() == []


@pytest.mark.req("U-2")
async def test_a_transactional_job_whose_row_was_let_go_of_is_not_begun_after_its_cancel(
    cluster: Cluster, owner: Owner, caller: Any
) -> None:
    """The server ends the transaction of a node that stands still, and who cancels the job then is told the truth."""
    ran: list[UUID] = []

    async def write(job: Job) -> None:
        ran.append(job.id)

    app = App(name="t", handlers={"t.write": Handler(run=write, mode="transactional")})
    node = await cluster.node([app])
    async with node.bell.transaction() as tx:
        id = (await node.bell.enqueue(tx, "t.write")).id
    locked = node.stage.hold("after", "lock_job")
    await node.run_until(locked)
    await caller.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state = 'idle in transaction'"
    )
    async with node.bell.transaction() as tx:
        (cancelled,) = await node.bell.cancel(tx, id=id)
    assert cancelled.answer == "cancelled"

    await node.go_on(locked)
    assert ran == []
    assert await owner.jobs() == []
