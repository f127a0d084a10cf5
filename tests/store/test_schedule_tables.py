"""What the tables of schedules hold by themselves, whoever writes to them."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from tests.store.schedule_support import call, create, local, pending, step
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.kernel import Timebell

OFFSETS = (48, 24, 12, 6, 3)
STEPS = [step(f"{hours} h", -hours) for hours in OFFSETS]
AGAIN = """
    INSERT INTO timebell.occurrences (schedule_id, original_local, fold, id, tenant, local, occurs_at, revision,
        timezone_version, created_at)
    SELECT schedule_id, original_local, fold + $1::smallint, gen_random_uuid(), tenant, local,
        occurs_at + $2::interval, revision, timezone_version, created_at
    FROM timebell.occurrences
"""


@pytest.mark.req("R-2.2")
async def test_what_nobody_states_has_its_default(bell: Timebell, tables: Tables) -> None:
    change = await create(bell, start_local=local("2027-03-05T17:00"))
    (row,) = await tables.rows("SELECT * FROM timebell.schedules")
    stated = {"timezone": "Europe/Berlin", "start_local": local("2027-03-05T17:00"), "state": "active"}
    assert {name: row[name] for name in stated} == stated
    defaults: dict[str, Any] = {
        "recurrence": None,
        "until_local": None,
        "exdates": [],
        "rdates": [],
        "on_gap": "shift",
        "on_fold": "first",
        "catch_up": "latest",
        "catch_up_max": 100,
        "grace_seconds": None,
        "revision": 1,
        "owner": None,
        "subject": None,
        "parent_id": None,
    }
    assert {name: row[name] for name in defaults} == defaults
    assert row["planned_until"] == change.schedule.planned_until > NOW


@pytest.mark.req("R-2.2")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "asleep"),
        ("catch_up", "some"),
        ("on_gap", "guess"),
        ("on_fold", "third"),
        ("catch_up_max", 0),
        ("grace_seconds", -1.0),
        ("timezone", None),
        ("start_local", None),
        ("steps", None),
    ],
)
async def test_a_schedule_that_means_nothing_has_no_row(
    bell: Timebell, tables: Tables, column: str, value: object
) -> None:
    await create(bell, start_local=local("2027-03-05T17:00"))
    refusals = (asyncpg.CheckViolationError, asyncpg.NotNullViolationError)
    with pytest.raises(refusals, match=column):
        await tables.rows(f"UPDATE timebell.schedules SET plan_at = NULL, {column} = $1", value)


@pytest.mark.req("R-2.3", "X-J2")
async def test_one_wall_time_of_a_schedule_is_one_row(bell: Timebell, tables: Tables) -> None:
    """At whatever instant the second would be; only the second pass of a fold is another."""
    await create(bell, start_local=local("2027-03-05T17:00"))
    with pytest.raises(asyncpg.UniqueViolationError):
        await tables.rows(AGAIN, 0, HOUR)
    await tables.rows(AGAIN, 1, HOUR)
    assert await tables.value("SELECT count(*) FROM timebell.occurrences") == 2


@pytest.mark.req("R-2.3")
@pytest.mark.parametrize(("column", "value"), [("state", "done"), ("adjusted", "late"), ("occurs_at", None)])
async def test_an_occurrence_that_means_nothing_has_no_row(
    bell: Timebell, tables: Tables, column: str, value: object
) -> None:
    await create(bell, start_local=local("2027-03-05T17:00"))
    refusals = (asyncpg.CheckViolationError, asyncpg.NotNullViolationError)
    with pytest.raises(refusals, match=column):
        await tables.rows(f"UPDATE timebell.occurrences SET {column} = $1", value)


@pytest.mark.req("R-2.4")
async def test_a_step_of_an_occurrence_is_one_job_and_has_one_end(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    """Of five, one is done and one withdrawn. Neither is both, and neither comes back when its schedule is edited."""
    schedule = (await create(bell, start_local=local("2027-03-05T17:00"), steps=STEPS)).schedule
    before = {job["step"]: job for job in await tables.jobs()}
    assert len(before) == len({job["due_at"] for job in before.values()}) == 5
    clock.now = before["48 h"]["due_at"] + HOUR
    await tables.finish(before["48 h"]["id"])
    await call(bell, "edit", schedule.id, steps=[one for one in STEPS if one.key != "12 h"])
    await call(bell, "edit", schedule.id, payload={"title": "Bins"})
    assert {key for key, _ in await pending(tables)} == {"24 h", "6 h", "3 h"}
    ends = await tables.rows("SELECT id, state FROM timebell.job_log WHERE state <> 'pending'")
    assert {row["id"]: row["state"] for row in ends} == {
        before["48 h"]["id"]: "done",
        before["12 h"]["id"]: "cancelled",
    }
    assert len(ends) == 2
    await call(bell, "edit", schedule.id, steps=STEPS)
    jobs = await tables.jobs()
    assert {job["step"] for job in jobs} == {"24 h", "12 h", "6 h", "3 h"}
    assert len(jobs) == 4
    assert {job["id"] for job in jobs if job["step"] != "12 h"} == {
        before[key]["id"] for key in ("24 h", "6 h", "3 h")
    }


@pytest.mark.req("R-4.7")
async def test_an_offset_that_is_muted_is_a_step_that_is_not_stated(bell: Timebell, tables: Tables) -> None:
    """Four jobs at exact instants, and in elapsed time: the clocks change between them and the occurrence."""
    clocks_change = local("2027-03-28T17:00")
    await create(bell, start_local=clocks_change, steps=[one for one in STEPS if one.key != "12 h"])
    jobs = {job["step"]: job["due_at"].isoformat() for job in await tables.jobs()}
    assert jobs == {
        "48 h": "2027-03-26T15:00:00+00:00",
        "24 h": "2027-03-27T15:00:00+00:00",
        "6 h": "2027-03-28T09:00:00+00:00",
        "3 h": "2027-03-28T12:00:00+00:00",
    }


@pytest.mark.req("S-3.1")
@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("2027-02-01T08:00", "2027-03-02T08:00Z"),
        ("2027-03-01T09:00", "2027-03-01T09:00Z"),
        ("2035-01-01T09:00", "2035-01-01T09:00Z"),
    ],
)
async def test_the_answer_names_the_first_occurrence_to_come(
    bell: Timebell, tables: Tables, start: str, first: str
) -> None:
    """It is nine o'clock: what was due this very instant is the first, and what was due before is not."""
    change = await create(
        bell, recurrence="FREQ=DAILY", timezone="UTC", start_local=local(start), grace=2 * HOUR
    )
    assert change.first_occurrence is not None
    assert change.first_occurrence.occurs_at.isoformat() == first.replace("Z", ":00+00:00")
