"""Ordered steps of one subject: a later one starts only when every earlier one has come to an end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App, Dead, Handler, Job, Outcome, Retry, Step
from timebell.kernel.models import Mode

MINUTE = timedelta(minutes=1)
MODES: list[Mode] = ["plain", "external", "transactional"]


class Ladder:
    """Two ordered steps, a minute apart; the test says what comes of the first."""

    def __init__(self, mode: Mode, answer: Callable[[Job], Outcome | None]) -> None:
        self.ran: list[tuple[str | None, int]] = []
        self._answer = answer
        self.app = App(name="t", handlers={"t.act": Handler(run=self._act, mode=mode)})

    async def _act(self, job: Job) -> Outcome | None:
        self.ran.append((job.step, job.attempt))
        return self._answer(job) if job.step == "first" else None

    async def set(self, node: ClusterNode, *, is_ordered: bool = True) -> None:
        steps = [
            Step(key=key, kind="t.act", offset=number * MINUTE, late="run", ordered=is_ordered)
            for number, key in enumerate(("first", "second"))
        ]
        async with node.bell.transaction() as tx:
            await node.bell.set_agenda(tx, subject="s:1", anchor=node.engine.timekeeper.now(), steps=steps)


async def run_for(cluster: Cluster, node: ClusterNode, minutes: int) -> None:
    for _ in range(minutes * 4):
        await node.run_due()
        cluster.clock.move(MINUTE / 4)


@pytest.mark.parametrize("mode", MODES)
async def test_a_retry_of_the_first_step_holds_the_second_back(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    """While the first waits for its next attempt, the second would overtake it."""
    ladder = Ladder(mode, lambda job: None if job.attempt == 2 else Retry("busy", after=5 * MINUTE))
    node = await cluster.node([ladder.app])
    await ladder.set(node)
    await run_for(cluster, node, 4)
    assert ladder.ran == [("first", 1)]
    await run_for(cluster, node, 3)
    assert ladder.ran == [("first", 1), ("first", 2), ("second", 1)]
    assert await owner.jobs() == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_first_step_that_died_no_longer_holds_the_second_back(cluster: Cluster, mode: Mode) -> None:
    ladder = Ladder(mode, lambda job: Dead("never"))
    node = await cluster.node([ladder.app])
    await ladder.set(node)
    await run_for(cluster, node, 2)
    assert ladder.ran == [("first", 1), ("second", 1)]


async def test_steps_without_an_order_do_not_wait_for_each_other(cluster: Cluster) -> None:
    ladder = Ladder("external", lambda job: Retry("busy", after=5 * MINUTE))
    node = await cluster.node([ladder.app])
    await ladder.set(node, is_ordered=False)
    await run_for(cluster, node, 2)
    assert ladder.ran == [("first", 1), ("second", 1)]


@pytest.mark.parametrize("mode", MODES)
async def test_the_second_step_starts_as_soon_as_the_first_has_ended(cluster: Cluster, mode: Mode) -> None:
    """It is not left to the next sweep: the end of the first step is what wakes it."""
    ladder = Ladder(mode, lambda job: None if job.attempt == 2 else Retry("busy", after=2 * MINUTE))
    node = await cluster.node([ladder.app])
    await ladder.set(node)
    await node.turn()
    for _ in range(8):
        cluster.clock.move(MINUTE / 4)
        await node.engine.beat()
        await node.turn()
    assert ladder.ran == [("first", 1), ("first", 2), ("second", 1)]


async def test_the_first_step_of_a_dead_node_still_holds_the_second_back(
    cluster: Cluster, owner: Owner
) -> None:
    """A crash in the first step is no end of it."""
    ladder = Ladder("external", lambda job: None)
    first = await cluster.node([ladder.app])
    await ladder.set(first)
    finish = first.stage.hold("before", "finish_jobs")
    await first.run_until(finish)
    await cluster.kill(first)
    cluster.clock.move(2 * MINUTE)
    second = await cluster.node([ladder.app])
    start = second.stage.hold("before", "start_jobs")
    await second.run_until(start)
    assert ladder.ran == [("first", 1)]
    await second.go_on(start)
    await run_for(cluster, second, 1)
    assert [step for step, _ in ladder.ran] == ["first", "first", "second"]
    assert await owner.jobs() == []
