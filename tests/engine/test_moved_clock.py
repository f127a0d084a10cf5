"""The clock in the test's hand decides everything: what is due, late, expired, tried again, lapsed and pruned."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import asyncpg
import pytest
from structlog.contextvars import get_contextvars

from timebell import App, Done, Enqueue, Handler, Job, Outcome, Queue, Retry, RetryPolicy, Snooze, Step
from timebell.kernel.insights.insights import Insights
from timebell.testing import Harness, ManualClock, assert_enqueued, assert_not_enqueued, harness
from timebell.testing.database import TestDatabase
from timebell.testing.fixtures import HarnessFactory

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MONTH = 30 * DAY


class Diary:
    """An app that writes down what ran when."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines: list[tuple[str, datetime]] = []
        self.jobs: list[Job] = []
        self.app = App(
            name="diary",
            handlers={
                "diary.note": Handler(run=self._note, mode="external"),
                "diary.monthly": Handler(run=self._monthly, mode="transactional"),
                "diary.fail": Handler(
                    run=self._fail, retry=RetryPolicy(delays=(HOUR, DAY, MONTH), max_attempts=4)
                ),
            },
        )

    def _write(self, job: Job) -> None:
        self.lines.append((job.payload.get("what", job.kind), self.clock.now))
        self.jobs.append(job)

    async def _note(self, job: Job) -> Outcome:
        self._write(job)
        return Done()

    async def _monthly(self, job: Job) -> Outcome:
        self._write(job)
        month = (job.cursor or {"month": 0})["month"] + 1
        return Done() if month == 12 else Snooze(delay=MONTH, cursor={"month": month})

    async def _fail(self, job: Job) -> Outcome:
        self._write(job)
        return Retry("it never works")


@pytest.fixture
def diary() -> Diary:
    return Diary()


