"""What is no longer worth doing is not done: expiry, and what happens to steps that are late."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Cluster, Owner, passes_until
from timebell.kernel import App, Enqueue, Handler, Job, Queue, Step
from timebell.testing import harness
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
MODES = ("plain", "transactional", "external")


class Diary:
    """Notes what ran and when, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.ran: list[tuple[str | None, datetime]] = []
        self.clock: Any = None

    def app(self, mode: Any = "plain", **options: Any) -> App:
        async def run(job: Job) -> None:
            self.ran.append((job.step, self.clock.now))
            if self.failures:
                self.failures -= 1
                raise ConnectionError("no answer")

        return App(
            name="t", handlers={"t.run": Handler(run=run, mode=mode, **options)}, queues=[Queue(name="q")]
        )


@pytest.mark.req("U-11")
@pytest.mark.parametrize("mode", MODES)
async def test_a_job_past_its_expiry_ends_as_expired_and_does_not_run(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    """No node was there in time."""
    diary = Diary()
    async with harness(database_url.url, [diary.app(mode)]) as h:
        diary.clock = h.clock
        async with h.bell.transaction() as tx:
            for key, minutes in (("late", 10), ("at the instant", 60), ("in time", 61)):
                await h.bell.enqueue(
                    tx, "t.run", delay=MINUTE, expires_at=h.clock.now + minutes * MINUTE, key=key
                )
        h.clock.move(60 * MINUTE)
        await h.run_due()
        assert len(diary.ran) == 1
    log = {row["key"]: (row["state"], row["reason"], row["attempt"]) for row in await owner.log()}
    assert log == {
        "late": ("expired", "expired", 0),
        "at the instant": ("expired", "expired", 0),
        "in time": ("done", None, 1),
    }
    assert await owner.jobs() == []
    assert await owner.value("SELECT count(*) FROM timebell.job_keys") == 0, "the key is free again"


@pytest.mark.req("U-11")
@pytest.mark.parametrize("mode", MODES)
async def test_a_retry_after_the_expiry_is_not_made(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    diary = Diary(failures=1)
    async with harness(database_url.url, [diary.app(mode)]) as h:
        diary.clock = h.clock
        async with h.bell.transaction() as tx:
            await h.bell.enqueue(tx, "t.run", expires_at=h.clock.now + timedelta(seconds=30))
        await h.advance(60 * MINUTE)
    assert len(diary.ran) == 1
    assert [row["state"] for row in await owner.log()] == ["pending", "expired"]


@pytest.mark.req("U-11")
async def test_what_expires_between_the_choice_and_the_start_does_not_start(
    cluster: Cluster, owner: Owner
) -> None:
    """The lock asks again, not only the node's memory."""
    diary = Diary()
    diary.clock = cluster.clock
    node = await cluster.node([diary.app("transactional")])
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.run", expires_at=cluster.clock.now + timedelta(seconds=10))
    hold = node.stage.hold("after", "BEGIN")
    await node.run_until(hold)
    cluster.clock.move(timedelta(seconds=11))
    await node.go_on(hold)
    await node.run_due()
    assert diary.ran == []
    assert [row["state"] for row in await owner.log()] == ["expired"]


@pytest.mark.req("U-10")
@pytest.mark.parametrize(
    ("late", "grace", "behind", "runs"),
    [
        ("skip", timedelta(0), timedelta(seconds=1), False),
        ("run", timedelta(0), timedelta(days=3), True),
        ("grace", 10 * MINUTE, 9 * MINUTE, True),
        ("grace", 10 * MINUTE, 11 * MINUTE, False),
    ],
)
async def test_a_step_that_is_stated_late_runs_now_or_is_skipped_as_it_says(
    database_url: TestDatabase, late: Any, grace: timedelta, behind: timedelta, runs: bool
) -> None:
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        step = Step(key="reminder", kind="t.run", at=h.clock.now - behind, late=late, grace=grace)
        async with h.bell.transaction() as tx:
            diff = await h.bell.set_agenda(tx, subject="meeting:1", steps=[step])
        await h.run_due()
        assert diary.ran == ([("reminder", h.clock.now)] if runs else [])
    assert [change.key for change in (diff.added if runs else diff.skipped)] == ["reminder"]


@pytest.mark.req("U-10", "U-11")
async def test_a_step_whose_node_was_away_runs_late_or_expires(
    database_url: TestDatabase, owner: Owner
) -> None:
    """Three hours without a node: what has an expiry has passed it, and the rest is made up for, oldest first."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        anchor = h.clock.now + 60 * MINUTE
        steps = [
            Step(key="-30", kind="t.run", offset=-30 * MINUTE, expires_after=20 * MINUTE),
            Step(key="0", kind="t.run", offset=0 * MINUTE),
            Step(key="-15", kind="t.run", offset=-15 * MINUTE),
        ]
        async with h.bell.transaction() as tx:
            await h.bell.set_agenda(tx, subject="meeting:1", anchor=anchor, steps=steps)
        h.clock.move(180 * MINUTE)
        await h.run_due()
    assert [step for step, _ in diary.ran] == ["-15", "0"]
    assert {row["step"]: row["state"] for row in await owner.log()} == {
        "-30": "expired",
        "-15": "done",
        "0": "done",
    }


@pytest.mark.req("M-5.2", "J-0.4")
async def test_delayed_jobs_run_each_at_its_own_instant_and_the_oldest_first(
    database_url: TestDatabase,
) -> None:
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        start = h.clock.now
        delays = [timedelta(milliseconds=37 * number * number) for number in range(40)]
        async with h.bell.transaction() as tx:
            for delay in reversed(delays):
                await h.bell.enqueue(tx, "t.run", delay=delay)
        await h.advance(MINUTE)
    assert [at - start for _, at in diary.ran] == delays


@pytest.mark.req("M-5.2")
@pytest.mark.parametrize("mode", ["plain", "external"])
async def test_what_was_due_while_no_node_was_there_begins_oldest_first_a_hundred_at_once(
    database_url: TestDatabase, mode: Any
) -> None:
    """250, written in another order than they are due in: a hundred, a hundred and fifty."""
    begun: list[datetime] = []
    over = asyncio.Event()

    async def run(job: Job) -> None:
        begun.append(job.due_at)
        await over.wait()

    app = App(name="t", handlers={"t.run": Handler(run=run, mode=mode)})
    async with harness(database_url.url, [app]) as h:
        clock, start = h.clock, h.clock.now
        due = [start + timedelta(seconds=1 + number * 97 % 250) for number in range(250)]
        async with h.bell.transaction() as tx:
            await h.bell.enqueue_many(tx, [Enqueue(kind="t.run", due_at=at) for at in due])
    clock.move(10 * MINUTE)
    async with harness(database_url.url, [app], clock=clock, concurrency=100, tenant_share=1) as h:
        assert h.bell.settings.sweep_seconds <= 0.5
        await h.engine.worker.look_around()
        for number in (100, 200, 250):
            await passes_until(h.engine, lambda number=number: len(begun) >= number)  # type: ignore[misc]
            for _ in range(5):
                # There is no place for more, however often it looks.
                await h.engine._pass(0.01)
            assert begun == sorted(due)[:number]
            over.set()
            over = asyncio.Event()
        over.set()
        await h.run_due()


@pytest.mark.req("U-3")
async def test_a_delayed_job_is_cancelled_by_the_id_that_was_given_for_it(
    database_url: TestDatabase, owner: Owner
) -> None:
    names = (
        "weekly-payments",
        "timesheet-notifications",
        "timesheet-auto-approval",
        "dispute-timeout",
        "dispute-resolution-payment-retry",
    )
    ran: list[str] = []

    async def run(job: Job) -> None:
        ran.append(job.queue)

    app = App(name="t", handlers={"t.run": run}, queues=[Queue(name=name) for name in names])
    async with harness(database_url.url, [app]) as h:
        async with h.bell.transaction() as tx:
            ids = [(await h.bell.enqueue(tx, "t.run", queue=name, delay=MINUTE)).id for name in names]
        async with h.bell.transaction() as tx:
            (answer,) = await h.bell.cancel(tx, id=ids[3], reason="settled")
        assert answer.answer == "cancelled"
        await h.advance(MINUTE)
    assert sorted(ran) == sorted(set(names) - {"dispute-timeout"})
    assert [(row["id"], row["reason"]) for row in await owner.log("cancelled")] == [(ids[3], "settled")]
