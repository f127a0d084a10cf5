"""The ledger of a node's jobs is empty when there is nothing left to do, whatever became of them on the way."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App, Cancel, Dead, Enqueue, Handler, Job, Outcome, Queue, Retry, Snooze, Step
from timebell.kernel.models import Mode
from timebell.rules.backoff import RetryPolicy

SECOND = timedelta(seconds=1)
OUTCOMES: dict[str, Outcome] = {
    "later": Snooze(delay=SECOND),
    "again": Retry("not yet"),
    "given up": Dead("no"),
    "called off": Cancel("nobody wants it"),
}


class Various:
    """Jobs of one mode that come to every end there is; what is tried again is done the second time."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.begun: Counter[str] = Counter()
        brief = RetryPolicy.of_delays([1], max_attempts=3)
        self.app = App(
            name="t",
            handlers={"t.act": Handler(run=self._act, mode=mode, retry=brief)},
            queues=[Queue(name="paused"), Queue(name="limited", concurrency=2)],
        )

    async def _act(self, job: Job) -> Outcome | None:
        name = str(job.payload.get("outcome"))
        self.begun[name] += 1
        if job.payload.get("raises") and job.attempt == 1:
            raise ValueError("a bug")
        is_first = job.attempt == 1 and not job.payload.get("is_first_done")
        return OUTCOMES.get(name) if is_first and self.begun[name] == 1 else None

    async def owe(self, node: ClusterNode) -> None:
        async with node.bell.transaction() as tx:
            many = [Enqueue(kind="t.act", payload={"outcome": name}) for name in OUTCOMES]
            many += [Enqueue(kind="t.act", payload={"raises": True})]
            many += [Enqueue(kind="t.act", expires_at=node.engine.timekeeper.now() + SECOND / 2)]
            many += [Enqueue(kind="t.act", queue=queue) for queue in ("paused", "limited") for _ in range(4)]
            await node.bell.enqueue_many(tx, many)
            steps = [
                Step(key=key, kind="t.act", offset=timedelta(0), ordered=True)
                for key in ("one", "two", "three")
            ]
            await node.bell.set_agenda(tx, subject="s", anchor=node.engine.timekeeper.now(), steps=steps)


async def drain(cluster: Cluster, node: ClusterNode) -> None:
    for _ in range(12):
        await node.run_due()
        cluster.clock.move(2 * SECOND)


def left(node: ClusterNode) -> Any:
    ledger = node.engine.worker.ledger
    return ledger.by_stage(), ledger._entries, ledger._retired, len(ledger)


NOTHING: Any = ({}, {}, [], 0)
LOST = [
    None,
    ("after", "start_jobs"),
    ("after", "finish_jobs"),
    ("before", "retry_jobs"),
    ("after", "read_due"),
    ("after", "park_jobs"),
]


@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_nothing_stays_in_the_ledger_of_a_node_that_has_nothing_to_do(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    various = Various(mode)
    node = await cluster.node([various.app])
    async with node.bell.transaction() as tx:
        await node.bell.pause(tx, "paused", reason="for now")
    for lost in LOST:
        if lost is not None:
            node.stage.fail(*lost, ConnectionResetError("the line is dead"))  # type: ignore[arg-type]
        await various.owe(node)
        await drain(cluster, node)
        assert left(node) == NOTHING
    assert {row["queue"] for row in await owner.jobs()} == {"paused"}
    async with node.bell.transaction() as tx:
        await node.bell.resume(tx, "paused")
    await drain(cluster, node)
    assert await owner.jobs() == []
    assert left(node) == NOTHING


async def test_slots_that_move_take_what_waits_with_them_and_leave_nothing(cluster: Cluster) -> None:
    various = Various("external")
    first = await cluster.node([various.app])
    async with first.bell.transaction() as tx:
        await first.bell.enqueue_many(tx, [Enqueue(kind="t.act", delay=SECOND / 2) for _ in range(64)])
    await first.turn()
    assert first.engine.worker.ledger.by_stage() == {"waiting": 64}
    second = await cluster.node([various.app])
    for node in (first, second, first, second):
        await node.engine.beat()
    assert len(second.engine.node.owned) == 128
    waiting = first.engine.worker.ledger.by_stage()["waiting"]
    assert 0 < waiting < 64
    cluster.clock.move(SECOND)
    for _ in range(3):
        for node in (first, second):
            await node.run_due()
    assert various.begun.total() == 64
    assert [left(node) for node in (first, second)] == [NOTHING, NOTHING]
