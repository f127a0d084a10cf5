"""Each occurrence of a task schedule has one task, which follows it and goes with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from tests.apps.reminders.support import DAY, HOUR, MINUTE, NOW, WEEK, Desk
from timebell.apps.reminders.models import NewTask
from timebell.apps.reminders.rules import Wanted
from timebell.apps.reminders.store import ReminderStore

FRIDAY = datetime(2026, 3, 6, 16, 0, tzinfo=UTC)


async def owed(ada: Desk, id: object) -> list[tuple[object, datetime]]:
    """The tasks that there should be: one for each planned occurrence to come."""
    found = await ada.occurrences(id)  # type: ignore[arg-type]
    return [(one.id, one.occurs_at) for one in found if one.state == "planned"]


async def linked(ada: Desk) -> list[tuple[object, datetime | None]]:
    tasks = sorted(await ada.list(), key=lambda task: task.due_at or NOW)
    return [(task.occurrence_id, task.due_at) for task in tasks]


@pytest.mark.req("R-4.6", "R-2.5")
async def test_each_occurrence_has_one_task_as_soon_as_it_is_planned(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY", show_before_minutes=1440)
    tasks = await ada.list()
    assert len(tasks) == len(await owed(ada, made.schedule.id)) > 7
    assert await linked(ada) == await owed(ada, made.schedule.id)
    first = tasks[0]
    assert (first.title, first.description, first.due_at) == ("Submit report", "", FRIDAY)
    assert (first.category, first.duration, first.priority) == (None, None, None)
    assert first.visible_from == FRIDAY - DAY
    assert first.schedule_id == made.schedule.id


@pytest.mark.req("R-4.6")
async def test_tasks_go_on_as_the_planner_does(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    before = {task.id for task in await ada.list()}
    await ada.harness.advance(10 * WEEK)
    assert await linked(ada) == await owed(ada, made.schedule.id)
    after = {task.id for task in await ada.list()}
    assert before < after
    assert len(after) >= len(before) + 9


@pytest.mark.req("R-4.6")
async def test_what_an_edit_leaves_to_the_planner_has_its_tasks_soon_after(ada: Desk) -> None:
    """More than are planned at once, though nobody meant to look before next week."""
    made = await ada.create(recurrence="FREQ=WEEKLY")
    await ada.edit(made.schedule.id, recurrence="FREQ=HOURLY;INTERVAL=2", offsets=())
    await ada.harness.advance(2 * MINUTE)
    (count,) = await ada.rows(
        "SELECT (SELECT count(*) FROM timebell.occurrences) AS planned, "
        "(SELECT count(*) FROM reminders.task_links) AS linked"
    )
    assert count["linked"] == count["planned"] > 500


async def test_a_planner_that_is_late_is_not_looked_for_each_minute(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    assert made.schedule.plan_at is not None
    for late, wait in ((timedelta(0), MINUTE), (8 * HOUR, 8 * HOUR)):
        ada.clock.move_to(made.schedule.plan_at + late)
        async with ada.harness.bell.transaction() as tx:
            schedule = await ada.reminders.hold(tx, ada.person, made.schedule.id)
            assert await ada.tasks.keep(tx, schedule) == ada.clock.now + wait


async def test_a_reminder_has_no_task(ada: Desk) -> None:
    await ada.create(kind="reminder", recurrence="FREQ=DAILY")
    await ada.harness.advance(DAY)
    assert await ada.list() == ()
    assert await ada.rows("SELECT 1 FROM timebell.jobs WHERE kind = 'reminders.keep_tasks'") == []


@pytest.mark.req("R-6.2", "X-R6")
async def test_an_edit_of_the_time_leaves_one_task_for_each_day(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    before = [task.id for task in await ada.list()]
    changed = await ada.edit(made.schedule.id, start_local=datetime(2026, 3, 6, 18, 0))
    assert changed.schedule.revision == 2
    assert await linked(ada) == await owed(ada, made.schedule.id)
    assert [task.id for task in await ada.list()] == before
    assert (await ada.list())[0].due_at == FRIDAY + HOUR


@pytest.mark.req("R-6.2")
async def test_what_was_completed_is_kept_by_an_edit(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    first, second = (await ada.list())[:2]
    done = await ada.complete(second.id)
    await ada.edit(made.schedule.id, start_local=datetime(2026, 3, 6, 18, 0))
    tasks = {task.id: task for task in await ada.list()}
    assert tasks[second.id].completed_at == done.completed_at == NOW
    assert sum(task.due_at == FRIDAY + WEEK + HOUR for task in tasks.values()) == 1
    # To other days nothing goes over: what was completed stays where it was, what was not is gone.
    await ada.edit(made.schedule.id, start_local=datetime(2026, 3, 3, 18, 0))
    tasks = {task.id: task for task in await ada.list()}
    assert first.id not in tasks
    assert tasks[second.id].due_at == FRIDAY + WEEK + HOUR
    open_tasks = [(task.occurrence_id, task.due_at) for task in tasks.values() if task.completed_at is None]
    assert open_tasks == await owed(ada, made.schedule.id)


async def test_another_title_and_another_lead_reach_the_open_tasks(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY;COUNT=3")
    first = (await ada.list())[0]
    await ada.complete(first.id)
    await ada.edit(made.schedule.id, title="Send report", show_before_minutes=60)
    titles = [(task.title, task.show_before_due_time) for task in await ada.list()]
    assert titles == [("Submit report", 0), ("Send report", 60), ("Send report", 60)]
    # What was done follows its occurrence to another time, under the name that it was done under.
    await ada.edit(made.schedule.id, title="File report", start_local=datetime(2026, 3, 6, 18, 0))
    tasks = await ada.list()
    assert [task.title for task in tasks] == ["Submit report", "File report", "File report"]
    assert tasks[0].due_at == FRIDAY + HOUR


async def test_what_is_done_while_its_schedule_is_changed_stays(ada: Desk) -> None:
    """Who changes the schedule has read the task before it was done."""
    await ada.create(recurrence="FREQ=WEEKLY;COUNT=2")
    done, left = await ada.list()
    await ada.complete(done.id)
    async with ada.harness.bell.transaction() as tx:
        await ReminderStore(ada.clock).remove_tasks(tx, [done.id, left.id])
    assert [task.id for task in await ada.list()] == [done.id]


@pytest.mark.req("R-6.3", "X-R9")
async def test_an_end_takes_away_what_is_to_come_and_leaves_what_is_past(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    tasks = await ada.list()
    await ada.complete(tasks[2].id)
    await ada.harness.advance(WEEK)
    await ada.end(made.schedule.id)
    assert [task.id for task in await ada.list()] == [tasks[0].id, tasks[2].id]
    assert [one.occurs_at for one in await ada.occurrences(made.schedule.id)] == [FRIDAY]
    assert await ada.rows("SELECT 1 FROM timebell.jobs") == []


async def test_a_task_follows_an_occurrence_that_is_moved_and_goes_with_one_that_is_skipped(
    ada: Desk,
) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    first, second = (await ada.list())[:2]
    await ada.move(made.schedule.id, datetime(2026, 3, 6, 17, 0), datetime(2026, 3, 9, 9, 0))
    moved = next(task for task in await ada.list() if task.id == first.id)
    assert (moved.occurrence_id, moved.due_at) == (
        first.occurrence_id,
        datetime(2026, 3, 9, 8, 0, tzinfo=UTC),
    )
    await ada.skip(made.schedule.id, datetime(2026, 3, 13, 17, 0))
    assert second.id not in {task.id for task in await ada.list()}
    assert await linked(ada) == await owed(ada, made.schedule.id)


async def test_a_schedule_may_become_a_task_and_a_reminder_again(ada: Desk) -> None:
    made = await ada.create(kind="reminder", recurrence="FREQ=WEEKLY")
    await ada.edit(made.schedule.id, kind="task")
    await ada.harness.advance(3 * WEEK)
    assert len(await ada.list()) > 8
    await ada.edit(made.schedule.id, kind="reminder")
    assert len(await ada.list()) == 3
    await ada.harness.advance(3 * WEEK)
    assert len(await ada.list()) == 3


@pytest.mark.req("R-4.6", "R-8.2", "X-R16")
async def test_looking_again_doubles_nothing(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=DAILY")
    before = await ada.list()
    for _ in range(3):
        async with ada.harness.bell.transaction() as tx:
            schedule = await ada.reminders.hold(tx, ada.person, made.schedule.id)
            await ada.tasks.keep(tx, schedule)
    assert await ada.list() == before


@pytest.mark.req("R-2.5", "R-3.3")
async def test_a_second_task_for_an_occurrence_is_not_made(ada: Desk) -> None:
    made = await ada.create()
    (task,) = await ada.list()
    (one,) = await ada.occurrences(made.schedule.id)
    wanted = Wanted(occurrence_id=one.id, original_local=one.original_local, occurs_at=one.occurs_at)
    async with ada.harness.bell.transaction() as tx:
        count = await ReminderStore(ada.clock).add_tasks(
            tx,
            schedule_id=made.schedule.id,
            user_id=ada.person,
            title="Twin",
            show_before_due_time=0,
            ids=[uuid4()],
            wanted=[wanted],
        )
    assert count == 0
    assert await ada.list() == (task,)
    assert task.occurrence_id == one.id


@pytest.mark.req("X-R16")
async def test_two_who_change_one_schedule_wait_for_each_other(ada: Desk) -> None:
    made = await ada.create()
    bell = ada.harness.bell
    async with bell.transaction() as first:
        await ada.reminders.hold(first, ada.person, made.schedule.id)
        async with bell.transaction() as second:
            await second.session.execute("SET LOCAL lock_timeout = '50ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await ada.reminders.hold(second, ada.person, made.schedule.id)
            await second.session.execute("ROLLBACK")


@pytest.mark.req("R-2.1", "R-8.4", "X-R10")
async def test_the_database_keeps_visible_from(ada: Desk) -> None:
    async with ada.harness.bell.transaction() as tx:
        task = await ada.tasks.add(
            tx, ada.person, NewTask(title="A", due_at=FRIDAY, show_before_due_time=1440), actor="test"
        )
        bare = await ada.tasks.add(tx, ada.person, NewTask(title="B", due_at=FRIDAY), actor="test")
        timeless = await ada.tasks.add(
            tx, ada.person, NewTask(title="C", show_before_due_time=60), actor="test"
        )
    assert task.visible_from == FRIDAY - DAY
    assert bare.visible_from == FRIDAY
    assert timeless.visible_from is None
    await ada.rows("UPDATE reminders.tasks SET due_at = due_at + interval '1 hour' WHERE id = $1", task.id)
    for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata"):
        (row,) = await ada.rows(
            f"SELECT set_config('timezone', '{zone}', true), visible_from FROM reminders.tasks WHERE id = $1",
            task.id,
        )
        assert row["visible_from"] == FRIDAY - DAY + HOUR


@pytest.mark.req("R-7.1", "X-R24", "X-C10")
async def test_a_task_is_listed_from_the_instant_on_that_it_may_be_seen(ada: Desk) -> None:
    await ada.create(show_before_minutes=60)
    async with ada.harness.bell.transaction() as tx:
        timeless = await ada.tasks.add(tx, ada.person, NewTask(title="Some day"), actor="test")
    await ada.harness.advance(to=FRIDAY - HOUR - timedelta(seconds=1))
    assert [task.id for task in await ada.list(is_all=False)] == [timeless.id]
    await ada.harness.advance(timedelta(seconds=1))
    assert len(await ada.list(is_all=False)) == 2


async def test_a_task_is_completed_once(ada: Desk) -> None:
    await ada.create()
    (task,) = await ada.list()
    first = await ada.complete(task.id)
    await ada.harness.advance(MINUTE)
    assert (await ada.complete(task.id)).completed_at == first.completed_at == NOW
    names = await ada.rows("SELECT name FROM timebell.events WHERE subject = $1", f"task:{task.id}")
    assert [row["name"] for row in names] == ["task.completed"]
    assert [one.id for one in await ada.list(is_completed=True)] == [task.id]
    assert await ada.list(is_completed=False) == ()


@pytest.mark.req("X-C9")
async def test_nobody_is_reminded_of_what_is_done(ada: Desk) -> None:
    await ada.create()
    (task,) = await ada.list()
    await ada.harness.advance(to=FRIDAY - DAY)
    assert len(await ada.inbox()) == 2
    await ada.complete(task.id)
    await ada.harness.advance(WEEK)
    assert len(await ada.inbox()) == 2


@pytest.mark.req("R-2.2")
async def test_what_a_person_had_goes_when_it_is_erased(ada: Desk) -> None:
    ended = await ada.create(recurrence="FREQ=WEEKLY")
    await ada.end(ended.schedule.id)
    await ada.create(recurrence="FREQ=DAILY")
    await ada.harness.advance(2 * WEEK)
    async with ada.harness.bell.transaction() as tx:
        await ada.notify.recipients.erase(tx, ada.person)
    assert await ada.rows("SELECT 1 FROM reminders.tasks") == []
    assert await ada.rows("SELECT 1 FROM reminders.task_links") == []
    for table in ("jobs", "schedules", "occurrences"):
        assert await ada.rows(f"SELECT 1 FROM timebell.{table}") == []
