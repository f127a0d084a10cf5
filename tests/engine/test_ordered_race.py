"""An ordered step whose refusal is on its way while the step it was refused for comes to an end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.engine.support import Cluster, ClusterNode
from timebell.kernel import App, Handler, Job, Step
from timebell.kernel.models import Mode

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(("mode", "statement"), [("external", "start_jobs"), ("transactional", "lock_job")])
async def test_a_step_does_not_miss_the_end_of_the_one_before(
    cluster: Cluster, mode: Mode, statement: str
) -> None:
    ran: list[str | None] = []
    nodes: list[ClusterNode] = []

    async def act(job: Job) -> None:
        ran.append(job.step)
        await nodes[0].stage.before(f"effect of {job.step}")

    app = App(
        name="t",
        handlers={
            "t.first": Handler(run=act, mode="external"),
            "t.second": Handler(run=act, mode=mode),
        },
    )
    node = await cluster.node([app])
    nodes.append(node)
    async with node.bell.transaction() as tx:
        steps = [
            Step(key="first", kind="t.first", offset=timedelta(0), ordered=True),
            Step(key="second", kind="t.second", offset=MINUTE, ordered=True),
        ]
        await node.bell.set_agenda(tx, subject="s:1", anchor=cluster.clock.now, steps=steps)

    first = node.stage.hold("before", "effect of first")
    await node.run_until(first)
    refusal = node.stage.hold("after", statement)
    cluster.clock.move(MINUTE)
    await node.engine.beat()
    async with asyncio.timeout(20):
        await refusal.reached.wait()
    first.release()
    await node.passes_until(lambda: node.engine.worker.counters.done == 1)
    await node.go_on(refusal)
    assert ran == ["first", "second"]
