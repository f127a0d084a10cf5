"""An engine that is driven from instant to instant does what one does that looks everywhere each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from tests.engine.planner_support import schedule, utc, wall
from timebell import App, Done, Enqueue, Handler, Job, Outcome, Queue, Retry, RetryPolicy, Snooze, Step
from timebell.clock import Chance, ManualClock, SandboxClock
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.engine import Engine
from timebell.engine.advancing import advance
from timebell.errors import InvalidInput, NaiveInstant
from timebell.kernel import Registry, Timebell
from timebell.testing import assert_enqueued, harness
from timebell.testing.database import DatabaseFactory, TestDatabase

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
START = utc(2026, 3, 1)


class World:
    """An app with everything that becomes due in an unusual way, and a diary of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.lines: list[tuple[datetime, str]] = []

    def app(self) -> App:
        brief = RetryPolicy(delays=(MINUTE, HOUR), max_attempts=3)
        return App(
            name="world",
            handlers={
                "world.note": self._note,
                "world.keep": Handler(run=self._note, mode="transactional"),
                "world.send": Handler(run=self._note, mode="external", queue="limited"),
                "world.ask": Handler(run=self._ask, mode="transactional"),
                "world.try": Handler(run=self._try, retry=brief, mode="external"),
                "world.again": self._again,
            },
            queues=[Queue(name="limited", rate=2)],
        )

    def _write(self, job: Job) -> None:
        self.lines.append((self.clock.now, f"{job.kind} {job.payload.get('n', '')} {job.step or ''}".strip()))

    async def _note(self, job: Job) -> None:
        self._write(job)

    async def _ask(self, job: Job) -> None:
        """What it asks for is due at once, soon and later, some of it where the limit of a queue is in the way."""
        self._write(job)
        jobs = [Enqueue(kind="world.send", payload={"n": n}) for n in range(3)]
        jobs += [
            Enqueue(kind="world.note", payload={"n": s}, delay=timedelta(seconds=s)) for s in (0, 1, 3600)
        ]
        await job.bell.enqueue_many(job.tx, jobs)

    async def _try(self, job: Job) -> Outcome:
        self._write(job)
        return Done() if job.attempt == 3 else Retry("not yet")

    async def _again(self, job: Job) -> Outcome:
        self._write(job)
        times = (job.cursor or {"times": 0})["times"] + 1
        return Done() if times == 4 else Snooze(delay=6 * HOUR, cursor={"times": times})

    async def owe(self, bell: Timebell) -> None:
        async with bell.transaction() as tx:
            for hour in (0, 1, 30):
                await bell.enqueue(tx, "world.ask", due_at=START + hour * HOUR)
            await bell.enqueue(tx, "world.try", due_at=START + 2 * HOUR)
            await bell.enqueue(tx, "world.again")
            steps = [
                Step(key=f"s{n}", kind="world.keep", offset=-n * HOUR, ordered=True, payload={"n": n})
                for n in range(4)
            ]
            await bell.set_agenda(tx, subject="visit:1", anchor=START + 2 * DAY, steps=steps)
        for minute in (0, 7):
            steps = [Step(key=f"o{hours}", kind="world.note", offset=-hours * HOUR) for hours in (48, 3, 0)]
            await schedule(
                bell,
                recurrence="FREQ=WEEKLY",
                start_local=wall(2026, 3, 5, 9, minute),
                timezone="Europe/Berlin",
                steps=steps,
            )


@asynccontextmanager
async def attending(url: str, world: World) -> AsyncIterator[Engine]:
    database = await Database.open(url)
    bell = Timebell(
        database, registry=Registry([world.app()]), settings=Settings(), clock=world.clock, chance=Chance(1)
    )
    engine = Engine(bell)
    try:
        await engine.attend()
        yield engine
    finally:
        await engine.stop()
        await bell.close()
        await database.close()


async def look_everywhere(engine: Engine, clock: ManualClock, to: datetime) -> int:
    """The long way: at each instant as if nothing were known."""
    settled = await engine.run_due()
    while (instant := await engine.next_instant()) is not None and instant < to:
        clock.move_to(instant)
        settled += await engine.run_due()
    clock.move_to(to)
    return settled + await engine.run_due()


