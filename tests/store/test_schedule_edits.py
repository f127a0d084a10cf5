"""Editing schedules: the past is history, what is kept keeps its jobs, and the answer says what changed."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import orjson
import pytest

from tests.store.schedule_support import DAY, at, call, daily, days, lists, local, pending, states, step
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, RecurrenceError
from timebell.kernel import Timebell


async def test_what_is_the_same_is_kept_with_its_jobs(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell)
    before = await tables.jobs()
    change = await call(bell, "edit", schedule.id, owner="anna")
    assert lists(change) == {"kept": {**at(2, ["start"]), **days(3, 4, 5)}}
    assert await tables.jobs() == before
    assert (change.schedule.owner, change.schedule.revision) == ("anna", 2)


@pytest.mark.req("R-4.4")
async def test_a_count_stays_what_it_was(bell: Timebell, clock: StillClock, tables: Tables) -> None:
    schedule = await daily(bell, count=2)
    clock.now = NOW + 1.5 * DAY
    change = await call(bell, "edit", schedule.id, owner="anna", payload={"title": "Bins"})
    assert list(lists(change)["kept"]) == ["2027-03-03T12:00"]
    assert list(await states(tables)) == ["2027-03-02T12:00", "2027-03-03T12:00"]


@pytest.mark.req("R-4.12")
async def test_a_new_recurrence_keeps_the_wall_times_that_it_shares(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell)
    change = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;INTERVAL=2;COUNT=3")
    assert lists(change) == {
        "kept": {**at(2, ["start"]), **at(4)},
        "added": at(6),
        "withdrawn": days(3, 5),
    }
    assert list(await states(tables)) == ["2027-03-02T12:00", "2027-03-04T12:00", "2027-03-06T12:00"]
    assert len(await pending(tables)) == 5


async def test_what_is_withdrawn_and_comes_back_is_the_same_occurrence(
    bell: Timebell, tables: Tables
) -> None:
    schedule = await daily(bell)
    ids = {row["id"] for row in await tables.rows("SELECT id FROM timebell.occurrences")}
    await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;INTERVAL=2;COUNT=2")
    change = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=4")
    assert lists(change)["added"] == days(3, 5)
    assert {row["id"] for row in await tables.rows("SELECT id FROM timebell.occurrences")} == ids


async def test_what_was_done_is_not_done_again(bell: Timebell, clock: StillClock, tables: Tables) -> None:
    schedule = await daily(bell)
    clock.now = NOW + 1.5 * DAY
    for job in await tables.jobs("due_at < $1", clock.now):
        await tables.finish(job["id"])
    change = await call(bell, "edit", schedule.id, payload={"title": "Bins"})
    assert lists(change) == {"kept": {**at(3, ["start"]), **at(4), **at(5)}}
    await call(bell, "edit", schedule.id, recurrence="FREQ=YEARLY")
    back = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=4")
    assert lists(back)["added"] == {**at(3, ["start"]), **days(4, 5)}


async def test_another_timezone_moves_what_is_to_come(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    schedule = await daily(bell, steps=[step("start", 0)])
    clock.now = NOW + 1.5 * DAY
    change = await call(bell, "edit", schedule.id, timezone="America/New_York")
    assert lists(change) == {"moved": days(3, 4, 5, steps=["start"])}
    moved = change.diff.moved[0]
    assert moved.was_at is not None
    assert moved.occurs_at - moved.was_at == 5 * HOUR
    rows = await tables.rows("SELECT occurs_at FROM timebell.occurrences ORDER BY occurs_at")
    assert [row["occurs_at"].hour for row in rows] == [12, 17, 17, 17]
    assert [job["due_at"].hour for job in await tables.jobs("due_at > $1", clock.now)] == [17, 17, 17]


async def test_what_is_past_is_not_owed_again_where_clocks_are_behind(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    schedule = await daily(bell, steps=[step("start", 0)])
    clock.now = datetime.fromisoformat("2027-03-02T13:00Z")
    change = await call(bell, "edit", schedule.id, timezone="America/New_York")
    assert list(lists(change)["moved"]) == ["2027-03-03T12:00", "2027-03-04T12:00", "2027-03-05T12:00"]
    assert "added" not in lists(change)
    assert await tables.value("SELECT occurs_at FROM timebell.occurrences ORDER BY 1") == clock.now - HOUR


async def test_other_steps_change_every_occurrence(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3)
    change = await call(bell, "edit", schedule.id, steps=[step("eve", -30), step("hour", -1)])
    assert lists(change) == {
        "kept": {**at(2, []), **days(3, 4, steps=["eve"])},
        "added": days(2, 3, 4, steps=["hour"]),
        "withdrawn": days(2, 3, 4, steps=["start"]),
    }
    assert {key for key, _ in await pending(tables)} == {"eve", "hour"}


async def test_a_longer_offset_plans_further_ahead(bell: Timebell) -> None:
    schedule = await daily(bell, recurrence="FREQ=DAILY", steps=[step("start", 0)])
    change = await call(bell, "edit", schedule.id, steps=[step("start", 0), step("early", -48)])
    assert change.schedule.planned_until == NOW + 62 * DAY


async def test_a_running_step_is_told_as_too_late(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=2, steps=[step("eve", -30, kind="office.post")])
    (job,) = await tables.jobs()
    await tables.start(job["id"])
    change = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=1")
    assert lists(change) == {
        "kept": at(2, []),
        "withdrawn": at(3, []),
        "too_late": at(3, ["eve"]),
    }


async def test_who_waits_for_the_lock_sees_what_was_written(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell)
    async with bell.transaction() as tx:
        await bell.schedules.edit(tx, schedule.id, owner="anna")
        waiting = asyncio.create_task(call(bell, "edit", schedule.id, subject="bins"))
        await tables.until_someone_waits()
    change = await waiting
    assert (change.schedule.owner, change.schedule.subject, change.schedule.revision) == (
        "anna",
        "bins",
        3,
    )


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"recurrence": "FREQ=DAILY;COUNT=0"}, RecurrenceError, "recurrence"),
        ({"until_local": local("2027-03-01T00:00")}, RecurrenceError, "recurrence"),
        ({"steps": ["start"]}, InvalidInput, "steps"),
        ({"state": "ended"}, InvalidInput, "state"),
    ],
)
async def test_what_is_refused_changes_nothing(
    bell: Timebell, tables: Tables, changes: dict[str, Any], error: type[InvalidInput], field: str
) -> None:
    schedule = await daily(bell)
    jobs = await tables.jobs()
    with pytest.raises(error) as refused:
        await call(bell, "edit", schedule.id, **changes)
    assert refused.value.field == field
    assert await tables.jobs() == jobs
    assert await tables.value("SELECT revision FROM timebell.schedules") == 1


async def test_an_edit_plans_what_the_planner_left_undone(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    schedule = await daily(bell, recurrence="FREQ=DAILY", steps=[step("start", 0)], grace=HOUR)
    clock.now = datetime.fromisoformat("2027-05-10T12:30Z")
    await call(bell, "edit", schedule.id, owner="anna")
    found = await states(tables)
    # Planned in time up to the end of April; then nobody was there.
    assert [found[f"2027-05-{day:02}T12:00"] for day in (1, 9, 10, 11)] == [
        "missed",
        "missed",
        "planned",
        "planned",
    ]
    (job,) = await tables.jobs("due_at = $1", clock.now - HOUR / 2)
    assert orjson.loads(job["payload_text"])["missed_count"] == 10
    assert job["expires_at"] == clock.now + HOUR / 2
