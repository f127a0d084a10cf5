"""Handlers that are not async run in threads, beside each other and beside the loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, Owner
from timebell.engine.worker.executor import Executor
from timebell.errors import ConfigurationError
from timebell.kernel import App, Cancel, Enqueue, Handler, Job, Outcome
from timebell.kernel.app import HandlerFunction
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
DEADLINE_SECONDS = 20.0


async def enqueue(h: Harness, number: int = 1, kind: str = "t.run") -> None:
    async with h.bell.transaction() as tx:
        await h.bell.enqueue_many(tx, [Enqueue(kind=kind, payload={"number": n}) for n in range(number)])


@pytest.mark.parametrize("mode", ["plain", "external"])
async def test_they_run_in_threads_at_the_same_time(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    """Four meet at a barrier: one after the other they never would. The fifth thread is left for other tenants."""
    meeting = threading.Barrier(4)
    threads: set[int] = set()

    def run(job: Job) -> None:
        meeting.wait(DEADLINE_SECONDS)
        threads.add(threading.get_ident())

    app = App(name="t", handlers={"t.run": Handler(run=run, mode=mode)})
    async with harness(database_url.url, [app], threads=5) as h:
        await enqueue(h, 8)
        await h.run_due()
    assert len(threads) >= 4
    assert threading.get_ident() not in threads
    assert len(await owner.log("done")) == 8


async def test_they_do_not_hold_up_the_loop(database_url: TestDatabase, owner: Owner) -> None:
    """The one in its thread waits for the async one, which could not run if it had to wait for the thread."""
    met = threading.Event()

    def wait(job: Job) -> None:
        assert met.wait(DEADLINE_SECONDS)

    async def meet(job: Job) -> None:
        met.set()

    async with harness(database_url.url, [App(name="t", handlers={"t.wait": wait, "t.meet": meet})]) as h:
        await enqueue(h, 1, "t.wait")
        await enqueue(h, 1, "t.meet")
        await h.run_due()
    assert [row["error"] for row in await owner.log()] == [None, None]


async def test_what_they_answer_counts(database_url: TestDatabase, owner: Owner) -> None:
    def run(job: Job) -> Outcome:
        return Cancel("not wanted")

    async with harness(database_url.url, [App(name="t", handlers={"t.run": run})]) as h:
        await enqueue(h)
        await h.run_due()
    assert [(row["state"], row["reason"]) for row in await owner.log()] == [("cancelled", "not wanted")]


async def test_whatever_they_raise_is_a_failure_of_that_job_alone(
    database_url: TestDatabase, owner: Owner
) -> None:
    errors = [StopIteration(), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), ValueError("no")]

    def run(job: Job) -> None:
        if job.attempt == 1:
            raise errors[job.payload["number"]]

    async with harness(database_url.url, [App(name="t", handlers={"t.run": run})]) as h:
        await enqueue(h, len(errors))
        await h.run_due()
        failed = await owner.log("pending")
        await h.advance(MINUTE)
    assert {row["error"].split("\n")[0].split(":")[0] for row in failed} == {
        type(error).__name__ for error in errors
    }
    assert len(await owner.log("done")) == len(errors)


@pytest.mark.req("U-18")
async def test_one_that_takes_too_long_is_reported_although_nothing_can_stop_it(
    database_url: TestDatabase, owner: Owner
) -> None:
    began, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def run(job: Job) -> None:
        if job.attempt == 1:
            loop.call_soon_threadsafe(began.set)
            goes_on.wait(DEADLINE_SECONDS)

    app = App(name="t", handlers={"t.run": Handler(run=run, timeout=10 * MINUTE)})
    async with harness(database_url.url, [app]) as h:
        try:
            await enqueue(h)
            running = asyncio.create_task(h.run_due())
            async with asyncio.timeout(DEADLINE_SECONDS):
                await began.wait()
                h.clock.move(10 * MINUTE)
                await running
                await h.run_due()
            (failed,) = await owner.log("pending")
            assert failed["error"] == "timed out after 600 s"
        finally:
            goes_on.set()
        await h.advance(MINUTE)
    assert [row["attempt"] for row in await owner.log("done")] == [2]


async def test_what_only_hands_an_awaitable_on_is_awaited(database_url: TestDatabase, owner: Owner) -> None:
    seen: list[str] = []

    async def run(job: Job) -> None:
        seen.append(job.kind)

    class Callable:
        async def __call__(self, job: Job) -> None:
            await run(job)

    handlers: dict[str, HandlerFunction] = {"t.run": lambda job: run(job), "t.object": Callable()}
    async with harness(database_url.url, [App(name="t", handlers=handlers)]) as h:
        async with h.bell.transaction() as tx:
            for kind in handlers:
                await h.bell.enqueue(tx, kind)
        await h.run_due()
    assert sorted(seen) == ["t.object", "t.run"]
    assert len(await owner.log("done")) == 2


async def test_they_see_the_context_of_their_attempt(database_url: TestDatabase) -> None:
    seen: list[contextvars.Context] = []

    def run(job: Job) -> None:
        seen.append(contextvars.copy_context())

    async with harness(database_url.url, [App(name="t", handlers={"t.run": run})]) as h:
        await enqueue(h, 2)
        await h.run_due()
    assert all(any(name.name.startswith("structlog_") for name in context) for context in seen)


def test_a_transactional_handler_must_be_async() -> None:
    def run(job: Job) -> None: ...

    with pytest.raises(ConfigurationError, match="async def"):
        Handler(run=run, mode="transactional")


@pytest.mark.req("U-3")
async def test_what_has_no_thread_yet_is_not_started_and_can_be_cancelled(
    cluster: Cluster, owner: Owner
) -> None:
    """Two threads and ten jobs: eight wait, and of those a cancel is answered and kept."""
    may_end, begun = threading.Event(), set[int]()

    def run(job: Job) -> None:
        begun.add(job.payload["number"])
        assert may_end.wait(DEADLINE_SECONDS)

    app = App(name="t", handlers={"t.run": Handler(run=run, mode="external")})
    node = await cluster.node([app], threads=2)
    async with node.bell.transaction() as tx:
        jobs = [Enqueue(kind="t.run", payload={"number": n}, key=str(n)) for n in range(10)]
        await node.bell.enqueue_many(tx, jobs)
    try:
        await node.passes_until(lambda: len(begun) == 2)
        assert await owner.value("SELECT count(*) FROM timebell.jobs WHERE started_by IS NOT NULL") == 2
        cancelled = set(range(10)) - begun
        async with node.bell.transaction() as tx:
            for number in cancelled:
                [answer] = await node.bell.cancel(tx, kind="t.run", key=str(number))
                assert answer.answer == "cancelled"
    finally:
        may_end.set()
    await node.run_due()
    assert not begun & cancelled
    assert await owner.jobs() == []


@pytest.mark.req("U-2", "U-3")
async def test_what_waited_for_a_thread_does_not_begin_when_the_lease_is_over(
    cluster: Cluster, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only thread is taken up by an attempt whose time was over. Another node may have begun the job meanwhile."""
    may_end, begun = threading.Event(), list[int]()

    def run(job: Job) -> None:
        begun.append(job.payload["number"])
        assert may_end.wait(DEADLINE_SECONDS)

    app = App(name="t", handlers={"t.run": Handler(run=run, mode="external", timeout=MINUTE)})
    node = await cluster.node([app], threads=1)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.run", payload={"number": 1})
    try:
        await node.passes_until(lambda: begun == [1])
        # Chosen while there seemed to be a thread.
        monkeypatch.setattr(Executor, "is_out_of_threads", False)
        cluster.clock.move(MINUTE)
        await node.engine.beat()
        async with node.bell.transaction() as tx:
            second = await node.bell.enqueue(tx, "t.run", payload={"number": 2})
        running = node.engine.worker.attempts.running
        await node.passes_until(lambda: {entry.id for entry in running} == {second.id})
        await owner.expire_lease(node.incarnation)
        node.engine.node._start_until = float("-inf")
    finally:
        may_end.set()
    await node.passes_until(lambda: not node.engine.worker.attempts.running)
    assert begun == [1]
