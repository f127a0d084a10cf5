"""What waits for a later try can be brought forward, and never to before it is due."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.support import Cluster, Owner
from timebell.errors import InvalidInput
from timebell.kernel import App, Handler, Job, Outcome, Snooze, Step
from timebell.testing import harness
from timebell.testing.database import TestDatabase

HOUR = timedelta(hours=1)


class Patient:
    """A handler that wants to be asked again in an hour, until it is told that all is well."""

    def __init__(self) -> None:
        self.is_ready = False
        self.runs: list[UUID] = []

    async def __call__(self, job: Job) -> Outcome | None:
        self.runs.append(job.id)
        return None if self.is_ready else Snooze(delay=HOUR)

    def app(self) -> App:
        return App(name="t", handlers={"t.wait": Handler(run=self, mode="external")})


async def test_a_snoozed_job_is_tried_at_once(database_url: TestDatabase, owner: Owner) -> None:
    patient = Patient()
    async with harness(database_url.url, [patient.app()]) as h:
        async with h.bell.transaction() as tx:
            id = (await h.bell.enqueue(tx, "t.wait")).id
        await h.run_due()
        await h.run_due()
        assert patient.runs == [id]
        patient.is_ready = True
        async with h.bell.transaction() as tx:
            assert await h.bell.hasten(tx, [id]) == [id]
        await h.run_due()
        assert patient.runs == [id, id]
        await h.advance(2 * HOUR)
    assert patient.runs == [id, id]
    assert [row["state"] for row in await owner.log()][-1] == "done"


async def test_nothing_is_hastened_to_before_it_is_due(database_url: TestDatabase, owner: Owner) -> None:
    patient = Patient()
    async with harness(database_url.url, [patient.app()]) as h:
        async with h.bell.transaction() as tx:
            id = (await h.bell.enqueue(tx, "t.wait", delay=HOUR)).id
            assert await h.bell.hasten(tx, [id, UUID(int=1)]) == []
        await h.run_due()
        assert patient.runs == []
        (job,) = await owner.jobs()
        assert job["run_at"] == job["due_at"]
        assert job["version"] == 1
        # What was put off before it is due is due again when it is.
        await owner.rows("UPDATE timebell.jobs SET run_at = due_at + interval '1 hour'")
        async with h.bell.transaction() as tx:
            assert await h.bell.hasten(tx, [id]) == [id]
        (job,) = await owner.jobs()
        assert job["run_at"] == job["due_at"]


async def test_another_tenant_cannot_hasten_it(database_url: TestDatabase) -> None:
    patient = Patient()
    async with harness(database_url.url, [patient.app()]) as h:
        async with h.bell.transaction(tenant="a") as tx:
            id = (await h.bell.enqueue(tx, "t.wait")).id
        await h.run_due()
        async with h.bell.transaction(tenant="b") as tx:
            assert await h.bell.hasten(tx, [id]) == []
        await h.run_due()
    assert patient.runs == [id]


async def test_a_hastened_step_is_still_withdrawn_with_its_agenda(database_url: TestDatabase) -> None:
    patient = Patient()
    async with harness(database_url.url, [patient.app()]) as h:
        async with h.bell.transaction() as tx:
            step = Step(key="wait", kind="t.wait", offset=timedelta(0), late="run")
            diff = await h.bell.set_agenda(tx, subject="meeting:1", anchor=h.clock.now, steps=[step])
            (id,) = [change.job_id for change in diff.added if change.job_id]
        await h.run_due()
        async with h.bell.transaction() as tx:
            assert await h.bell.hasten(tx, [id]) == [id]
            withdrawn = (await h.bell.clear_agenda(tx, subject="meeting:1")).withdrawn
        assert [change.job_id for change in withdrawn] == [id]
        await h.advance(2 * HOUR)
    assert patient.runs == [id]


async def test_who_has_read_the_job_before_it_was_hastened_does_not_run_it_twice(cluster: Cluster) -> None:
    """The node holds the job for its old instant; the new version is another entry, and the old one is dropped."""
    patient = Patient()
    node = await cluster.node([patient.app()])
    async with node.bell.transaction() as tx:
        id = (await node.bell.enqueue(tx, "t.wait")).id
    await node.run_due()
    cluster.clock.move(HOUR - timedelta(milliseconds=500))
    await node.run_due()
    patient.is_ready = True
    async with node.bell.transaction() as tx:
        assert await node.bell.hasten(tx, [id]) == [id]
    await node.run_due()
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    assert patient.runs == [id, id]


async def test_only_ids_are_taken(database_url: TestDatabase) -> None:
    async with harness(database_url.url, []) as h, h.bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="ids: 'x' is not a UUID; give the id of a job"):
            await h.bell.hasten(tx, ["x"])  # type: ignore[list-item]
        with pytest.raises(InvalidInput, match="ids: 10001 at once, the limit is 10000; send several"):
            await h.bell.hasten(tx, [UUID(int=1)] * 10_001)
