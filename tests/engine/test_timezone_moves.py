"""Newer timezone data move what was planned with older ones; the occurrences stay the same, and nothing is done twice.

The older node is a process of its own with the release 2025b, by which Vancouver puts its clocks back on
1 November 2026. By the release that is installed here it does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.engine.planner_support import DAY, DUE, MINUTE, Diary, occurrences, row_of, schedule, utc, wall
from tests.engine.support import Owner
from timebell.engine.planner import timezones
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

ROOT = Path(__file__).parents[2]
OLDER = ROOT / "tests" / "data" / "timezones" / "2025b"
CREATED = utc(2026, 10, 20, 12)


@pytest.fixture
def older_data(tmp_path: Path) -> Path:
    """A folder with a package `tzdata` of 2025b that has the timezones of these tests."""
    package = tmp_path / "tzdata"
    for region in ("", "America", "Europe"):
        (package / "zoneinfo" / region).mkdir(parents=True, exist_ok=True)
        (package / "zoneinfo" / region / "__init__.py").touch()
    (package / "__init__.py").write_text('IANA_VERSION = "2025b"\n')
    (package / "zones").write_text("America/Vancouver\nEurope/Berlin\nUTC\n")
    ours = resources.files("tzdata.zoneinfo")
    for name in ("Europe/Berlin", "UTC"):
        (package / "zoneinfo" / name).write_bytes(ours.joinpath(*name.split("/")).read_bytes())
    older = (OLDER / "America" / "Vancouver").read_bytes()
    assert older != ours.joinpath("America", "Vancouver").read_bytes()
    (package / "zoneinfo" / "America" / "Vancouver").write_bytes(older)
    return tmp_path


async def older_node(data: Path, url: str, *arguments: str) -> dict[str, Any]:
    path = os.pathsep.join([str(data), str(ROOT / "src"), str(ROOT)])
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.engine.older_node",
        url,
        *arguments,
        env={**os.environ, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        told, _ = await child.communicate()
    assert child.returncode == 0
    answer: dict[str, Any] = json.loads(told.splitlines()[-1])
    assert answer["version"] == "2025b" < TIMEZONE_VERSION
    return answer


async def of(owner: Owner, id: str) -> dict[datetime, dict[str, Any]]:
    return {row["original_local"]: row for row in await occurrences(owner, UUID(id))}


@pytest.mark.req("U-9")
async def test_what_older_data_planned_is_moved_and_keeps_its_identity(
    database_url: TestDatabase, owner: Owner, older_data: Path
) -> None:
    made = await older_node(older_data, database_url.url, CREATED.isoformat(), "create")
    vancouver, berlin = made["America/Vancouver"], made["Europe/Berlin"]
    before = {name: await of(owner, made[name]) for name in ("America/Vancouver", "Europe/Berlin")}
    jobs_before = {job["subject"]: job["id"] for job in await owner.jobs()}
    changed = wall(2026, 11, 10, 9)
    assert before["America/Vancouver"][changed]["occurs_at"] == utc(2026, 11, 10, 17)
    diary = Diary()
    async with harness(database_url.url, [diary.app()], clock=ManualClock(CREATED + DAY)) as h:
        diary.clock = h.clock
        await h.run_due()
        after = {name: await of(owner, made[name]) for name in before}
        assert h.engine.planner.counters.moved == 48
        late = {original for original in before["America/Vancouver"] if original > wall(2026, 11, 1)}
        assert len(late) == 48
        for original, was in before["America/Vancouver"].items():
            row = after["America/Vancouver"][original]
            assert row["id"] == was["id"]
            assert was["occurs_at"].hour - row["occurs_at"].hour == (1 if original in late else 0)
            assert row["occurs_at"].hour == 16
        assert {key: row["occurs_at"] for key, row in before["Europe/Berlin"].items()}.items() <= {
            key: row["occurs_at"] for key, row in after["Europe/Berlin"].items()
        }.items()
        jobs = {job["subject"]: job for job in await owner.jobs()}
        one = jobs[f"occurrence:{after['America/Vancouver'][changed]['id']}"]
        assert one["id"] == jobs_before[one["subject"]]
        assert one["due_at"] == utc(2026, 11, 10, 16)
        assert (await row_of(owner, UUID(vancouver)))["timezone_version"] == TIMEZONE_VERSION
        events = await owner.rows(
            "SELECT subject, data FROM timebell.events WHERE name = 'schedule.replanned'"
        )
        assert [(event["subject"], json.loads(event["data"])["moved"]) for event in events] == [
            (f"schedule:{vancouver}", 48)
        ]
        await h.advance(to=utc(2026, 11, 20))
    done = [payload["original_local"] for _, _, payload in diary.lines]
    assert len(done) == len(set(zip(done, (p["schedule_id"] for _, _, p in diary.lines), strict=True)))
    in_vancouver = [at for at, _, payload in diary.lines if payload["schedule_id"] == vancouver]
    assert {at.hour for at in in_vancouver} == {16}
    assert len(in_vancouver) == 30
    assert berlin in {payload["schedule_id"] for _, _, payload in diary.lines}


@pytest.mark.req("U-9")
async def test_a_node_with_older_data_does_not_plan(
    database_url: TestDatabase, owner: Owner, older_data: Path
) -> None:
    made = await older_node(older_data, database_url.url, CREATED.isoformat(), "create")
    async with harness(database_url.url, [Diary().app()], clock=ManualClock(CREATED)) as h:
        await h.run_due()
    await owner.connection.execute(
        "UPDATE timebell.schedules SET plan_at = created_at, planned_until = created_at + interval '1 day'"
    )
    count = len(await occurrences(owner))
    answer = await older_node(older_data, database_url.url, (CREATED + DAY).isoformat(), "plan")
    assert (answer["is_behind"], answer["planned"]) == (True, 0)
    assert "2025b" in answer["refusal"]
    assert len(await occurrences(owner)) == count
    assert (await row_of(owner, UUID(made["Europe/Berlin"])))["plan_at"] == CREATED
    versions = await owner.rows("SELECT timezone, version FROM timebell.timezones ORDER BY timezone")
    assert {row["version"] for row in versions} == {TIMEZONE_VERSION}


@pytest.mark.req("U-9")
@pytest.mark.parametrize(("grace_minutes", "is_done"), [(120, True), (15, False)])
async def test_what_is_past_by_the_newer_data_is_caught_up_or_missed(
    database_url: TestDatabase, owner: Owner, older_data: Path, grace_minutes: int, is_done: bool
) -> None:
    """It was to come at 17:00, and the newer data, which arrive at 16:30, say that it should have come at 16:00."""
    made = await older_node(
        older_data, database_url.url, "2026-11-09T20:00:00+00:00", "create", str(grace_minutes)
    )
    diary = Diary()
    clock = ManualClock(utc(2026, 11, 10, 16, 30))
    async with harness(database_url.url, [diary.app()], clock=clock) as h:
        diary.clock = h.clock
        await h.advance(to=utc(2026, 11, 11, 12))
        row = (await of(owner, made["America/Vancouver"]))[wall(2026, 11, 10, 9)]
    done = [at for at, _, payload in diary.lines if payload["schedule_id"] == made["America/Vancouver"]]
    assert done == ([utc(2026, 11, 10, 16, 30)] if is_done else [])
    assert (row["occurs_at"], row["state"]) == (utc(2026, 11, 10, 16), "planned" if is_done else "missed")


async def test_who_plans_in_a_timezone_that_did_not_change_goes_on(
    database_url: TestDatabase, owner: Owner
) -> None:
    """There is a new release every few months, and most of it is about other places."""
    async with harness(database_url.url, [Diary().app()]) as h:
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 8, 9))
        await owner.connection.execute(
            "UPDATE timebell.schedules SET timezone_version = '2025b';"
            "UPDATE timebell.timezones SET version = '2025b', data_version = '2024a'"
        )
        await h.advance(DAY + MINUTE)
        row = await row_of(owner, made.schedule.id)
        assert (row["timezone_version"], row["revision"]) == (TIMEZONE_VERSION, 1)
        assert await owner.value("SELECT max(revision) FROM timebell.agendas") == 1
        assert (await owner.rows("SELECT version, data_version FROM timebell.timezones")) == [
            {"version": TIMEZONE_VERSION, "data_version": "2024a"}
        ]


async def test_what_is_planned_before_its_turn_came_is_moved_all_the_same(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The data changed, and the planner comes to the schedule before it was marked."""
    async with harness(database_url.url, [Diary().app()]) as h:
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 8, 9))
        await owner.connection.execute(
            "UPDATE timebell.schedules SET timezone_version = '2025b', plan_at = created_at;"
            "UPDATE timebell.occurrences SET occurs_at = occurs_at + interval '1 hour';"
            "UPDATE timebell.timezones SET version = '2025b', data_version = '2025b', sha256 = 'older'"
        )
        assert await h.engine.planner._plan() == 1
        rows = await occurrences(owner, made.schedule.id)
        assert {row["occurs_at"].hour for row in rows} == {9}
        assert h.engine.planner.counters.moved == len(rows)