@pytest.mark.req("U-14")
async def test_the_short_way_leads_to_the_same(
    database_url: TestDatabase, databases: DatabaseFactory, template: None
) -> None:
    """Eight weeks, over the change of clocks: each thing at the same instant, whichever way the engine looks."""
    until = START + 56 * DAY
    long, short = World(ManualClock(START)), World(ManualClock(START))
    attended = World(SandboxClock(START))
    async with harness(database_url.url, [long.app()], clock=long.clock) as bench:
        await long.owe(bench.bell)
        settled = await look_everywhere(bench.engine, long.clock, until)
    second, third = await databases.create(), await databases.create()
    async with harness(second.url, [short.app()], clock=short.clock) as bench:
        await short.owe(bench.bell)
        assert await bench.advance(to=until) == settled
    async with attending(third.url, attended) as engine:
        await attended.owe(engine.bell)
        assert await advance(engine, attended.clock, until) == settled
    await databases.drop(second)
    await databases.drop(third)
    assert len(short.lines) > 60
    assert sorted(short.lines) == sorted(attended.lines) == sorted(long.lines)
    for world in (short, attended):
        assert [at for at, _ in world.lines] == sorted(at for at, _ in world.lines)


async def test_an_engine_that_attends_runs_nothing_by_itself(database_url: TestDatabase) -> None:
    world = World(SandboxClock(START))
    async with attending(database_url.url, world) as engine:
        async with engine.bell.transaction() as tx:
            await engine.bell.enqueue(tx, "world.note")
        await engine.worker.look_around()
        await assert_enqueued(engine.bell, "world.note")
        assert engine.complaints() == []
        assert await engine.run_due() == 1
    assert world.lines == [(START, "world.note")]


async def test_what_others_write_meanwhile_is_done_at_its_time(database_url: TestDatabase) -> None:
    """They have connections of their own, and may come from another process."""
    world = World(SandboxClock(START))
    other_database = await Database.open(database_url.url)
    other = Timebell(other_database, registry=Registry([world.app()]), clock=world.clock)

    async def moved(instant: datetime) -> None:
        async with other.transaction() as tx:
            if instant == START + HOUR:
                await other.enqueue(tx, "world.note", {"n": "at once"})
                await other.enqueue(tx, "world.note", {"n": "later"}, due_at=START + 2 * HOUR)

    try:
        async with attending(database_url.url, world) as engine:
            async with engine.bell.transaction() as tx:
                await engine.bell.enqueue(tx, "world.note", {"n": "first"}, delay=HOUR)
            await advance(engine, world.clock, START + DAY, moved=moved)
    finally:
        await other.close()
        await other_database.close()
    at = {what.split(" ", 1)[1]: when - START for when, what in world.lines}
    assert at["first"] == HOUR
    assert at["later"] == 2 * HOUR
    # Nobody but a wake-up tells of it before the next look everywhere; it is late, and not lost.
    assert HOUR <= at["at once"] <= DAY


async def test_whoever_is_told_of_an_instant_may_end_the_way_there(database_url: TestDatabase) -> None:
    world = World(SandboxClock(START))

    async def moved(instant: datetime) -> None:
        if instant > START + HOUR:
            raise InvalidInput("far enough")

    async with attending(database_url.url, world) as engine:
        async with engine.bell.transaction() as tx:
            for hours in (1, 2, 3):
                await engine.bell.enqueue(tx, "world.note", delay=hours * HOUR)
        with pytest.raises(InvalidInput, match="far enough"):
            await advance(engine, world.clock, START + DAY, moved=moved)
        await assert_enqueued(engine.bell, "world.note", count=2)
    assert world.lines == [(START + HOUR, "world.note")]


@pytest.mark.parametrize(
    ("to", "error"),
    [(START - timedelta(microseconds=1), InvalidInput), (wall(2026, 4, 1), NaiveInstant)],
)
async def test_time_goes_forward_only(
    database_url: TestDatabase, to: datetime, error: type[InvalidInput]
) -> None:
    world = World(SandboxClock(START))
    async with attending(database_url.url, world) as engine:
        with pytest.raises(error, match="to: "):
            await advance(engine, world.clock, to)
    assert world.clock.now == START
