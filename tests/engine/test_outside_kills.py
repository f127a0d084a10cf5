"""Nodes that are killed from outside, again and again: whoever happened to run there is not taken for the cause."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import get_args
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App, Enqueue, Handler, Job
from timebell.kernel.models import Mode
from timebell.rules.suspicion import ALONE_FROM, CRASHES_MAX, STARTS_MAX

MODES: tuple[Mode, ...] = get_args(Mode)
LEASE = timedelta(seconds=3)
STEP = timedelta(seconds=1)
NODES = 3


class Storm:
    """Three nodes, one of which is killed every four or five seconds and started again; jobs of one to nine seconds.

    A killer among them ends its own node. Seconds are those of the moved clock.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._nodes: list[ClusterNode] = []
        self._unnoticed: list[tuple[datetime, int]] = []
        self._running: list[tuple[datetime, str, asyncio.Event]] = []
        self._waiting: Counter[str] = Counter()
        self._fatal: set[str] = set()
        self._started_count = 0
        self._subject_count = 0
        self.death_count = 0

    async def begin(self) -> None:
        for _ in range(NODES):
            await self._start()

    async def _start(self) -> None:
        self._started_count += 1
        name = f"n{self._started_count}"

        async def run(job: Job) -> None:
            over = asyncio.Event()
            until = self._cluster.clock.now + timedelta(seconds=job.payload["seconds"])
            self._running.append((until, name, over))
            self._waiting[name] += 1
            await over.wait()
            if job.payload.get("is_killer"):
                self._fatal.add(name)
                self._waiting[name] += 1
                await asyncio.Event().wait()

        app = App(name="t", handlers={f"t.{mode}": Handler(run=run, mode=mode) for mode in MODES})
        self._nodes.append(await self._cluster.node([app], node_name=name))

    async def enqueue(self, count: int) -> None:
        kinds = [f"t.{MODES[number % len(MODES)]}" for number in range(count)]
        bell = self._nodes[-1].bell
        async with bell.transaction() as tx:
            await bell.enqueue_many(
                tx,
                [
                    Enqueue(
                        kind=kind, subject=self._subject(), payload={"seconds": self._chance.randint(1, 9)}
                    )
                    for kind in kinds
                ],
            )

    def _subject(self) -> str:
        """One of its own. It decides in whose slot the job is; an id, which has the time in it, would not be the same
        the next time."""
        self._subject_count += 1
        return f"s{self._subject_count}"

    async def enqueue_killer(self, mode: Mode, *, seconds: int) -> UUID:
        bell = self._nodes[-1].bell
        async with bell.transaction() as tx:
            payload = {"seconds": seconds, "is_killer": True}
            return (await bell.enqueue(tx, f"t.{mode}", payload, subject=self._subject())).id

    async def kill(self, node: ClusterNode) -> None:
        """Its lease runs out later, and only then do the others know. A service manager starts it again at once."""
        self._nodes.remove(node)
        self._unnoticed.append((self._cluster.clock.now + LEASE, node.incarnation))
        await self._cluster.kill_only(node)
        self.death_count += 1
        await self._start()

    async def rage(self, kills: int, *, arrivals: int) -> None:
        for _ in range(kills):
            await self.pass_by(timedelta(seconds=self._chance.randint(4, 5)))
            await self.enqueue(arrivals)
            await self.kill(self._chance.choice(self._nodes))

    async def pass_by(self, time: timedelta) -> None:
        until = self._cluster.clock.now + time
        while self._cluster.clock.now < until:
            self._cluster.clock.move(STEP)
            await self._second()

    async def _second(self) -> None:
        now = self._cluster.clock.now
        for at, incarnation in [each for each in self._unnoticed if each[0] <= now]:
            self._unnoticed.remove((at, incarnation))
            await self._cluster.owner.expire_lease(incarnation)
        for at, name, over in [each for each in self._running if each[0] <= now]:
            self._running.remove((at, name, over))
            self._waiting[name] -= 1
            over.set()
        for node in list(self._nodes):
            await node.engine.beat()
            for _ in range(4):
                await node.engine.worker.tick()
                await node.passes_until(partial(self._is_at_rest, node))
        for node in [each for each in self._nodes if each.engine.node.name in self._fatal]:
            await self.kill(node)

    def _is_at_rest(self, node: ClusterNode) -> bool:
        """Whether nothing goes on but handlers that wait for their time. How far a node comes in a second of the moved
        clock is then the same on every machine, however busy, and so is who is where when a node is killed."""
        worker = node.engine.worker
        going_on = worker.background.going_on or len(worker._settler) or len(worker._marks)
        return not going_on and len(worker.attempts) == self._waiting[node.engine.node.name]

    async def calm_down(self, owner: Owner) -> None:
        for _ in range(600):
            if not await owner.jobs():
                return
            await self.pass_by(STEP)
        raise AssertionError("not done after ten minutes of peace")


