"""Jobs whose work another does are ended while they wait, and only then."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, Owner
from timebell.errors import InvalidInput
from timebell.kernel import App, Handler, Job, Outcome, Snooze, Step
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

HOUR = timedelta(hours=1)
MARK = {"waits_in": "hall"}


async def wait(job: Job) -> Outcome:
    return Snooze(delay=HOUR, cursor=MARK)


APP = App(name="t", handlers={"t.wait": Handler(run=wait, mode="external")})


async def waiting(h: Harness, **options: Any) -> UUID:
    async with h.bell.transaction() as tx:
        id = (await h.bell.enqueue(tx, "t.wait", **options)).id
    await h.run_due()
    return id


async def test_what_waits_is_done_without_another_run(database_url: TestDatabase, owner: Owner) -> None:
    async with harness(database_url.url, [APP]) as h:
        id = await waiting(h)
        async with h.bell.transaction() as tx:
            assert await h.bell.finish(tx, [id, UUID(int=1)], cursor=MARK, reason="seen to") == [id]
            assert await h.bell.finish(tx, [id]) == []
        await h.advance(2 * HOUR)
    assert [(row["state"], row["reason"]) for row in await owner.log()] == [
        ("pending", "snoozed"),
        ("done", "seen to"),
    ]
    assert await owner.jobs() == []


async def test_what_does_not_wait_there_is_left_alone(database_url: TestDatabase, owner: Owner) -> None:
    async with harness(database_url.url, [APP]) as h:
        id = await waiting(h)
        async with h.bell.transaction(tenant="b") as tx:
            assert await h.bell.finish(tx, [id]) == [], "another tenant's"
        async with h.bell.transaction() as tx:
            assert await h.bell.finish(tx, [id], cursor={"waits_in": "yard"}) == []
            new = (await h.bell.enqueue(tx, "t.wait", delay=HOUR)).id
            assert await h.bell.finish(tx, [new], cursor=MARK) == [], "it never ran"
            assert await h.bell.finish(tx, [new]) == [new]
            with pytest.raises(InvalidInput, match="ids"):
                await h.bell.finish(tx, [id] * 10_001)
    assert [row["id"] for row in await owner.jobs()] == [id]


async def test_a_step_is_not_owed_again_and_one_that_was_moved_is_not_taken(
    database_url: TestDatabase, owner: Owner
) -> None:
    async with harness(database_url.url, [APP]) as h:
        now = h.clock.now
        steps = [Step(key="one", kind="t.wait", at=now), Step(key="two", kind="t.wait", at=now)]
        async with h.bell.transaction() as tx:
            diff = await h.bell.set_agenda(tx, subject="meeting:1", steps=steps)
        one, two = (step.job_id for step in diff.added)
        assert one is not None
        assert two is not None
        await h.run_due()
        moved = [steps[0], Step(key="two", kind="t.wait", at=now + HOUR)]
        async with h.bell.transaction() as tx:
            await h.bell.set_agenda(tx, subject="meeting:1", steps=moved)
            assert await h.bell.finish(tx, [one, two], cursor=MARK) == [one]
        async with h.bell.transaction() as tx:
            diff = await h.bell.set_agenda(tx, subject="meeting:1", steps=moved)
        assert [step.key for step in diff.done] == ["one"]
        assert [(step.key, step.job_id) for step in diff.kept] == [("two", two)]


async def test_a_key_that_outlives_its_job_stands_for_it_still(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [APP]) as h:
        kept = await waiting(h, key="kept", key_lifetime=24 * HOUR)
        freed = await waiting(h, key="freed")
        async with h.bell.transaction() as tx:
            assert await h.bell.finish(tx, [kept, freed]) == [kept, freed]
            again = await h.bell.enqueue(tx, "t.wait", key="kept", key_lifetime=24 * HOUR)
            assert (again.id, again.created) == (kept, False)
            assert (await h.bell.enqueue(tx, "t.wait", key="freed")).created


async def test_nobody_waits_for_what_another_holds(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [APP]) as h:
        id = await waiting(h)
        async with h.bell.transaction() as holder:
            await holder.session.execute("SELECT FROM timebell.jobs FOR UPDATE")
            async with asyncio.timeout(1), h.bell.transaction() as tx:
                assert await h.bell.finish(tx, [id]) == []
        async with h.bell.transaction() as tx:
            assert await h.bell.finish(tx, [id]) == [id]


async def test_what_runs_is_left_to_run(cluster: Cluster, owner: Owner) -> None:
    node = await cluster.node([APP])
    async with node.bell.transaction() as tx:
        id = (await node.bell.enqueue(tx, "t.wait")).id
    hold = node.stage.hold("before", "retry_jobs")
    running = asyncio.create_task(node.run_due())
    await hold.reached.wait()
    async with node.bell.transaction() as tx:
        assert await node.bell.finish(tx, [id]) == []
    hold.release()
    await running
    (job,) = await owner.jobs()
    assert (job["id"], job["cancel_requested_at"]) == (id, None)
