"""The checklist of the source, point for point."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.apps.reminders.support import DAY, HOUR, NOW, WEEK, Desk

FRIDAY = datetime(2026, 3, 6, 16, 0, tzinfo=UTC)
HOURS = (48, 24, 12, 6, 3)


@pytest.mark.req("R-8.1")
async def test_weekly_at_nine_across_both_changes_of_the_clocks(ada: Desk) -> None:
    made = await ada.create(
        kind="reminder", start_local=datetime(2026, 3, 2, 9, 30), recurrence="FREQ=WEEKLY", offsets=(0,)
    )
    await ada.harness.advance(35 * WEEK)
    seen = [one.occurs_at for one in await ada.occurrences(made.schedule.id)]
    # In Berlin it is always half past nine; in UTC half past seven while the clocks there are forward.
    for at in seen:
        is_summer = datetime(2026, 3, 29, 1, tzinfo=UTC) <= at < datetime(2026, 10, 25, 1, tzinfo=UTC)
        assert (at.hour, at.minute) == (7 if is_summer else 8, 30)
    told = [line.due_at for line in await ada.inbox()]
    assert told == [at for at in seen if at <= ada.clock.now]
    assert len(told) == 35


@pytest.mark.req("R-8.2")
async def test_planning_again_makes_nothing_twice(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    before = (await ada.occurrences(made.schedule.id), await ada.jobs(), await ada.list())
    for _ in range(3):
        async with ada.harness.bell.transaction() as tx:
            await ada.harness.bell.schedules.replan(tx, made.schedule.id, reason="again")
        await ada.harness.run_due()
    assert (await ada.occurrences(made.schedule.id), await ada.jobs(), await ada.list()) == before


@pytest.mark.req("R-8.3", "R-6.2")
async def test_an_edit_raises_the_revision_and_plans_anew(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    before = await ada.jobs()
    changed = await ada.edit(made.schedule.id, start_local=datetime(2026, 3, 6, 18, 0))
    assert changed.schedule.revision == made.schedule.revision + 1 == 2
    assert await ada.jobs() == [(minutes, at + HOUR) for minutes, at in before]


@pytest.mark.req("R-8.4")
async def test_a_task_may_be_seen_a_day_before(ada: Desk) -> None:
    await ada.create(show_before_minutes=1440)
    assert [task.visible_from for task in await ada.list()] == [FRIDAY - DAY]


@pytest.mark.req("R-8.5", "R-6.1", "R-3.1")
async def test_a_task_on_friday_at_five_has_a_row_and_five_jobs(ada: Desk) -> None:
    made = await ada.create()
    assert made.schedule.revision == 1
    assert [task.due_at for task in await ada.list()] == [FRIDAY]
    assert await ada.jobs() == [(hours * 60, FRIDAY - hours * HOUR) for hours in HOURS]


@pytest.mark.req("R-8.6", "X-R2")
async def test_a_weekly_reminder_has_one_job_for_each_occurrence_within_the_horizon(ada: Desk) -> None:
    made = await ada.create(kind="reminder", recurrence="FREQ=WEEKLY", offsets=(0,))
    planned = [one.occurs_at for one in await ada.occurrences(made.schedule.id)]
    assert await ada.jobs() == [(0, at) for at in planned]
    assert len(planned) in (8, 9)
    assert planned[-1] < NOW + 60 * DAY <= planned[-1] + WEEK


@pytest.mark.req("R-8.7", "R-3.7", "R-2.6")
async def test_what_is_due_comes_into_the_inbox(ada: Desk) -> None:
    made = await ada.create()
    (occurrence,) = await ada.occurrences(made.schedule.id)
    await ada.harness.advance(to=FRIDAY - 48 * HOUR - timedelta(seconds=1))
    assert await ada.inbox() == ()
    await ada.harness.advance(timedelta(seconds=1))
    (line,) = await ada.inbox()
    assert (line.title, line.description, line.type) == ("Submit report", "In 48 hours", "reminder")
    assert (line.status, line.priority) == ("unseen", "normal")
    assert line.due_at == line.created_at == line.updated_at == FRIDAY - 48 * HOUR
    assert line.payload == {
        "schedule_id": str(made.schedule.id),
        "occurrence_id": str(occurrence.id),
        "original_local": "2026-03-06T17:00:00",
        "occurs_at": FRIDAY.isoformat(),
        "offset_minutes": 2880,
        "title": "Submit report",
        "kind": "task",
    }
