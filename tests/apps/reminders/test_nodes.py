"""Several nodes, and one that dies: each reminder is told once, and each task is there once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.apps.reminders.support import DAY, Desk
from timebell.apps.reminders import APP
from timebell.apps.reminders.models import OFFSETS
from timebell.kernel import Schedule
from timebell.notify import notify_app
from timebell.testing import harness

FRIDAY = datetime(2026, 3, 6, 16, 0, tzinfo=UTC)
COUNT = 60


@pytest.mark.req("R-3.6")
async def test_two_nodes_tell_each_reminder_once(ada: Desk) -> None:
    for number in range(COUNT):
        await ada.create(kind="reminder", title=f"{number}", offsets=(0,))
    async with harness(
        ada.database.url, [notify_app([]), APP], clock=ada.clock, node_name="second", seed=2
    ) as other:
        await ada.harness.engine.beat()
        await other.engine.beat()
        ada.clock.move_to(FRIDAY)
        for _ in range(20):
            await asyncio.gather(ada.harness.run_due(), other.run_due())
            if len(await ada.inbox()) == COUNT:
                break
    assert sorted(int(line.title) for line in await ada.inbox()) == list(range(COUNT))
    (told,) = await ada.rows(
        "SELECT count(*) AS count, count(DISTINCT node) AS nodes FROM timebell.job_log WHERE kind = 'notify.deliver'"
    )
    assert (told["count"], told["nodes"]) == (COUNT, 2)


@pytest.mark.req("X-R1")
async def test_what_a_node_left_is_told_by_the_next(ada: Desk) -> None:
    await ada.create()
    # It stops in order before anything was due; what is owed stays in the database.
    await ada.harness.engine.stop()
    ada.clock.move_to(FRIDAY - timedelta(hours=48))
    async with harness(
        ada.database.url, [notify_app([]), APP], clock=ada.clock, node_name="next", seed=3
    ) as later:
        await later.run_due()
        assert len(await ada.inbox()) == 1
        await later.advance(5 * DAY)
    assert [line.payload["offset_minutes"] for line in await ada.inbox()] == list(OFFSETS)
    assert len(await ada.list()) == 1


async def test_who_edits_a_schedule_may_change_the_job_that_waits_for_it(
    ada: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each would wait for the other, until the database gives one of them up."""
    made = await ada.create(recurrence="FREQ=WEEKLY")
    (job,) = await ada.rows("SELECT run_at FROM timebell.jobs WHERE kind = 'reminders.keep_tasks'")
    schedules = type(ada.harness.bell.schedules)
    hold, has_begun = schedules.hold, asyncio.Event()

    async def noted(*arguments: Any) -> Schedule:
        has_begun.set()
        return await hold(*arguments)

    async with ada.harness.bell.transaction() as tx:
        await ada.reminders.hold(tx, ada.person, made.schedule.id)
        monkeypatch.setattr(schedules, "hold", noted)
        ada.clock.move_to(job["run_at"])
        keeping = asyncio.create_task(ada.harness.run_due())
        async with asyncio.timeout(10):
            await has_begun.wait()
        await tx.connection.execute(
            "SELECT FROM timebell.jobs WHERE kind = 'reminders.keep_tasks' FOR UPDATE NOWAIT"
        )
    await keeping


@pytest.mark.req("R-4.6")
async def test_edits_and_the_keeper_at_once_leave_one_task_each(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=DAILY")
    ada.clock.move_to(ada.clock.now + DAY)

    async def keep() -> None:
        async with ada.harness.bell.transaction() as tx:
            schedule = await ada.reminders.hold(tx, ada.person, made.schedule.id)
            await ada.tasks.keep(tx, schedule)

    await asyncio.gather(
        keep(),
        ada.edit(made.schedule.id, start_local=datetime(2026, 3, 6, 18, 0)),
        keep(),
        ada.edit(made.schedule.id, start_local=datetime(2026, 3, 6, 19, 0)),
        keep(),
    )
    ahead = [one for one in await ada.occurrences(made.schedule.id) if one.occurs_at >= ada.clock.now]
    tasks = sorted((task.occurrence_id, task.due_at) for task in await ada.list() if task.due_at)
    assert tasks == sorted((one.id, one.occurs_at) for one in ahead)