async def rows(database: TestDatabase, statement: str) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return [dict(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close(timeout=10)


@pytest.mark.req("U-14")
async def test_a_year_passes_by_the_clock_alone(database_url: TestDatabase, diary: Diary) -> None:
    clock = diary.clock
    start = clock.now
    async with harness(database_url.url, [diary.app], clock=clock, dead_days=90) as bench:
        bell = bench.bell
        async with bell.transaction() as tx:
            await bell.enqueue(tx, "diary.note", {"what": "year"}, delay=365 * DAY)
            await bell.enqueue(tx, "diary.monthly")
            await bell.enqueue(tx, "diary.fail")
            await bell.enqueue(tx, "diary.note", {"what": "keyed"}, key="k", key_lifetime=60 * DAY)
            await bell.set_agenda(
                tx,
                subject="visit:1",
                anchor=start + 100 * DAY,
                steps=[
                    Step(key="day", kind="diary.note", offset=-DAY, payload={"what": "day"}),
                    Step(key="hour", kind="diary.note", offset=-HOUR, payload={"what": "hour"}),
                ],
            )
        await bench.advance(31 * DAY + 2 * HOUR)
        await bench.engine.pruner.tick()
        dead = await rows(database_url, "SELECT died_at FROM timebell.dead_jobs")
        assert [row["died_at"] for row in dead] == [start + HOUR + DAY + MONTH]
        assert await _is_key_free(bench) is False
        await bench.advance(to=start + 61 * DAY)
        assert await _is_key_free(bench) is True
        await bench.advance(to=start + 365 * DAY)
        await bench.engine.pruner.tick()
        assert await rows(database_url, "SELECT died_at FROM timebell.dead_jobs") == []
        await assert_not_enqueued(bench, "diary.note")
    happened = {what: [at - start for what_, at in diary.lines if what_ == what] for what, _ in diary.lines}
    assert happened == {
        "year": [365 * DAY],
        "diary.monthly": [month * MONTH for month in range(12)],
        "diary.fail": [timedelta(0), HOUR, HOUR + DAY, HOUR + DAY + MONTH],
        "keyed": [timedelta(0)],
        "day": [99 * DAY],
        "hour": [100 * DAY - HOUR],
    }
    logged = await rows(database_url, "SELECT started_at, finished_at FROM timebell.job_log")
    assert {row["finished_at"] for row in logged} == {at for _, at in diary.lines}
    assert all(row["started_at"] == row["finished_at"] for row in logged)


async def _is_key_free(bench: Harness) -> bool:
    """Asked in a transaction that is rolled back, so that asking changes nothing."""
    connection = await asyncpg.connect(bench.bell.database.url, timeout=10)
    try:
        await connection.execute("BEGIN")
        tx = bench.bell.join(connection)
        asked = await bench.bell.enqueue(tx, "diary.note", {"what": "keyed"}, key="k", on_conflict="keep")
        return asked.created
    finally:
        await connection.close(timeout=10)


@pytest.mark.req("U-14")
async def test_the_clock_does_not_move_by_itself(database_url: TestDatabase, diary: Diary) -> None:
    async with harness(database_url.url, [diary.app], clock=diary.clock) as bench:
        async with bench.bell.transaction() as tx:
            await bench.bell.enqueue(tx, "diary.note", delay=timedelta(microseconds=1))
        assert await bench.run_due() == 0
        await assert_enqueued(bench, "diary.note")
        assert await bench.advance(timedelta(microseconds=1)) == 1


@pytest.mark.req("U-14")
async def test_what_a_handler_asks_of_a_limited_queue_begins_at_that_instant(
    database_url: TestDatabase, diary: Diary
) -> None:
    """Nobody could ask for its starts before, and there is nothing else due that would bring it up."""

    async def ask(job: Job) -> None:
        await bench.bell.enqueue_many(job.tx, [Enqueue(kind="bulk.send") for _ in range(3)])

    async def send(job: Job) -> None:
        diary.lines.append(("sent", diary.clock.now))

    handlers = {
        "bulk.ask": Handler(run=ask, mode="transactional"),
        "bulk.send": Handler(run=send, queue="bulk"),
    }
    app = App(name="bulk", handlers=handlers, queues=[Queue(name="bulk", rate=10)])
    due_at = diary.clock.now + HOUR
    async with harness(database_url.url, [app], clock=diary.clock) as bench:
        async with bench.bell.transaction() as tx:
            await bench.bell.enqueue(tx, "bulk.ask", due_at=due_at)
        await bench.advance(DAY)
    begun = [at for _, at in diary.lines]
    assert begun[0] == due_at
    gaps = [after - before for before, after in pairwise(begun)]
    # A little further apart than the rate says, because a start may come a little after its instant.
    assert len(gaps) == 2
    assert all(100_000 <= gap / timedelta(microseconds=1) <= 107_000 for gap in gaps)


@pytest.mark.req("U-10")
@pytest.mark.parametrize(
    ("step", "late_by", "runs"),
    [
        ({"late": "skip"}, timedelta(0), True),
        ({"late": "skip"}, timedelta(microseconds=1), False),
        ({"late": "run"}, 90 * DAY, True),
        ({"late": "grace", "grace": HOUR}, HOUR, True),
        ({"late": "grace", "grace": HOUR}, HOUR + timedelta(microseconds=1), False),
        ({"late": "run", "expires_after": HOUR}, HOUR - timedelta(microseconds=1), True),
        ({"late": "run", "expires_after": HOUR}, HOUR, False),
        ({"late": "grace", "grace": 2 * HOUR, "expires_after": HOUR}, HOUR, False),
    ],
)
async def test_a_step_that_is_stated_late(
    timebell_harness: HarnessFactory, diary: Diary, step: dict[str, Any], late_by: timedelta, runs: bool
) -> None:
    start = diary.clock.now
    async with timebell_harness([diary.app], clock=diary.clock) as bench:
        async with bench.bell.transaction() as tx:
            diff = await bench.bell.set_agenda(
                tx,
                subject="visit:1",
                anchor=start,
                steps=[Step(key="then", kind="diary.note", offset=-late_by, **step)],
            )
        await bench.run_due()
    assert [at for _, at in diary.lines] == ([start] if runs else [])
    assert (len(diff.added), len(diff.skipped)) == ((1, 0) if runs else (0, 1))


@pytest.mark.req("U-10")
async def test_a_step_that_was_stated_in_time_runs_after_an_outage(
    timebell_harness: HarnessFactory, diary: Diary
) -> None:
    """`late` is about stating a step; for an outage `expires_after` says how long it still makes sense."""
    async with timebell_harness([diary.app], clock=diary.clock) as bench, bench.bell.transaction() as tx:
        await bench.bell.set_agenda(
            tx,
            subject="visit:1",
            anchor=diary.clock.now + HOUR,
            steps=[
                Step(key="lasting", kind="diary.note", offset=timedelta(0), payload={"what": "lasting"}),
                Step(key="brief", kind="diary.note", offset=timedelta(0), expires_after=MINUTE),
            ],
        )
    diary.clock.move(3 * HOUR)
    async with timebell_harness([diary.app], clock=diary.clock) as bench:
        await bench.run_due()
    assert diary.lines == [("lasting", diary.clock.now)]


@pytest.mark.req("J-13.4", "U-16")
async def test_one_correlation_id_from_the_cause_to_the_last_effect(
    database_url: TestDatabase, diary: Diary
) -> None:
    """What caused a job, the job itself, each attempt, its events and what it enqueued carry the same id."""

    logged_with: list[object] = []

    async def answer(job: Job) -> Outcome:
        logged_with.append(get_contextvars())
        if job.attempt == 1:
            return Retry("not yet")
        await bench.bell.record(
            job.tx, "visit.answered", subject=job.subject, correlation_id=job.correlation_id
        )
        await bench.bell.enqueue(
            job.tx, "diary.note", subject=job.subject, correlation_id=job.correlation_id, delay=HOUR
        )
        return Done()

    app = App(name="visit", handlers={"visit.answer": Handler(run=answer, mode="transactional")})
    async with harness(database_url.url, [diary.app, app], clock=diary.clock) as bench:
        async with bench.bell.transaction() as tx:
            cause = await bench.bell.record(tx, "visit.asked", subject="visit:1", correlation_id="request-7")
            first = await bench.bell.enqueue(
                tx, "visit.answer", subject="visit:1", correlation_id="request-7"
            )
        await bench.advance(DAY)
        journey = await Insights(bench.bell.database, diary.clock).journey("default", first.id)
    assert [job.correlation_id for job in diary.jobs] == ["request-7"]
    named = {"job_id": str(first.id), "kind": "visit.answer", "correlation_id": "request-7"}
    assert logged_with == [named, named]
    logged = await rows(database_url, "SELECT state, correlation_id FROM timebell.job_log")
    assert [row["state"] for row in logged].count("done") == 2
    assert {row["correlation_id"] for row in logged} == {"request-7"}
    events = await rows(database_url, "SELECT id, name, correlation_id FROM timebell.events ORDER BY id")
    assert [(row["name"], row["correlation_id"]) for row in events] == [
        ("visit.asked", "request-7"),
        ("visit.answered", "request-7"),
    ]
    assert events[0]["id"] == cause
    assert journey is not None
    assert journey.job.correlation_id == "request-7"
    told = [entry.details.get("name", entry.what) for entry in journey.entries]
    assert {"visit.asked", "visit.answered"} <= set(told)
