"""A step that ran as it stopped being owed, and did not come to an end: it is not done, and the statement decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner, Stage
from timebell.kernel import AgendaDiff, App, Handler, Job, Outcome, Retry, Step

MINUTE = timedelta(minutes=1)


class Bench:
    """A step that hangs in its first run and fails or is killed there, and is stated again afterwards."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.stage = Stage()
        self.ran: list[int] = []
        self.due_at = cluster.clock.now + MINUTE
        self.app = App(name="t", handlers={"t.act": Handler(run=self._run, mode="external")})

    async def _run(self, job: Job) -> Outcome | None:
        self.ran.append(job.attempt)
        await self.stage.before("the effect")
        return Retry("no luck") if len(self.ran) == 1 else None

    async def state(self, node: ClusterNode, *, minutes: int = 0, **options: Any) -> AgendaDiff:
        step = Step(key="remind", kind="t.act", at=self.due_at + minutes * MINUTE, **options)
        async with node.bell.transaction() as tx:
            return await node.bell.set_agenda(tx, subject="meeting:1", steps=[step])

    async def cut_off(self, *, by_kill: bool, **options: Any) -> ClusterNode:
        """Begin the step, clear its agenda, and cut the attempt off. Answers with a node that goes on."""
        node = await self.cluster.node([self.app])
        await self.state(node, **options)
        self.cluster.clock.move_to(self.due_at)
        effect = self.stage.hold("before", "the effect")
        await node.run_until(effect)
        async with node.bell.transaction() as tx:
            cleared = await node.bell.clear_agenda(tx, subject="meeting:1")
        assert [change.key for change in cleared.too_late] == ["remind"]
        if not by_kill:
            await node.go_on(effect)
            return node
        await self.cluster.kill(node)
        other = await self.cluster.node([self.app])
        await other.run_due()
        return other


@pytest.mark.req("U-3")
@pytest.mark.parametrize("by_kill", [True, False])
@pytest.mark.parametrize(
    ("minutes", "options"), [(0, {"late": "run"}), (0, {"late": "run", "once": True}), (5, {"once": True})]
)
async def test_what_was_cut_off_is_not_done_and_runs_when_it_is_stated_again(
    cluster: Cluster, owner: Owner, by_kill: bool, minutes: int, options: dict[str, Any]
) -> None:
    bench = Bench(cluster)
    node = await bench.cut_off(by_kill=by_kill, **options)
    assert await owner.jobs() == []
    diff = await bench.state(node, minutes=minutes, **options)
    assert [(change.key, change.reason) for change in diff.added] == [("remind", "cut_off")]
    assert (diff.done, diff.cut_off) == ((), ())

    cluster.clock.move_to(bench.due_at + minutes * MINUTE)
    await node.run_due()
    assert len(bench.ran) == 2
    again = await bench.state(node, minutes=minutes, **options)
    assert [(change.key, change.reason) for change in again.done] == [("remind", "done")]


@pytest.mark.req("U-3")
async def test_a_step_may_say_that_it_is_left_where_nobody_knows_what_it_did(
    cluster: Cluster, owner: Owner
) -> None:
    bench = Bench(cluster)
    node = await bench.cut_off(by_kill=True)
    for minutes, once in ((0, False), (0, True), (5, True)):
        diff = await bench.state(node, minutes=minutes, once=once, late="run", cut_off="leave")
        assert [change.key for change in diff.cut_off] == ["remind"]
    assert await owner.jobs() == []
