"""Long work: the time an attempt has, how it is prolonged, and how it goes on in the next run."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Owner
from tests.log_lines import kept_lines
from timebell.db.pool import Database, Limits
from timebell.engine import Engine
from timebell.kernel import App, Done, Handler, Job, Outcome, Registry, Snooze, Step, Timebell
from timebell.kernel.insights.insights import Insights
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
MODES = ("plain", "transactional", "external")
PASSES_MAX = 10_000


async def let_run(h: Harness, reached: asyncio.Event) -> None:
    """Let the worker go on until a handler says that it has come so far."""
    worker = h.engine.worker
    for _ in range(PASSES_MAX):
        await worker.tick()
        if reached.is_set():
            return
        going_on = worker.attempts.going_on | worker.background.going_on
        await asyncio.wait({*going_on, _tick()}, timeout=0.01)
    raise AssertionError("the handler never came so far")


def _tick() -> asyncio.Task[None]:
    return asyncio.ensure_future(asyncio.sleep(0))


async def enqueue(h: Harness, kind: str, **options: Any) -> None:
    async with h.bell.transaction() as tx:
        await h.bell.enqueue(tx, kind, **options)


@pytest.mark.req("J-14.9", "U-18")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("timeout", "seconds"), [(None, 300), (timedelta(seconds=20), 20)])
async def test_an_attempt_that_takes_too_long_is_stopped_and_counted(
    database_url: TestDatabase, owner: Owner, mode: Any, timeout: timedelta | None, seconds: int
) -> None:
    began, seen = asyncio.Event(), []

    async def hang(job: Job) -> None:
        if job.attempt > 1:
            return
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(h.clock.now)
            raise

    app = App(name="t", handlers={"t.hang": Handler(run=hang, mode=mode, timeout=timeout)})
    async with harness(database_url.url, [app]) as h:
        start = h.clock.now
        await enqueue(h, "t.hang")
        await let_run(h, began)
        h.clock.move(timedelta(seconds=seconds - 1))
        await h.engine.worker.tick()
        await asyncio.sleep(0)
        assert seen == []
        h.clock.move(timedelta(seconds=1))
        await h.run_due()
        assert seen == [start + timedelta(seconds=seconds)], "the handler was not told"
        (failed,) = await owner.log("pending")
        assert (failed["attempt"], failed["error"]) == (1, f"timed out after {seconds} s")
        await h.advance(MINUTE)
    assert [row["attempt"] for row in await owner.log("done")] == [2]


@pytest.mark.req("U-18")
@pytest.mark.parametrize("mode", MODES)
async def test_a_guard_that_takes_too_long_is_stopped_too(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    began = asyncio.Event()

    async def hang(job: Job) -> bool:
        if job.attempt == 1:
            began.set()
            await asyncio.Event().wait()
        return True

    async def run(job: Job) -> None: ...

    app = App(name="t", handlers={"t.run": Handler(run=run, mode=mode)}, guards={"t.hang": hang})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.run", guard="t.hang")
        await let_run(h, began)
        h.clock.move(5 * MINUTE)
        await h.run_due()
        (failed,) = await owner.log("pending")
        assert failed["error"] == "timed out after 300 s"
        await h.advance(MINUTE)
    assert [row["attempt"] for row in await owner.log("done")] == [2]


@pytest.mark.req("U-18")
@pytest.mark.parametrize("mode", ["plain", "external"])
async def test_a_heartbeat_prolongs_the_time_and_keeps_the_cursor(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    began, cursors = asyncio.Event(), []

    async def walk(job: Job) -> None:
        cursors.append(job.cursor)
        if job.attempt > 1:
            return
        for mile in (1, 2, 3):
            h.clock.move(4 * MINUTE)
            assert await job.heartbeat({"mile": mile})
        h.clock.move(4 * MINUTE)
        began.set()
        await asyncio.Event().wait()

    app = App(name="t", handlers={"t.walk": Handler(run=walk, mode=mode)})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.walk")
        await let_run(h, began)
        assert await owner.log() == [], "sixteen minutes, and alive"
        assert (await owner.jobs())[0]["cursor"] == '{"mile": 3}'
        h.clock.move(MINUTE)
        await h.run_due()
        assert len(await owner.log("pending")) == 1
        await h.advance(MINUTE)
    assert cursors == [None, {"mile": 3}]


async def test_a_heartbeat_tells_of_a_cancel(database_url: TestDatabase, owner: Owner) -> None:
    answers = []

    async def walk(job: Job) -> Outcome:
        answers.append(await job.heartbeat())
        async with h.bell.transaction() as tx:
            (cancelled,) = await h.bell.cancel(tx, id=job.id, reason="enough")
        assert cancelled.answer == "too_late"
        answers.append(await job.heartbeat({"mile": 1}))
        return Snooze(cursor={"mile": 1})

    app = App(name="t", handlers={"t.walk": Handler(run=walk, mode="external")})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.walk")
        await h.advance(timedelta(hours=1))
    assert answers == [True, False]
    assert [row["state"] for row in await owner.log()] == ["cancelled"]


@pytest.mark.req("J-0.3", "J-14.9", "U-18")
@pytest.mark.parametrize("mode", MODES)
async def test_twelve_minutes_of_work_go_on_over_several_runs(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    runs: list[tuple[int, int]] = []

    async def work(job: Job) -> Outcome:
        """Three minutes in one run, well within the five that it has."""
        minute = (job.cursor or {"minute": 0})["minute"]
        runs.append((job.attempt, minute))
        h.clock.move(3 * MINUTE)
        return Done() if minute + 3 >= 12 else Snooze(cursor={"minute": minute + 3}, reason="goes on")

    app = App(name="t", handlers={"t.work": Handler(run=work, mode=mode)})
    async with harness(database_url.url, [app]) as h:
        start = h.clock.now
        await enqueue(h, "t.work")
        for _ in range(4):
            await h.run_due()
        assert h.clock.now - start == 12 * MINUTE
    assert runs == [(1, 0), (1, 3), (1, 6), (1, 9)], "a run that goes on is not a failed attempt"
    assert [row["reason"] for row in await owner.log("pending")] == ["goes on"] * 3
    assert len(await owner.log("done")) == 1


@pytest.mark.req("J-14.9")
async def test_what_a_transactional_run_did_before_it_went_on_is_kept(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The cursor and the effect are one transaction, so a run that fails goes on from the last that did not."""
    fails = [True]
    await owner.connection.execute("CREATE TABLE public.paid (number integer PRIMARY KEY)")
    await owner.connection.execute(
        "GRANT INSERT ON public.paid TO PUBLIC; GRANT USAGE ON SCHEMA public TO PUBLIC"
    )

    async def pay(job: Job) -> Outcome:
        first = (job.cursor or {"next": 0})["next"]
        for number in range(first, first + 10):
            await job.tx.connection.execute("INSERT INTO public.paid VALUES ($1)", number)
            if number == 15 and fails:
                fails.clear()
                raise RuntimeError("the bank is closed")
        return Done() if first == 20 else Snooze(cursor={"next": first + 10})

    app = App(name="t", handlers={"t.pay": Handler(run=pay, mode="transactional")})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.pay")
        await h.run_due()
        assert await owner.value("SELECT count(*) FROM public.paid") == 10
        await h.advance(MINUTE)
    assert await owner.value("SELECT array_agg(number ORDER BY number) FROM public.paid") == list(range(30))


