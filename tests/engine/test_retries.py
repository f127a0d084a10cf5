"""What becomes of a job whose attempt failed: when it is tried again, and when it is dead."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, Owner
from timebell.kernel import App, Cancel, Dead, Done, Handler, Job, Outcome, Queue, Retry, Snooze
from timebell.rules.backoff import RetryPolicy
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
MODES = ("plain", "transactional", "external")


class Attempts:
    """A handler that answers from a list and notes when it was asked; after the list it is done."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.clock: Callable[[], datetime] | None = None
        self.at: list[datetime] = []
        self.numbers: list[int] = []

    async def __call__(self, job: Job) -> Any:
        assert self.clock is not None
        self.at.append(self.clock())
        self.numbers.append(job.attempt)
        answer = self.answers.pop(0) if self.answers else Done()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def handler(self, **options: Any) -> Handler:
        async def run(job: Job) -> Outcome | None:
            return await self(job)  # type: ignore[no-any-return]

        return Handler(run=run, **options)

    def waits(self) -> list[float]:
        """The seconds between one attempt and the next."""
        return [(b - a).total_seconds() for a, b in zip(self.at, self.at[1:], strict=False)]


async def play(h: Harness, attempts: Attempts, by: timedelta, **options: Any) -> None:
    """Enqueue one job and let the time pass."""
    attempts.clock = lambda: h.clock.now
    async with h.bell.transaction() as tx:
        await h.bell.enqueue(tx, "t.try", **options)
    await h.advance(by)


