"""A handler that answers later: called in its turn, waited for by nobody, and settled as any other."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import Owner
from timebell.errors import ConfigurationError
from timebell.kernel import App, Cancel, Dead, Done, Enqueue, Handler, Job, Outcome, Queue, Retry, Snooze
from timebell.testing.database import TestDatabase
from timebell.testing.harness import Harness, harness

MINUTE = timedelta(minutes=1)
PASSES_MAX = 10_000
Answer = asyncio.Future[Outcome | None]


class Later:
    """Keeps what it was called with until it is told what came of it."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[Job, Answer]] = {}

    def __call__(self, job: Job) -> Answer:
        answer: Answer = asyncio.get_running_loop().create_future()
        self.waiting[job.payload["n"]] = job, answer
        return answer

    def app(self, mode: Any = "external", **terms: Any) -> App:
        return App(
            name="t",
            handlers={"t.run": Handler(run=self, mode=mode, answers_later=True, **terms)},
            guards={"t.willing": willing},
            queues=[Queue(name="few", concurrency=2)],
        )


async def willing(job: Job) -> bool:
    return True


async def enqueue(h: Harness, count: int, **options: Any) -> None:
    async with h.bell.transaction() as tx:
        await h.bell.enqueue_many(
            tx, [Enqueue(kind="t.run", payload={"n": number}, **options) for number in range(count)]
        )


async def until_waiting(h: Harness, later: Later, count: int) -> None:
    """Let the worker go on until so many wait for their answer."""
    worker = h.engine.worker
    for _ in range(PASSES_MAX):
        await worker.tick()
        if len(later.waiting) >= count:
            return
        step = asyncio.ensure_future(asyncio.sleep(0))
        await asyncio.wait({*worker.background.going_on, step}, timeout=0.01)
    raise AssertionError(f"{len(later.waiting)} of {count} were called")


@pytest.mark.parametrize("mode", ["plain", "external"])
async def test_each_ends_as_it_was_answered_and_in_any_order(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    later = Later()
    async with harness(database_url.url, [later.app(mode)]) as h:
        await enqueue(h, 6)
        before = len(asyncio.all_tasks())
        await until_waiting(h, later, 6)
        assert len(asyncio.all_tasks()) - before <= 2, "none of them has a task of its own"
        answers: list[Outcome | None] = [Done(), None, Dead("enough"), Cancel("unwanted")]
        answers += [Retry("again"), Snooze(delay=MINUTE)]
        for number, answer in reversed(list(enumerate(answers))):
            later.waiting[number][1].set_result(answer)
        await h.run_due()
    told = {row["id"]: (row["state"], row["error"] or row["reason"]) for row in await owner.log()}
    assert [told.get(later.waiting[number][0].id) for number in range(5)] == [
        ("done", None),
        ("done", None),
        ("dead", "enough"),
        ("cancelled", "unwanted"),
        ("pending", "again"),
    ]
    assert sorted(row["attempt"] for row in await owner.jobs()) == [0, 1]


@pytest.mark.parametrize("way", ["raised", "answered", "cancelled", "no future"])
async def test_what_goes_wrong_in_it_fails_the_attempt_and_nothing_else(
    database_url: TestDatabase, owner: Owner, way: str
) -> None:
    words = {
        "raised": "ValueError: broken",
        "answered": "ValueError: broken",
        "cancelled": "CancelledError",
        "no future": "TypeError: run: whoever answers later returns a future, was int",
    }

    def run(job: Job) -> Any:
        if job.attempt > 1 or job.payload["n"]:
            answer: Answer = asyncio.get_running_loop().create_future()
            answer.set_result(None)
            return answer
        if way == "raised":
            raise ValueError("broken")
        if way == "no future":
            return 7
        answer = asyncio.get_running_loop().create_future()
        if way == "answered":
            answer.set_exception(ValueError("broken"))
        else:
            answer.cancel()
        return answer

    app = App(name="t", handlers={"t.run": Handler(run=run, answers_later=True)})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, 3)
        await h.run_due()
        (failed,) = await owner.log("pending")
        assert failed["error"].startswith(words[way])
        assert len(await owner.log("done")) == 2
        await h.advance(MINUTE)
    assert len(await owner.log("done")) == 3


async def test_one_that_takes_too_long_is_stopped_and_counted(
    database_url: TestDatabase, owner: Owner
) -> None:
    later = Later()
    async with harness(database_url.url, [later.app(timeout=timedelta(seconds=20))]) as h:
        await enqueue(h, 2)
        await until_waiting(h, later, 2)
        later.waiting[1][1].set_result(Done())
        h.clock.move(timedelta(seconds=20))
        await h.run_due()
        assert later.waiting[0][1].cancelled()
        (failed,) = await owner.log("pending")
        assert (failed["attempt"], failed["error"]) == (1, "timed out after 20 s")
    assert len(await owner.log("done")) == 1


async def test_what_has_no_answer_when_the_node_stops_is_given_back(
    database_url: TestDatabase, owner: Owner
) -> None:
    later = Later()
    async with harness(database_url.url, [later.app()], stop_seconds=0) as h:
        await enqueue(h, 2)
        await until_waiting(h, later, 2)
        later.waiting[1][1].set_result(Done())
    (row,) = await owner.jobs()
    assert (row["attempt"], row["started_by"]) == (0, None)
    assert later.waiting[0][1].cancelled()
    assert len(await owner.log("done")) == 1


@pytest.mark.parametrize(
    "options",
    [{"guard": "t.willing"}, {"queue": "few"}, {"payload": {"n": 0, "text": "x" * 20_000}}],
    ids=["guard", "limited", "large"],
)
async def test_one_for_which_something_is_asked_first_is_waited_for(
    database_url: TestDatabase, owner: Owner, options: dict[str, Any]
) -> None:
    later = Later()
    async with harness(database_url.url, [later.app()]) as h:
        async with h.bell.transaction() as tx:
            await h.bell.enqueue(tx, "t.run", **{"payload": {"n": 0}, **options})
        await until_waiting(h, later, 1)
        later.waiting[0][1].set_result(Done())
        await h.run_due()
    assert len(await owner.log("done")) == 1


async def test_the_attempt_says_when_it_began(database_url: TestDatabase) -> None:
    later = Later()
    async with harness(database_url.url, [later.app()]) as h:
        await enqueue(h, 1)
        began = h.clock.now
        await until_waiting(h, later, 1)
        job, answer = later.waiting[0]
        assert job.started_at == began
        answer.set_result(None)
        await h.run_due()


def test_it_is_a_plain_function_and_has_no_transaction() -> None:
    async def run(job: Job) -> None: ...

    with pytest.raises(ConfigurationError, match="leave out `async`"):
        Handler(run=run, answers_later=True)
    with pytest.raises(ConfigurationError, match="answers_later: a transactional handler cannot"):
        Handler(run=Later(), mode="transactional", answers_later=True)
