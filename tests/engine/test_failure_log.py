"""A failed attempt is told: in the log at full length once, and beside the job until the next one."""

from __future__ import annotations

import asyncio
import traceback
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.log_lines import kept_lines
from timebell.engine.worker.failure_log import describe
from timebell.kernel import App, Enqueue, Handler, Job, Retry
from timebell.kernel.insights.insights import Insights
from timebell.testing.database import TestDatabase
from timebell.testing.harness import Harness, harness

SECRET = "the payload is nobody's business"


async def ring(job: Job) -> None:
    secret = job.payload["secret"]
    print(gest, secret)  # type: ignore[name-defined]  # noqa: F821


async def ask_again(job: Job) -> Retry:
    return Retry(f"call {job.payload['n']} was not answered")


def stand_still(job: Job) -> None:
    raise SystemExit(3)


APP = App(
    name="t",
    handlers={
        "t.ring": Handler(run=ring, mode="plain"),
        "t.in_transaction": Handler(run=ring, mode="transactional"),
        "t.outside": Handler(run=ring, mode="external"),
        "t.ask": Handler(run=ask_again, mode="plain"),
        "t.thread": Handler(run=stand_still, mode="plain"),
    },
)


async def enqueue(h: Harness, kind: str, count: int = 1, **more: Any) -> list[UUID]:
    asked = [Enqueue(kind=kind, payload={"n": n, "secret": SECRET}, **more) for n in range(count)]
    async with h.bell.transaction() as tx:
        return [each.id for each in await h.bell.enqueue_many(tx, asked)]


def told(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["log_level"], line["event"]) for line in lines]


@pytest.mark.parametrize("kind", ["t.ring", "t.in_transaction", "t.outside"])
async def test_the_first_failed_attempt_is_told_with_its_traceback(
    database_url: TestDatabase, kind: str
) -> None:
    async with harness(database_url.url, [APP]) as h:
        with kept_lines() as lines:
            (id,) = await enqueue(h, kind, correlation_id="order-7")
            await h.run_due()
    [line] = [each for each in lines if each["event"] == "an attempt failed"]
    assert line["log_level"] == "warning"
    assert (line["job_id"], line["kind"], line["attempt"]) == (str(id), kind, 1)
    assert line["correlation_id"] == "order-7"
    assert line["error"] == "NameError: name 'gest' is not defined"
    assert line["at"].startswith(f"{__file__}:")
    assert line["again_in_seconds"] > 0
    shown = "".join(traceback.format_exception(*line["exc_info"]))
    assert "print(gest, secret)" in shown
    assert "executor.py" not in shown, "the way to the handler is the same for every error"
    assert SECRET not in shown + str(line)


async def test_what_fails_alike_is_told_once_and_then_counted(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [APP], max_attempts=100) as h:
        with kept_lines() as lines:
            await enqueue(h, "t.ring", 50)
            await enqueue(h, "t.ask", 50)
            await h.run_due()
            assert told(lines) == [("warning", "an attempt failed")] * 2
            del lines[:]
            h.clock.move(timedelta(minutes=2))
            await h.engine.worker.look_around()
        assert told(lines) == [("warning", "attempts failed as before")] * 2
        assert {(line["kind"], line["count"]) for line in lines} == {("t.ring", 49), ("t.ask", 49)}
        with kept_lines() as lines:
            h.clock.move(timedelta(hours=1))
            await h.engine.worker.look_around()
            assert lines == []
            await h.run_due()
        assert ("warning", "an attempt failed") in told(lines), "after an hour at full length again"


async def test_what_was_counted_is_told_at_the_end(database_url: TestDatabase) -> None:
    with kept_lines() as lines:
        async with harness(database_url.url, [APP]) as h:
            await enqueue(h, "t.thread", 3)
            await h.run_due()
    assert told(lines) == [("warning", "an attempt failed"), ("warning", "attempts failed as before")]
    assert lines[0]["error"] == "SystemExit: 3"
    assert lines[1]["count"] == 2


async def test_the_attempt_that_ends_a_job_is_an_error_with_its_traceback(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [APP]) as h:
        with kept_lines() as lines:
            await enqueue(h, "t.ring", 2, max_attempts=1)
            await h.run_due()
    errors = [line for line in lines if line["log_level"] == "error"]
    assert sorted(line["event"] for line in errors) == ["a job is dead", "a job is dead", "an attempt failed"]
    [failed] = [line for line in errors if line["event"] == "an attempt failed"]
    assert failed["exc_info"][0] is NameError


async def test_one_that_ran_out_of_time_says_where_it_stood(database_url: TestDatabase) -> None:
    async def wait(job: Job) -> None:
        await asyncio.Event().wait()

    app = App(name="t", handlers={"t.wait": Handler(run=wait, timeout=timedelta(seconds=1))})
    async with harness(database_url.url, [app]) as h, asyncio.timeout(20):
        await enqueue(h, "t.wait")
        with kept_lines() as lines:
            h.engine.worker.sweep()
            while not h.engine.worker.attempts.running:
                await h.engine.worker.tick()
                await asyncio.sleep(0)
            h.clock.move(timedelta(seconds=2))
            await h.run_due()
    [line] = [each for each in lines if each["event"] == "an attempt failed"]
    assert line["error"] == "timed out after 1 s"
    assert "asyncio.Event().wait()" in "".join(traceback.format_exception(*line["exc_info"]))


async def test_the_last_error_is_shown_while_the_job_waits_for_the_next_attempt(
    database_url: TestDatabase,
) -> None:
    async with harness(database_url.url, [APP]) as h:
        (id,) = await enqueue(h, "t.ring", subject="guest:1", key="k")
        (other,) = await enqueue(h, "t.ask", delay=timedelta(days=1))
        await h.run_due()
        insights = Insights(h.bell.database, h.clock)
        pages = [
            await insights.jobs("default"),
            await insights.jobs("default", oldest_first=True),
            await insights.jobs("default", subject="guest:1"),
            await insights.jobs("default", kind="t.ring", key="k"),
        ]
        shown = [line for page in pages for line in page.lines if line.id == id]
        one = await insights.job("default", id)
        journey = await insights.journey("default", id)
        untried = await insights.job("default", other)
    assert len(shown) == 4
    assert one is not None
    assert journey is not None
    for line in [*shown, one, journey.job]:
        assert (line.state, line.error_class) == ("pending", "transient")
        assert line.error is not None
        first, *rest = line.error.splitlines()
        assert first == "NameError: name 'gest' is not defined"
        assert f'File "{__file__}", line' in rest[0]
        assert SECRET not in line.error
    assert untried is not None
    assert untried.error is None


def test_a_described_error_is_bounded_and_keeps_where_it_was_raised() -> None:
    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError("x" * 100_000)

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    try:
        deep(50)
    except ValueError as error:
        text = describe(error)
    assert len(text) < 4_000
    assert text.rstrip().endswith('raise ValueError("x" * 100_000)')
    assert describe(Mute()) == "Mute: (its text cannot be made)"
