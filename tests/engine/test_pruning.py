"""What has outlived its use is removed, and nothing before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.planner_support import Diary, occurrences, schedule, utc, wall
from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine import pruner
from timebell.kernel import App, Dead, Job, Step
from timebell.testing import harness
from timebell.testing.database import TestDatabase

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


class Reminders:
    """Agendas of one step each, which may run up to an hour late."""

    def __init__(self) -> None:
        self.ran: list[UUID] = []
        self.app = App(name="t", handlers={"t.remind": self._remind})

    async def _remind(self, job: Job) -> None:
        self.ran.append(job.id)

    async def state(self, node: ClusterNode, subject: str, due_in: timedelta) -> None:
        clock = node.bell.clock
        step = Step(key="a", kind="t.remind", offset=timedelta(0), late="grace", grace=HOUR)
        now = clock.sql_now()
        assert now is not None
        async with node.bell.transaction() as tx:
            await node.bell.set_agenda(tx, subject=subject, anchor=now + due_in, steps=[step])


async def test_what_a_long_planned_agenda_paid_lately_is_remembered(cluster: Cluster, owner: Owner) -> None:
    """It was stated long ago, but stated again within the grace its step would be done twice."""
    reminders = Reminders()
    node = await cluster.node([reminders.app], dead_days=30)
    await reminders.state(node, "s:1", 60 * DAY)
    cluster.clock.move(60 * DAY)
    await node.run_due()
    await node.engine.pruner.tick()
    cluster.clock.move(HOUR / 2)
    await reminders.state(node, "s:1", -HOUR / 2)
    await node.run_due()
    assert len(reminders.ran) == 1

    cluster.clock.move(31 * DAY)
    await node.engine.pruner.tick()
    assert await owner.value("SELECT count(*) FROM timebell.agendas") == 0
    assert await owner.value("SELECT count(*) FROM timebell.agenda_done") == 0


async def test_a_dead_job_is_there_for_as_many_days_as_were_said(cluster: Cluster, owner: Owner) -> None:
    async def die(job: Job) -> Dead:
        return Dead("as asked")

    node = await cluster.node([App(name="t", handlers={"t.die": die})], dead_days=30)
    async with node.bell.transaction() as tx:
        await node.bell.enqueue(tx, "t.die")
    await node.run_due()
    left = []
    for passed in (0 * DAY, 30 * DAY, HOUR):
        cluster.clock.move(passed)
        await node.engine.pruner.tick()
        left.append(await owner.value("SELECT count(*) FROM timebell.dead_jobs"))
    assert left == [1, 1, 0]


@pytest.mark.parametrize("apart", [HOUR, timedelta(0)], ids=["one after the other", "at one instant"])
async def test_old_agendas_that_still_owe_are_passed_a_few_at_a_time(
    cluster: Cluster, owner: Owner, monkeypatch: pytest.MonkeyPatch, apart: timedelta
) -> None:
    """There may be millions of them, and what lies behind them is found all the same."""
    monkeypatch.setattr(pruner, "_ROWS_MAX", 2)
    reminders = Reminders()
    node = await cluster.node([reminders.app], dead_days=30)
    for number in range(5):
        await reminders.state(node, f"owes:{number}", 100 * DAY)
        cluster.clock.move(apart)
    await reminders.state(node, "paid", timedelta(0))
    await node.run_due()
    cluster.clock.move(40 * DAY)
    for left in (6, 6, 5):
        assert await node.engine.pruner.tick() == 1.0
        assert await owner.value("SELECT count(*) FROM timebell.agendas") == left
    assert await node.engine.pruner.tick() == pruner.EVERY_SECONDS


async def test_old_occurrences_go_with_what_was_changed_about_them(
    database_url: TestDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few at a time. The clock stands at 5 January, and a week is done, skipped or moved before anything is old."""
    monkeypatch.setattr(pruner, "_ROWS_MAX", 3)
    diary = Diary()
    async with harness(database_url.url, [diary.app()], dead_days=30) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 6, 9))
        async with h.bell.transaction() as tx:
            for day in (7, 30):
                await h.bell.schedules.override(tx, made.schedule.id, wall(2026, 1, day, 9), skip=True)
            for day in (8, 9):
                await h.bell.schedules.override(
                    tx, made.schedule.id, wall(2026, 1, day, 9), start_local=wall(2026, 1, day, 10)
                )
            await h.bell.schedules.edit(tx, made.schedule.id, exdates=[wall(2026, 1, 9, 9)])
        await h.advance(to=utc(2026, 2, 19, 9, 30))
        done = list(diary.lines)
        for _ in range(60):
            if await h.engine.pruner.tick() == pruner.EVERY_SECONDS:
                break
        rows = await occurrences(owner)
        assert rows[0]["original_local"] == wall(2026, 1, 21, 9)
        assert [row["original_local"].day for row in await _overrides(owner)] == [30]
        await owner.connection.execute("UPDATE timebell.schedules SET plan_at = created_at")
        await h.run_due()
        assert await occurrences(owner) == rows
        assert diary.lines == done


