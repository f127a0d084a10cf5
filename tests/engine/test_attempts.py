"""Attempts that share a task are as far apart as if each had its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from datetime import timedelta
from typing import get_args

import pytest
import structlog

from tests.engine.support import Owner
from timebell.kernel import App, Enqueue, Handler, Job
from timebell.kernel.app import HandlerFunction
from timebell.kernel.models import Mode
from timebell.testing.database import TestDatabase
from timebell.testing.harness import Harness, harness

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


async def enqueue(h: Harness, count: int, kind: str = "t.run") -> None:
    async with h.bell.transaction() as tx:
        await h.bell.enqueue_many(tx, [Enqueue(kind=kind, payload={"n": n}) for n in range(count)])


def app(**handlers: HandlerFunction | Handler) -> App:
    return App(name="t", handlers={f"t.{name}": handler for name, handler in handlers.items()})


async def test_quick_ones_share_a_task_and_never_a_context(database_url: TestDatabase) -> None:
    tasks, found = set(), []

    async def run(job: Job) -> None:
        tasks.add(asyncio.current_task())
        found.append((COLOUR.get(), structlog.contextvars.get_contextvars()["job_id"] == str(job.id)))
        COLOUR.set("red")
        structlog.contextvars.bind_contextvars(colour="red")

    async with harness(database_url.url, [app(run=run)], batch=50) as h:
        await enqueue(h, 50)
        await h.run_due()
        assert "colour" not in structlog.contextvars.get_contextvars()
    assert found == [("none", True)] * 50
    assert len(tasks) < 50


async def test_one_that_waits_holds_up_nobody_behind_it(database_url: TestDatabase, owner: Owner) -> None:
    gate, order = asyncio.Event(), list[int]()

    async def run(job: Job) -> None:
        number = job.payload["n"]
        if number % 10 == 0:
            await gate.wait()
        order.append(number)
        if len(order) == 45:
            gate.set()

    async with harness(database_url.url, [app(run=run)]) as h, asyncio.timeout(20):
        await enqueue(h, 50)
        await h.run_due()
    assert {number % 10 for number in order[45:]} == {0}
    assert len(await owner.log("done")) == 50


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("then_waits", [False, True])
async def test_one_that_cancels_its_own_task_takes_no_other_with_it(
    database_url: TestDatabase, owner: Owner, then_waits: bool, mode: Mode
) -> None:
    """Its job is tried again where its answer was lost: in a transaction that is so wherever it was not committed."""
    ran: Counter[int] = Counter()

    async def run(job: Job) -> None:
        ran[job.payload["n"]] += 1
        if job.payload["n"] == 3 and job.attempt == 1:
            this = asyncio.current_task()
            assert this is not None
            this.cancel()
            if then_waits:
                await asyncio.sleep(0)
        elif job.payload["n"] > 3:
            await asyncio.sleep(0)

    async with harness(database_url.url, [app(run=Handler(run=run, mode=mode))]) as h:
        await enqueue(h, 8)
        await h.advance(timedelta(minutes=10))
    assert len(await owner.log("done")) == 8
    is_answer_lost = then_waits or mode == "transactional"
    assert ran == Counter(range(8)) + Counter([3] * is_answer_lost)
    assert [row["error"] for row in await owner.log("pending")] == ["its task was cancelled"] * is_answer_lost


async def test_those_that_wait_for_their_turn_are_given_back_when_the_node_stops(
    database_url: TestDatabase, owner: Owner
) -> None:
    begun: list[int] = []

    async def run(job: Job) -> None:
        begun.append(job.payload["n"])
        if len(begun) == 1:
            # As a stop does that cannot wait: some attempts run, the rest has not begun.
            h.engine.interrupt()

    async with harness(database_url.url, [app(run=Handler(run=run, mode="plain"))]) as h:
        await enqueue(h, 20)
        await h.engine.worker.look_around()
        h.engine.worker.sweep()
        async with asyncio.timeout(20):
            while not begun:
                await h.engine.worker.tick()
                await asyncio.sleep(0)
    jobs = await owner.jobs()
    assert len(begun) == 1
    assert len(jobs) == 19, "none of them is lost, none was tried"
    assert {(job["attempt"], job["version"]) for job in jobs} == {(0, 1)}
    assert await owner.log("pending") == []


async def test_a_marked_one_that_waits_for_its_turn_is_given_back_as_it_was(
    database_url: TestDatabase, owner: Owner
) -> None:
    """It was not tried, so its attempt is not logged, and what is known of its crashes stays known."""
    begun: list[str] = []

    async def interrupt(job: Job) -> None:
        begun.append(job.kind)
        h.engine.interrupt()

    async def never(job: Job) -> None:
        raise AssertionError("the node stops")

    handlers = {"first": interrupt, "second": never}
    marked = {name: Handler(run=run, mode="external") for name, run in handlers.items()}
    async with harness(database_url.url, [app(**marked)]) as h:
        async with h.bell.transaction() as tx:
            await h.bell.enqueue(tx, "t.first", urgency="critical")
            await h.bell.enqueue(tx, "t.second")
        await owner.rows("UPDATE timebell.jobs SET crash_count = 1 WHERE kind = 't.second'")
        h.engine.worker.sweep()
        async with asyncio.timeout(20):
            while not begun:
                await h.engine.worker.tick()
                await asyncio.sleep(0)
    (job,) = await owner.jobs()
    assert (job["kind"], job["started_by"], job["attempt"], job["crash_count"]) == ("t.second", None, 0, 1)
    assert [(row["kind"], row["state"]) for row in await owner.log()] == [("t.first", "done")]