@pytest.mark.req("J-14.9")
async def test_a_batch_that_fails_is_halved(database_url: TestDatabase, owner: Owner) -> None:
    """A hundred at a time; what fails for its size gets through at a quarter of it."""
    sizes: list[tuple[int, int]] = []

    async def pay(job: Job) -> Outcome:
        first, size = (job.cursor or {"next": 0})["next"], job.batch(100)
        sizes.append((first, size))
        if first == 100 and size > 25:
            raise RuntimeError(f"{size} are too many")
        return Done() if first + size >= 150 else Snooze(cursor={"next": first + size})

    app = App(name="t", handlers={"t.pay": Handler(run=pay, mode="transactional")})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.pay")
        await h.advance(timedelta(minutes=10))
    assert sizes == [(0, 100), (100, 100), (100, 50), (100, 25), (125, 25)]
    assert len(await owner.log("done")) == 1


@pytest.mark.req("J-14.9")
async def test_a_batch_that_hangs_goes_on_behind_what_was_finished_with_half_as_many(
    database_url: TestDatabase, owner: Owner
) -> None:
    """Each of a hundred is said to be finished; the one after the 37th hangs for five minutes, twice."""
    began = asyncio.Event()
    runs: list[tuple[int, int, int]] = []
    finished: list[int] = []

    async def pay(job: Job) -> Outcome:
        first, size = (job.cursor or {"next": 0})["next"], job.batch(100)
        runs.append((job.attempt, first, size))
        for number in range(first, min(first + size, 100)):
            if number == 37 and job.attempt < 3:
                began.set()
                await asyncio.Event().wait()
            finished.append(number)
            await job.heartbeat({"next": number + 1})
        return Done() if first + size >= 100 else Snooze(cursor={"next": first + size})

    app = App(name="t", handlers={"t.pay": Handler(run=pay)})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.pay")
        for _ in range(2):
            running = asyncio.create_task(h.run_due())
            await began.wait()
            began.clear()
            h.clock.move(5 * MINUTE)
            await running
            h.clock.move(5 * MINUTE)
        await h.advance(timedelta(hours=1))
    assert [row["error"] for row in await owner.log("pending") if row["error"]] == [
        "timed out after 300 s"
    ] * 2
    assert runs[:3] == [(1, 0, 100), (2, 37, 50), (3, 37, 25)]
    assert finished == list(range(100)), "each once, and in order"
    assert len(await owner.log("done")) == 1