async def test_an_occurrence_stays_that_could_be_planned_again(
    database_url: TestDatabase, owner: Owner
) -> None:
    """It was moved here from a year away. When the planner comes there, only this says that it is done."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()], dead_days=30) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=YEARLY", start_local=wall(2027, 1, 6, 9))
        async with h.bell.transaction() as tx:
            await h.bell.schedules.override(
                tx, made.schedule.id, wall(2027, 1, 6, 9), start_local=wall(2026, 1, 6, 9)
            )
        await h.advance(to=utc(2026, 6, 1))
        await h.engine.pruner.tick()
        assert await owner.value("SELECT count(*) FROM timebell.agendas") == 0
        assert len(await occurrences(owner)) == len(await _overrides(owner)) == 1
        await h.advance(to=utc(2028, 1, 7))
        assert diary.originals == ["2027-01-06T09:00:00", "2028-01-06T09:00:00"]
        await h.engine.pruner.tick()
        assert [row["original_local"] for row in await occurrences(owner)] == [wall(2028, 1, 6, 9)]
        assert await _overrides(owner) == []


async def test_nothing_goes_that_the_planner_has_not_passed(database_url: TestDatabase, owner: Owner) -> None:
    """The planner was away for long, and what it will find is still to be compared with what there is."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()], dead_days=30) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 6, 9))
        async with h.bell.transaction() as tx:
            await h.bell.schedules.override(tx, made.schedule.id, wall(2026, 1, 8, 9), skip=True)
            await h.bell.schedules.override(
                tx, made.schedule.id, wall(2026, 1, 7, 9), start_local=wall(2026, 1, 12, 8)
            )
        await h.advance(to=utc(2026, 3, 1))
        await owner.connection.execute("UPDATE timebell.schedules SET planned_until = $1", utc(2026, 1, 8, 9))
        await h.engine.pruner.tick()
        assert (await _originals(owner))[:2] == ["2026-01-06", "2026-01-08"]
        assert len(await _overrides(owner)) == 2
        await owner.connection.execute(
            "UPDATE timebell.schedules SET planned_until = $1", utc(2026, 1, 12, 8)
        )
        await h.engine.pruner.tick()
        assert (await _originals(owner))[:2] == ["2026-01-10", "2026-01-11"]
        assert "2026-01-07" in await _originals(owner)
        assert [row["original_local"].day for row in await _overrides(owner)] == [7]


async def test_an_occurrence_stays_while_something_is_owed_about_it(
    database_url: TestDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be many of them, and what lies behind them is found all the same."""
    monkeypatch.setattr(pruner, "_ROWS_MAX", 2)
    diary = Diary()
    later = Step(key="later", kind="t.remind", offset=60 * DAY)
    async with harness(database_url.url, [diary.app()], dead_days=30) as h:
        diary.clock = h.clock
        await schedule(
            h.bell, recurrence="FREQ=DAILY;COUNT=5", start_local=wall(2026, 1, 6, 9), steps=[later]
        )
        await schedule(h.bell, start_local=wall(2026, 1, 12, 9))
        await h.advance(to=utc(2026, 3, 1))
        for _ in range(4):
            await h.engine.pruner.tick()
        assert await _originals(owner) == [f"2026-01-{day:02}" for day in range(6, 11)]


async def _originals(owner: Owner) -> list[str]:
    return [row["original_local"].date().isoformat() for row in await occurrences(owner)]


async def _overrides(owner: Owner) -> list[dict[str, Any]]:
    return await owner.rows("SELECT * FROM timebell.occurrence_overrides ORDER BY original_local")
