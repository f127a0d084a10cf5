"""A guard is asked just before its job would act, and what it says is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Owner
from timebell.kernel import App, Handler, Job, Refused, Step
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
MODES = ("plain", "transactional", "external")


class Doorkeeper:
    """A guard and a handler that note when they were asked and in which transaction."""

    def __init__(self, wanted: bool | Refused = True) -> None:
        self.wanted = wanted
        self.errors: list[Exception] = []
        self.asked: list[tuple[str, object]] = []

    async def guard(self, job: Job) -> bool | Refused:
        self.asked.append(("guard", job.transaction))
        if self.errors:
            raise self.errors.pop()
        return self.wanted

    async def run(self, job: Job) -> None:
        self.asked.append(("run", job.transaction))

    def app(self, mode: Any) -> App:
        async def guard(job: Job) -> bool | Refused:
            return await self.guard(job)

        async def run(job: Job) -> None:
            await self.run(job)

        return App(name="t", handlers={"t.run": Handler(run=run, mode=mode)}, guards={"t.wanted": guard})

    def order(self) -> list[str]:
        return [name for name, _ in self.asked]


async def enqueue(h: Harness, **options: Any) -> None:
    async with h.bell.transaction() as tx:
        await h.bell.enqueue(tx, "t.run", delay=HOUR, **options)


@pytest.mark.req("U-4")
@pytest.mark.parametrize("mode", MODES)
async def test_a_guard_is_asked_when_the_job_is_due_and_before_it_acts(
    database_url: TestDatabase, mode: Any
) -> None:
    door = Doorkeeper()
    async with harness(database_url.url, [door.app(mode)]) as h:
        await enqueue(h, guard="t.wanted")
        await h.advance(HOUR - timedelta(microseconds=1))
        assert door.order() == []
        await h.advance(timedelta(microseconds=1))
    assert door.order() == ["guard", "run"]
    transactions = {transaction for _, transaction in door.asked}
    assert len(transactions) == 1, "the guard looks at what the handler will act on"
    assert (transactions == {None}) is (mode != "transactional")


@pytest.mark.req("U-4")
@pytest.mark.parametrize("answer", [False, Refused("she has left")], ids=["no", "why"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_guard_that_says_no_cancels_the_job_and_gives_the_reason(
    database_url: TestDatabase, owner: Owner, mode: Any, answer: bool | Refused
) -> None:
    door = Doorkeeper(wanted=answer)
    async with harness(database_url.url, [door.app(mode)]) as h:
        await enqueue(h, guard="t.wanted", key="once")
        await h.advance(2 * HOUR)
    assert door.order() == ["guard"]
    (entry,) = await owner.log()
    words = "the guard t.wanted said no" + (": she has left" if isinstance(answer, Refused) else "")
    assert (entry["state"], entry["reason"]) == ("cancelled", words)
    assert await owner.jobs() == []
    assert await owner.value("SELECT count(*) FROM timebell.job_keys") == 0


@pytest.mark.parametrize("mode", MODES)
async def test_a_guard_that_fails_is_asked_again_later(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    door = Doorkeeper()
    door.errors = [ConnectionError("no answer")]
    async with harness(database_url.url, [door.app(mode)]) as h:
        await enqueue(h, guard="t.wanted")
        await h.advance(2 * HOUR)
    assert door.order() == ["guard", "guard", "run"]
    (failed,) = await owner.log("pending")
    assert failed["error"].startswith("guard t.wanted: ConnectionError: no answer")


@pytest.mark.parametrize("mode", MODES)
async def test_a_guard_that_nobody_brought_is_waited_for_and_costs_no_attempt(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    """As in an upgrade, in which some processes have it already; the last of them has it here."""
    door = Doorkeeper()
    without = replace(door.app(mode), guards={})
    async with harness(database_url.url, [without], clock=ManualClock(START)) as h:
        await enqueue(h, guard="t.wanted", max_attempts=1)
        await h.advance(HOUR + 10 * MINUTE)
    assert door.order() == []
    failed = await owner.log("pending")
    assert {each["error"] for each in failed} == {
        "no guard is registered as 't.wanted'; load the app that brings it"
    }
    assert 5 <= len(failed) <= 11, "once every minute or two"
    async with harness(
        database_url.url, [door.app(mode)], clock=ManualClock(START + HOUR + 10 * MINUTE)
    ) as h:
        await h.advance(3 * MINUTE)
    assert door.order() == ["guard", "run"]
    assert await owner.jobs() == []


async def test_a_guard_that_fails_is_not_held_against_the_destination(
    database_url: TestDatabase, owner: Owner
) -> None:
    door = Doorkeeper()
    door.errors = [ConnectionError("no answer") for _ in range(20)]

    async def guard(job: Job) -> bool | Refused:
        return await door.guard(job)

    async def call(job: Job) -> None: ...

    handler = Handler(run=call, mode="external", destination="bank")
    app = App(name="t", handlers={"t.run": handler}, guards={"t.wanted": guard})
    async with harness(database_url.url, [app]) as h:
        for _ in range(20):
            await enqueue(h, guard="t.wanted")
        await h.advance(HOUR)
    assert len(await owner.log("pending")) == 20
    assert await owner.rows("SELECT * FROM timebell.breakers") == []


@pytest.mark.req("U-4")
async def test_a_step_asks_its_guard_at_every_attempt(database_url: TestDatabase, owner: Owner) -> None:
    """The meeting was called off between the failed attempt and the next."""
    answers, ran = [True, False], []

    async def still_on(job: Job) -> bool:
        return answers.pop(0)

    async def remind(job: Job) -> None:
        ran.append(job.attempt)
        raise ConnectionError("no answer")

    app = App(name="t", handlers={"t.remind": remind}, guards={"t.still_on": still_on})
    async with harness(database_url.url, [app]) as h:
        async with h.bell.transaction() as tx:
            await h.bell.set_agenda(
                tx,
                subject="meeting:1",
                anchor=h.clock.now + 2 * HOUR,
                steps=[Step(key="1h", kind="t.remind", offset=-HOUR, guard="t.still_on")],
            )
        await h.advance(3 * HOUR)
    assert ran == [1]
    assert [row["state"] for row in await owner.log()] == ["pending", "cancelled"]
