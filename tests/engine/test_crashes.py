"""A node may die at any step of a job's life, in every mode: nothing is lost and nothing is claimed falsely."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Moment, Owner, Stage
from timebell.kernel import App, Handler, Job
from timebell.kernel.models import Mode

EFFECT = "the effect"

PLAIN: list[tuple[Moment, str]] = [
    ("before", "read_due"),
    ("after", "read_due"),
    ("before", EFFECT),
    ("after", EFFECT),
    ("before", "finish_jobs"),
    ("after", "finish_jobs"),
]
EXTERNAL: list[tuple[Moment, str]] = [
    ("before", "read_due"),
    ("after", "read_due"),
    ("before", "start_jobs"),
    ("after", "start_jobs"),
    ("before", EFFECT),
    ("after", EFFECT),
    ("before", "finish_jobs"),
    ("after", "finish_jobs"),
]
TRANSACTIONAL: list[tuple[Moment, str]] = [
    ("before", "read_due"),
    ("after", "read_due"),
    ("before", "lock_job"),
    ("after", "lock_job"),
    ("before", EFFECT),
    ("after", EFFECT),
    ("before", "finish_jobs"),
    ("after", "finish_jobs"),
    ("before", "COMMIT"),
    ("after", "COMMIT"),
]


class Effects:
    """What handlers have done: outside, in a list; inside, in a table that each writes in its own transaction."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.sent: list[UUID] = []

    async def make_table(self) -> None:
        await self._owner.connection.execute(
            "CREATE TABLE timebell.effects (job_id uuid NOT NULL);"
            "GRANT SELECT, INSERT ON timebell.effects TO timebell"
        )

    async def inside_count(self) -> int:
        count: int = await self._owner.value("SELECT count(*) FROM timebell.effects")
        return count

    def app(self, mode: Mode, stage: Stage) -> App:
        async def send(job: Job) -> None:
            await stage.before(EFFECT)
            self.sent.append(job.id)
            await stage.after(EFFECT)

        async def write(job: Job) -> None:
            await stage.before(EFFECT)
            await job.tx.connection.execute("INSERT INTO timebell.effects VALUES ($1)", job.id)
            await stage.after(EFFECT)

        run = write if mode == "transactional" else send
        return App(name="t", handlers={"t.act": Handler(run=run, mode=mode)})


@pytest.fixture
async def effects(owner: Owner) -> Effects:
    made = Effects(owner)
    await made.make_table()
    return made


async def crash_and_take_over(
    cluster: Cluster, effects: Effects, mode: Mode, moment: Moment, name: str
) -> tuple[UUID, ClusterNode]:
    """Enqueue a job, kill its node at the named place, and let a second node take over."""
    stage = Stage()
    first = await cluster.node([effects.app(mode, stage)])
    async with first.bell.transaction() as tx:
        job = await first.bell.enqueue(tx, "t.act")
    hold = (stage if name == EFFECT else first.stage).hold(moment, name)
    await first.run_until(hold)
    await cluster.kill(first)
    second = await cluster.node([effects.app(mode, Stage())])
    await second.run_due()
    return job.id, second


async def the_only_end(owner: Owner) -> dict[str, Any]:
    assert await owner.jobs() == []
    (end,) = [row for row in await owner.log() if row["state"] != "pending"]
    return end


async def uncertain_count(owner: Owner) -> int:
    return len([row for row in await owner.log("pending") if row["reason"] == "uncertain"])


@pytest.mark.req("U-1")
@pytest.mark.parametrize(("moment", "name"), TRANSACTIONAL)
async def test_an_effect_in_the_jobs_own_transaction_happens_exactly_once(
    cluster: Cluster, owner: Owner, effects: Effects, moment: Moment, name: str
) -> None:
    id, _ = await crash_and_take_over(cluster, effects, "transactional", moment, name)

    end = await the_only_end(owner)
    assert (end["id"], end["state"]) == (id, "done")
    assert await effects.inside_count() == 1


@pytest.mark.req("U-1")
@pytest.mark.parametrize(("moment", "name"), EXTERNAL)
async def test_an_external_effect_happens_at_least_once_and_a_doubt_is_recorded(
    cluster: Cluster, owner: Owner, effects: Effects, moment: Moment, name: str
) -> None:
    id, _ = await crash_and_take_over(cluster, effects, "external", moment, name)

    end = await the_only_end(owner)
    assert (end["id"], end["state"]) == (id, "done")
    was_marked = (moment, name) in EXTERNAL[EXTERNAL.index(("after", "start_jobs")) : -1]
    assert await uncertain_count(owner) == (1 if was_marked else 0)
    was_sent_twice = (moment, name) in [("after", EFFECT), ("before", "finish_jobs")]
    assert effects.sent == [id] * (2 if was_sent_twice else 1)


@pytest.mark.req("U-1")
@pytest.mark.parametrize(("moment", "name"), PLAIN)
async def test_a_plain_job_is_run_again_unless_its_finish_was_written(
    cluster: Cluster, owner: Owner, effects: Effects, moment: Moment, name: str
) -> None:
    id, _ = await crash_and_take_over(cluster, effects, "plain", moment, name)

    end = await the_only_end(owner)
    assert (end["id"], end["state"]) == (id, "done")
    assert await uncertain_count(owner) == 0
    was_run_twice = (moment, name) in [("after", EFFECT), ("before", "finish_jobs")]
    assert effects.sent == [id] * (2 if was_run_twice else 1)