@pytest.mark.req("M-5.4", "M-5.5", "U-6")
@pytest.mark.parametrize("mode", MODES)
async def test_the_default_waits_one_and_five_minutes_and_then_the_job_is_dead(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    attempts = Attempts(*[ValueError("no")] * 5)
    async with harness(
        database_url.url, [App(name="t", handlers={"t.try": attempts.handler(mode=mode)})]
    ) as h:
        await play(h, attempts, timedelta(hours=1))
    assert attempts.numbers == [1, 2, 3]
    assert attempts.waits() == [60, 300]
    assert [(row["state"], row["attempt"], row["reason"]) for row in await owner.log()] == [
        ("pending", 1, "retry"),
        ("pending", 2, "retry"),
        ("dead", 3, "out of attempts"),
    ]
    assert await owner.value("SELECT attempt FROM timebell.dead_jobs") == 3
    assert await owner.jobs() == []


@pytest.mark.req("M-5.5")
async def test_the_third_wait_is_reached_where_more_attempts_are_allowed(database_url: TestDatabase) -> None:
    attempts = Attempts(*[ValueError("no")] * 9)
    async with harness(database_url.url, [App(name="t", handlers={"t.try": attempts.handler()})]) as h:
        await play(h, attempts, timedelta(days=1), max_attempts=5)
    assert attempts.waits() == [60, 300, 900, 900]


@pytest.mark.req("M-5.4")
@pytest.mark.parametrize("mode", MODES)
async def test_a_success_after_a_failure_is_a_success(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    attempts = Attempts(Retry("busy"))
    async with harness(
        database_url.url, [App(name="t", handlers={"t.try": attempts.handler(mode=mode)})]
    ) as h:
        await play(h, attempts, timedelta(minutes=2))
    log = [(row["state"], row["attempt"], row["error"]) for row in await owner.log()]
    assert log == [("pending", 1, "busy"), ("done", 2, None)]


@pytest.mark.req("J-13.1", "U-6")
async def test_a_curve_grows_up_to_its_ceiling_with_jitter(database_url: TestDatabase) -> None:
    policy = RetryPolicy.exponential(
        base=timedelta(seconds=10), ceiling=timedelta(seconds=60), max_attempts=6
    )
    attempts = Attempts(*[ValueError("no")] * 9)
    app = App(name="t", handlers={"t.try": attempts.handler(retry=policy)})
    async with harness(database_url.url, [app]) as h:
        await play(h, attempts, timedelta(hours=1))
    middles = [10, 20, 40, 60, 60]
    waits = attempts.waits()
    assert all(0.5 * m <= wait < 1.5 * m for m, wait in zip(middles, waits, strict=True)), waits
    assert waits != middles, "without jitter, what failed together would come back together"


@pytest.mark.req("J-13.1")
async def test_jobs_that_failed_together_come_back_spread(database_url: TestDatabase, owner: Owner) -> None:
    policy = RetryPolicy.exponential(base=MINUTE, ceiling=MINUTE)
    attempts = Attempts(*[ValueError("no")] * 50)
    app = App(name="t", handlers={"t.try": attempts.handler(retry=policy)})
    async with harness(database_url.url, [app]) as h:
        attempts.clock = lambda: h.clock.now
        async with h.bell.transaction() as tx:
            for _ in range(50):
                await h.bell.enqueue(tx, "t.try")
        await h.run_due()
    run_ats = [row["run_at"] for row in await owner.jobs()]
    assert len(set(run_ats)) == 50
    assert max(run_ats) - min(run_ats) > 0.7 * MINUTE


@pytest.mark.req("U-6")
@pytest.mark.parametrize(
    ("answer", "wait", "next_number"),
    [
        (Retry("x"), 60, 2),
        (Retry("x", "transient", after=2 * MINUTE), 120, 2),
        (Retry("x", "transient", after=timedelta(seconds=5)), 60, 2),
        (Retry("x", "rate_limited"), 60, 2),
        (Retry("x", "rate_limited", after=timedelta(seconds=7)), 7, 1),
        (Retry("x", "rate_limited", after=timedelta(days=9)), 86_400, 1),
        (Retry("x", "unavailable"), 60, 1),
        (Retry("x", "unavailable", after=timedelta(seconds=0)), 1, 1),
        (Snooze(delay=timedelta(seconds=42)), 42, 1),
    ],
)
async def test_how_long_each_answer_waits_and_whether_it_counts(
    database_url: TestDatabase, answer: Outcome, wait: float, next_number: int
) -> None:
    attempts = Attempts(answer)
    async with harness(database_url.url, [App(name="t", handlers={"t.try": attempts.handler()})]) as h:
        await play(h, attempts, timedelta(days=2))
    assert attempts.waits() == [wait]
    assert attempts.numbers == [1, next_number]


@pytest.mark.req("U-6")
async def test_an_unavailable_destination_does_not_use_up_the_attempts(database_url: TestDatabase) -> None:
    attempts = Attempts(*[Retry("down", "unavailable")] * 20)
    async with harness(database_url.url, [App(name="t", handlers={"t.try": attempts.handler()})]) as h:
        await play(h, attempts, timedelta(hours=1))
    assert attempts.numbers == [1] * 21


@pytest.mark.req("U-6")
@pytest.mark.parametrize("answer", [Retry("no such number", "permanent"), Dead("no such number")])
async def test_a_permanent_error_is_not_tried_again(
    database_url: TestDatabase, owner: Owner, answer: Outcome
) -> None:
    attempts = Attempts(answer)
    async with harness(database_url.url, [App(name="t", handlers={"t.try": attempts.handler()})]) as h:
        await play(h, attempts, timedelta(days=1))
    assert attempts.numbers == [1]
    (dead,) = await owner.rows("SELECT * FROM timebell.dead_jobs")
    assert (dead["error"], dead["error_class"]) == ("no such number", "permanent")


@pytest.mark.req("U-6")
async def test_nothing_is_tried_again_after_the_window(database_url: TestDatabase, owner: Owner) -> None:
    policy = RetryPolicy.of_delays([60], max_attempts=50, max_window=timedelta(seconds=150))
    attempts = Attempts(*[ValueError("no")] * 9)
    app = App(name="t", handlers={"t.try": attempts.handler(retry=policy)})
    async with harness(database_url.url, [app]) as h:
        await play(h, attempts, timedelta(hours=1))
    assert attempts.waits() == [60, 60]
    assert await owner.value("SELECT count(*) FROM timebell.dead_jobs") == 1


@pytest.mark.parametrize("mode", MODES)
async def test_whatever_a_handler_raises_is_a_failure_of_that_job_alone(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    errors = [
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError("not by us"),
        GeneratorExit(),
        StopAsyncIteration(),
        OSError(5, "a socket of its own"),
        TimeoutError(),
        ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    ]
    attempts, well = Attempts(*errors), Attempts()
    handlers = {"t.try": attempts.handler(mode=mode), "t.well": well.handler(mode=mode)}
    async with harness(database_url.url, [App(name="t", handlers=handlers)]) as h:
        well.clock = lambda: h.clock.now
        for _ in errors:
            async with h.bell.transaction() as tx:
                await h.bell.enqueue(tx, "t.well")
            await play(h, attempts, timedelta(0))
        await h.advance(timedelta(minutes=2))
    assert well.numbers == [1] * len(errors)
    assert attempts.numbers == [1] * len(errors) + [2] * len(errors)
    failed = await owner.log("pending")
    assert {re.split(r"[:\n]", row["error"])[0] for row in failed} == {
        type(error).__name__ for error in errors
    }


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_that_is_no_outcome_is_a_dead_job(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    garbage: list[object] = [
        "done",
        True,
        {"state": "done"},
        Done,
        Snooze(until=datetime(2027, 1, 1)),
        Snooze(cursor={"at": object()}),
        Snooze(cursor={"nul": "\x00"}),
        Snooze(cursor=["not", "an", "object"]),  # type: ignore[arg-type]
        Snooze(delay=5),  # type: ignore[arg-type]
        Snooze(reason=None),  # type: ignore[arg-type]
        Retry(None),  # type: ignore[arg-type]
        Retry("x", after=5),  # type: ignore[arg-type]
        Retry("x", "unheard of"),  # type: ignore[arg-type]
        Dead(None),  # type: ignore[arg-type]
        Cancel(7),  # type: ignore[arg-type]
    ]
    attempts = Attempts(*garbage)
    app = App(name="t", handlers={"t.try": attempts.handler(mode=mode)})
    async with harness(database_url.url, [app]) as h:
        for _ in garbage:
            await play(h, attempts, timedelta(0))
        await h.advance(timedelta(hours=1))
        assert h.engine.worker.is_idle()
    assert attempts.numbers == [1] * len(garbage)
    dead = await owner.rows("SELECT * FROM timebell.dead_jobs")
    assert [row["reason"] for row in dead] == ["bad outcome"] * len(garbage)


@pytest.mark.parametrize("mode", MODES)
async def test_an_error_that_cannot_be_stored_as_it_is_holds_nothing_up(
    database_url: TestDatabase, owner: Owner, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # What is logged in a test travels to the process that reports, which takes no half of a surrogate pair.
    caplog.set_level(logging.CRITICAL, logger="timebell")
    answers = [Retry("a\x00b\ud800"), Retry("x" * 100_000), Dead("a\x00b"), ValueError("a\x00\udfff")]
    attempts = Attempts(*answers)
    app = App(name="t", handlers={"t.try": attempts.handler(mode=mode)})
    async with harness(database_url.url, [app]) as h:
        for _ in answers:
            await play(h, attempts, timedelta(0), max_attempts=1)
    dead = await owner.rows("SELECT * FROM timebell.dead_jobs")
    assert len(dead) == len(answers)
    assert all(0 < len(row["error"]) <= 4_000 and "\x00" not in row["error"] for row in dead)


@pytest.mark.req("J-13.3")
async def test_errors_that_differ_only_in_numbers_have_one_fingerprint(
    database_url: TestDatabase, owner: Owner
) -> None:
    errors = [ValueError("order 17 at 0xdeadbeef"), ValueError("order 4 at 0xcafe"), KeyError("order")]
    attempts = Attempts(*errors)
    async with harness(database_url.url, [App(name="t", handlers={"t.try": attempts.handler()})]) as h:
        for _ in errors:
            await play(h, attempts, timedelta(0), max_attempts=1)
    dead = await owner.rows("SELECT * FROM timebell.dead_jobs ORDER BY error")
    assert [row["error"].split(":")[0] for row in dead] == ["KeyError", "ValueError", "ValueError"]
    assert dead[0]["fingerprint"] != dead[1]["fingerprint"] == dead[2]["fingerprint"]


@pytest.mark.req("M-5.3", "S-2.5", "J-0.1", "U-1")
@pytest.mark.parametrize("mode", MODES)
async def test_three_nodes_run_each_job_once(cluster: Cluster, mode: Any) -> None:
    """The trigger only enqueues, in its own transaction; the work runs wherever its slot is read."""
    running: set[int] = set()
    ran: list[int] = []

    async def work(job: Job) -> None:
        number = job.payload["number"]
        assert number not in running, "two nodes run one job"
        running.add(number)
        await asyncio.sleep(0)
        running.discard(number)
        ran.append(number)

    async def trigger(job: Job) -> None:
        for number in range(200):
            await nodes[0].bell.enqueue(job.tx, "t.work", {"number": number})

    app = App(
        name="t",
        handlers={
            "t.trigger": Handler(run=trigger, mode="transactional"),
            "t.work": Handler(run=work, mode=mode, queue="work"),
        },
        queues=[Queue(name="work")],
    )
    nodes = [await cluster.node([app]) for _ in range(3)]
    for _ in range(3):
        for node in nodes:
            await node.engine.beat()
    assert sorted(len(node.engine.node.owned) for node in nodes) == [85, 85, 86]
    async with nodes[0].bell.transaction() as tx:
        await nodes[0].bell.enqueue(tx, "t.trigger")
    for _ in range(2):
        await asyncio.gather(*(node.run_due() for node in nodes))
    assert sorted(ran) == list(range(200))
    assert all(node.engine.worker.counters.done > 20 for node in nodes), "not all nodes took part"