async def dead_ids(owner: Owner) -> set[UUID]:
    return {row["id"] for row in await owner.rows("SELECT id FROM timebell.dead_jobs")}


@pytest.mark.parametrize(
    ("kills", "seed"),
    [(12, 1), *(pytest.param(60, seed, marks=pytest.mark.slow) for seed in (2, 3))],
)
async def test_nodes_killed_every_few_seconds_bury_nobody(
    cluster: Cluster, owner: Owner, kills: int, seed: int
) -> None:
    storm = Storm(cluster, seed)
    await storm.begin()
    await storm.enqueue(36)
    await storm.rage(kills, arrivals=3)
    assert await dead_ids(owner) == set()
    await storm.calm_down(owner)

    assert await dead_ids(owner) == set()
    assert len(await owner.log("done")) == 36 + 3 * kills


@pytest.mark.parametrize(
    "mode", ["external", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("plain", "transactional"))]
)
async def test_a_killer_is_found_out_among_innocents_and_dies_alone(
    cluster: Cluster, owner: Owner, mode: Mode
) -> None:
    """Nobody else kills anything. It has company when it is first met, then little, then none: three times."""
    storm = Storm(cluster, seed=1)
    await storm.begin()
    await storm.enqueue(24)
    killer = await storm.enqueue_killer(mode, seconds=2)
    await storm.calm_down(owner)

    assert await dead_ids(owner) == {killer}
    assert len(await owner.log("done")) == 24
    # A start that is not marked leaves no trace, so the first of those is not known of.
    assert storm.death_count == (5 if mode == "external" else 6)


@pytest.mark.slow
async def test_a_killer_does_not_hide_among_nodes_that_are_killed_from_outside(
    cluster: Cluster, owner: Owner
) -> None:
    storm = Storm(cluster, seed=4)
    await storm.begin()
    killer = await storm.enqueue_killer("external", seconds=1)
    for _ in range(60):
        await storm.rage(1, arrivals=2)
        if killer in await dead_ids(owner):
            break

    assert await dead_ids(owner) == {killer}
    (dead,) = await owner.rows("SELECT * FROM timebell.dead_jobs")
    assert CRASHES_MAX <= dead["attempt"] <= STARTS_MAX + 1


class LastLife:
    """A job that needs one more crash to be dead, and runs alone on a node."""

    def __init__(self, cluster: Cluster, owner: Owner) -> None:
        self._cluster = cluster
        self._owner = owner
        self.ran = 0
        self.is_over = asyncio.Event()

    async def _run(self, job: Job) -> None:
        self.ran += 1
        await self.is_over.wait()

    async def node(self) -> ClusterNode:
        return await self._cluster.node(
            [App(name="t", handlers={"t.act": Handler(run=self._run, mode="external")})]
        )

    async def begin_on(self, node: ClusterNode) -> None:
        async with node.bell.transaction() as tx:
            await node.bell.enqueue(tx, "t.act")
        await node.passes_until(lambda: self.ran == 1)
        await self._owner.rows("UPDATE timebell.jobs SET crash_count = $1", CRASHES_MAX - 1)
        for incarnation in range(10_001, 10_001 + CRASHES_MAX - ALONE_FROM - 1):
            await self._owner.rows(
                "WITH death AS (INSERT INTO timebell.node_deaths VALUES ($1, $2)) INSERT INTO timebell.suspects "
                "SELECT $1, id, true FROM timebell.jobs",
                incarnation,
                self._cluster.clock.now,
            )

    async def end_on(self, node: ClusterNode) -> str:
        self.is_over.set()
        await node.run_due()
        assert await self._owner.jobs() == []
        (end,) = await self._owner.log("done", "dead")
        state: str = end["state"]
        return state


