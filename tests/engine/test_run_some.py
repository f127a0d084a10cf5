"""A bounded run: so many due jobs of one tenant in one queue, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from timebell.errors import InvalidInput
from timebell.kernel import App, Handler, Job, Queue
from timebell.testing import harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)


def counting(ran: list[tuple[str, str, int]]) -> App:
    async def note(job: Job) -> None:
        ran.append((job.tenant, job.kind, job.payload["number"]))

    return App(
        name="office",
        handlers={"office.a": Handler(run=note, queue="a"), "office.b": Handler(run=note, queue="b")},
        queues=[Queue(name="a"), Queue(name="b")],
    )


async def test_a_run_has_its_bound_its_tenant_and_its_queue(database_url: TestDatabase) -> None:
    ran: list[tuple[str, str, int]] = []
    async with harness(database_url.url, [counting(ran)]) as h:
        begin = h.clock.now
        for tenant in ("one", "two"):
            async with h.bell.transaction(tenant=tenant) as tx:
                for number in range(12):
                    due_at = begin + number * SECOND
                    await h.bell.enqueue(tx, "office.a", {"number": number}, due_at=due_at)
                    await h.bell.enqueue(tx, "office.b", {"number": number}, due_at=due_at)
        h.clock.move(9 * SECOND)
        assert await h.run_some("one", "a", 4) == 4
        assert sorted(ran) == [("one", "office.a", number) for number in range(4)]
        assert await h.run_some("one", "a", 4) == 4
        assert await h.run_some("one", "a", 4) == 2
        assert await h.run_some("one", "a", 4) == 0
        assert sorted(ran) == [("one", "office.a", number) for number in range(10)]
        # Afterwards nothing is held back.
        assert await h.run_due() == 30
        assert await h.run_some("nobody", "a", 4) == 0


async def test_an_engine_that_runs_by_itself_is_not_asked(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [counting([])]) as h, h.engine.running():
        with pytest.raises(InvalidInput, match="runs by itself"):
            await h.run_some("one", "a", 1)