@pytest.mark.req("U-18")
@pytest.mark.parametrize("mode", MODES)
async def test_a_hundred_and_twenty_searches_are_made_fifty_at_a_time(
    database_url: TestDatabase, mode: Any
) -> None:
    batches: list[list[int]] = []

    async def search(job: Job) -> Outcome:
        first = (job.cursor or {"next": 0})["next"]
        batch = list(range(120))[first : first + job.batch(50)]
        batches.append(batch)
        return Done() if first + len(batch) == 120 else Snooze(cursor={"next": first + len(batch)})

    app = App(name="t", handlers={"t.search": Handler(run=search, mode=mode)})
    async with harness(database_url.url, [app]) as h:
        await enqueue(h, "t.search")
        await h.run_due()
    assert [len(batch) for batch in batches] == [50, 50, 20]
    assert [number for batch in batches for number in batch] == list(range(120))


@pytest.mark.req("U-18")
async def test_an_answer_that_comes_just_in_time_is_not_lost_while_it_is_written(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The time is over while the breaker is told of the answer; the call was made and is not made again."""
    calls: list[datetime] = []
    answered = asyncio.Event()

    class Slow:
        async def before(self, name: str) -> None:
            if name == "close_breaker":
                h.clock.move(10 * MINUTE)
                h.engine.worker.attempts.watch()
                answered.set()
                await asyncio.sleep(0)

        async def after(self, name: str) -> None: ...

    async def call(job: Job) -> None:
        calls.append(h.clock.now)
        if len(calls) <= 5:
            raise ConnectionError("down")

    app = App(name="t", handlers={"t.call": Handler(run=call, mode="external", destination="bank")})
    async with harness(database_url.url, [app], gate=Slow(), max_attempts=9) as h:
        for _ in range(6):
            await enqueue(h, "t.call", max_attempts=1)
            await h.run_due()
        await h.advance(10 * MINUTE)
    assert answered.is_set()
    assert len(calls) == 6
    assert len(await owner.log("done")) == 1


async def test_a_job_that_is_given_new_content_begins_at_its_beginning(database_url: TestDatabase) -> None:
    """How far it came with the old content means nothing for the new one."""
    seen: list[tuple[int, Any]] = []

    async def work(job: Job) -> Outcome | None:
        seen.append((job.payload["part"], job.cursor))
        return Snooze(delay=MINUTE, cursor={"next": 7}) if job.payload["part"] == 1 else None

    async with harness(database_url.url, [App(name="t", handlers={"t.work": work})]) as h:

        async def state(part: int) -> None:
            step = Step(key="work", kind="t.work", offset=timedelta(0), payload={"part": part})
            async with h.bell.transaction() as tx:
                await h.bell.enqueue(tx, "t.work", {"part": part}, key="k", on_conflict="replace")
                await h.bell.set_agenda(tx, subject="s:1", anchor=anchor, steps=[step])

        anchor = h.clock.now
        await state(1)
        await h.run_due()
        await state(2)
        await h.run_due()
    assert seen == [(1, None), (1, None), (2, None), (2, None)]


async def test_a_transaction_that_the_server_ends_for_being_idle_is_a_failed_attempt(
    database_url: TestDatabase, owner: Owner
) -> None:
    """It would be made again for ever otherwise, without a trace."""
    ran = 0

    async def think(job: Job) -> None:
        nonlocal ran
        ran += 1
        ended = asyncio.Event()
        job.tx.connection.add_termination_listener(lambda _: ended.set())
        async with asyncio.timeout(10):
            await ended.wait()

    clock = ManualClock()
    database = await Database.open(database_url.url, limits=Limits(idle_in_transaction=0.1))
    app = App(name="t", handlers={"t.think": Handler(run=think, mode="transactional")})
    bell = Timebell(database, registry=Registry([app]), clock=clock)
    h = Harness(bell, Engine(bell), clock)
    await h.engine.begin()
    insights = Insights(database, clock)
    await enqueue(h, "t.think", max_attempts=2)
    with kept_lines() as lines:
        await h.run_due()
    (waiting,) = (await insights.jobs("default")).lines
    await h.advance(3 * MINUTE)
    journey = await insights.journey("default", waiting.id)
    await h.engine.stop()
    await bell.close()
    await database.close()
    assert ran == 2
    assert journey is not None
    (end,) = await owner.log("dead")
    (dead,) = await owner.rows("SELECT error FROM timebell.dead_jobs")
    (line,) = [line for line in lines if line["event"] == "an attempt failed"]
    for error in (line["error"], waiting.error, journey.job.error, end["error"], dead["error"]):
        assert error is not None
        assert error.startswith(
            "its transaction was idle for too long, or lost its connection; do what takes long"
        )