async def test_many_schedules_are_marked_a_bounded_number_at_a_time(
    database_url: TestDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timezones, "_SCHEDULES_MAX", 2)
    async with harness(database_url.url, [Diary().app()]) as h:
        for _ in range(5):
            made = await schedule(h.bell, start_local=wall(2026, 1, 8, 9))
        async with h.bell.transaction() as tx:
            await h.bell.schedules.pause(tx, made.schedule.id)
        await owner.connection.execute(
            "UPDATE timebell.schedules SET timezone_version = '2025b';"
            "UPDATE timebell.timezones SET version = '2025b', sha256 = 'older'"
        )
        watch = h.engine.planner.timezones
        marked = "SELECT count(*) FROM timebell.schedules WHERE plan_at <= timestamptz '2026-01-05 09:00Z'"
        told = [(await watch.tick(), await owner.value(marked)) for _ in range(3)]
        # The last one is paused, and is planned when it is resumed.
        assert told == [(True, 2), (True, 4), (False, 4)]
        assert await owner.value("SELECT sha256 FROM timebell.timezones") != "older"
        await h.run_due()
        assert (
            await owner.value("SELECT count(*) FROM timebell.schedules WHERE timezone_version = '2025b'") == 1
        )
        assert h.engine.planner.counters.moved == 0
        assert (await row_of(owner, made.schedule.id))["plan_at"] is None


async def test_newer_data_wait_for_who_plans_with_older_ones(
    database_url: TestDatabase, owner: Owner
) -> None:
    """A schedule that is being written is not visible yet, and must be found all the same."""
    async with harness(database_url.url, [Diary().app()]) as h:
        await schedule(h.bell, start_local=wall(2026, 1, 8, 9))
        await owner.connection.execute("UPDATE timebell.timezones SET version = '2025b', sha256 = 'older'")
        async with h.bell.transaction() as tx:
            terms: dict[str, Any] = {"timezone": "UTC", "start_local": wall(2026, 1, 8, 9), "steps": [DUE]}
            await h.bell.schedules.create(tx, **terms)
            watching = asyncio.create_task(h.engine.planner.timezones.tick())
            await owner.until_someone_waits()
            assert await owner.value("SELECT version FROM timebell.timezones") == "2025b"
        await watching
        assert await owner.value("SELECT version FROM timebell.timezones") == TIMEZONE_VERSION