@pytest.fixture
def last_life(cluster: Cluster, owner: Owner) -> LastLife:
    return LastLife(cluster, owner)


async def test_the_last_crash_of_a_job_that_ran_alone_buries_it(
    cluster: Cluster, last_life: LastLife
) -> None:
    first = await last_life.node()
    await last_life.begin_on(first)
    await cluster.kill(first)
    assert await last_life.end_on(await last_life.node()) == "dead"


@pytest.mark.parametrize(("age", "state"), [(timedelta(minutes=9), "done"), (timedelta(minutes=11), "dead")])
async def test_a_node_that_died_lately_of_nothing_known_speaks_for_whoever_was_alone(
    cluster: Cluster, owner: Owner, last_life: LastLife, age: timedelta, state: str
) -> None:
    first = await last_life.node()
    await last_life.begin_on(first)
    died_at = cluster.clock.now - age
    await owner.rows("INSERT INTO timebell.node_deaths (incarnation, died_at) VALUES (20001, $1)", died_at)
    await cluster.kill(first)
    assert await last_life.end_on(await last_life.node()) == state


@pytest.mark.parametrize(("starts", "state"), [(9, "done"), (10, "dead")])
async def test_a_life_whose_process_goes_on_counts_against_nobody_but_who_never_ends(
    cluster: Cluster, owner: Owner, last_life: LastLife, starts: int, state: str
) -> None:
    """A handler that stops the loop for longer than a lease does so each time, and nobody accepts what it did."""
    first = await last_life.node()
    await last_life.begin_on(first)
    await owner.rows("UPDATE timebell.jobs SET attempt = $1", starts)
    second = await last_life.node()
    lost = first.incarnation
    await cluster.kill(first)
    await owner.rows(
        "UPDATE timebell.nodes SET survived = ARRAY[$1::bigint] WHERE incarnation = $2",
        lost,
        second.incarnation,
    )
    assert await last_life.end_on(second) == state


async def test_who_lost_its_own_lease_says_of_nobody_that_it_was_killed(
    cluster: Cluster, owner: Owner, last_life: LastLife
) -> None:
    """The database was away for longer than a lease: the first that comes back takes the others for dead."""
    first = await last_life.node()
    await last_life.begin_on(first)
    second = await last_life.node()
    for node in (first, second):
        await owner.expire_lease(node.incarnation)
    await cluster.kill_only(first)
    await second.engine.beat()
    assert await last_life.end_on(second) == "done"


async def test_what_ends_by_itself_is_acquitted_of_every_death(
    cluster: Cluster, owner: Owner, last_life: LastLife
) -> None:
    first = await last_life.node()
    await last_life.begin_on(first)
    await owner.rows(
        "INSERT INTO timebell.node_deaths (incarnation, died_at) VALUES (20001, $1)", cluster.clock.now
    )
    cluster.clock.move(timedelta(seconds=5))
    await cluster.kill(first)
    assert await owner.value("SELECT count(*) FROM timebell.suspects") == 2
    assert await last_life.end_on(await last_life.node()) == "done"
    assert await owner.value("SELECT count(*) FROM timebell.suspects") == 0


async def test_deaths_are_forgotten_after_a_day_with_their_suspects(
    cluster: Cluster, owner: Owner, last_life: LastLife
) -> None:
    first = await last_life.node()
    await last_life.begin_on(first)
    cluster.clock.move(timedelta(days=1, seconds=1))
    await cluster.kill(first)
    second = await last_life.node()
    assert [row["incarnation"] for row in await owner.rows("SELECT * FROM timebell.node_deaths")] == [1]
    assert await owner.value("SELECT count(*) FROM timebell.suspects WHERE incarnation <> 1") == 0
    last_life.is_over.set()
    await second.run_due()
