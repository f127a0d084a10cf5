"""A node that stood still between the mark of a start and the start."""

from __future__ import annotations

from datetime import timedelta
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
