"""The planner: what comes within the horizon is planned once, by whoever comes first, and nothing is planned twice."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest

from tests.engine.planner_support import (
    BERLIN,
    DAY,
    DUE,
    HOUR,
    MINUTE,
    Diary,
    forget,
    occurrences,
    row_of,
    schedule,
    utc,
    wall,
)
from tests.engine.support import Cluster, Owner
from timebell.config import Tuning
from timebell.engine.planner.planner import Planner
from timebell.kernel import Step
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase


@pytest.mark.req("R-4.1")
@pytest.mark.req("R-4.9")
async def test_an_occurrence_is_planned_when_it_comes_within_the_horizon(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The clock stands at 5 January, 9:00. Day 59 is planned at once, and day 61 when a day has passed."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        near = await schedule(h.bell, start_local=wall(2026, 3, 5, 9))
        far = await schedule(h.bell, start_local=wall(2026, 3, 7, 9))
        assert len(await occurrences(owner, near.schedule.id)) == 1
        assert await occurrences(owner, far.schedule.id) == []
        assert len(await owner.jobs()) == 1
        planned_until = (await row_of(owner, far.schedule.id))["planned_until"]
        await h.advance(DAY)
        assert await occurrences(owner, far.schedule.id) == []
        await h.advance(MINUTE)
        assert len(await occurrences(owner, far.schedule.id)) == 1
        assert len(await owner.jobs()) == 2
        assert (await row_of(owner, far.schedule.id))["planned_until"] > planned_until


@pytest.mark.req("X-R22")
async def test_the_longest_offset_is_added_to_the_horizon(database_url: TestDatabase, owner: Owner) -> None:
    diary = Diary()
    steps = [DUE, Step(key="early", kind="t.remind", offset=-10 * DAY)]
    async with harness(database_url.url, [diary.app()]) as h:
        made = await schedule(h.bell, start_local=wall(2026, 3, 15, 9), steps=steps)
        assert len(await occurrences(owner, made.schedule.id)) == 1
        assert [job["due_at"] for job in await owner.jobs()] == [utc(2026, 3, 15, 9), utc(2026, 3, 5, 9)]


@pytest.mark.req("R-4.2")
@pytest.mark.req("R-8.1")
@pytest.mark.req("S-3.5")
async def test_nine_in_the_morning_stays_nine_through_both_changes_of_clocks(
    database_url: TestDatabase,
) -> None:
    """Planned by the planner as the months go by: most of it was beyond the horizon when the schedule was made."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        await schedule(
            h.bell, recurrence="FREQ=WEEKLY", start_local=wall(2026, 1, 12, 9), timezone="Europe/Berlin"
        )
        await h.advance(to=utc(2026, 12, 1))
    local = [at.astimezone(BERLIN) for at in diary.instants]
    assert [(at.isoweekday(), at.hour, at.minute) for at in local] == [(1, 9, 0)] * 47
    assert {at.hour for at in diary.instants} == {7, 8}
    assert diary.originals == sorted(set(diary.originals))


@pytest.mark.req("R-4.11")
@pytest.mark.req("X-R14")
@pytest.mark.parametrize(
    ("timezone", "odd", "at", "adjusted"),
    [
        ("Europe/Berlin", wall(2026, 3, 29, 2, 30), utc(2026, 3, 29, 1, 30), "gap"),
        ("Europe/Berlin", wall(2026, 10, 25, 2, 30), utc(2026, 10, 25, 0, 30), "fold"),
        ("Australia/Lord_Howe", wall(2026, 10, 4, 2, 15), utc(2026, 10, 3, 15, 45), "gap"),
    ],
)
async def test_a_wall_time_in_a_gap_or_a_fold_is_planned_once(
    database_url: TestDatabase, owner: Owner, timezone: str, odd: datetime, at: datetime, adjusted: str
) -> None:
    """The schedule is made long before, so it is the planner that comes to the change of clocks."""
    diary = Diary()
    clock = ManualClock(at - 64 * DAY)
    async with harness(database_url.url, [diary.app()], clock=clock) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=odd - 2 * DAY, timezone=timezone)
        await h.advance(66 * DAY + 12 * HOUR)
        rows = {row["original_local"]: row for row in await occurrences(owner, made.schedule.id)}
    done = dict(zip(diary.originals, diary.instants, strict=True))
    assert list(done) == [(odd + days * DAY).isoformat() for days in range(-2, 3)]
    assert done[odd.isoformat()] == rows[odd]["occurs_at"] == at
    assert rows[odd]["adjusted"] == adjusted


@pytest.mark.req("R-4.5")
@pytest.mark.req("R-8.2")
@pytest.mark.req("R-4.3")
async def test_planning_again_creates_nothing(database_url: TestDatabase, owner: Owner) -> None:
    async with harness(database_url.url, [Diary().app()]) as h:
        series = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 6, 9))
        single = await schedule(h.bell, start_local=wall(2026, 1, 6, 9))
        before = await occurrences(owner), await owner.jobs()
        assert len(before[0]) == 59 + 1
        for _ in range(3):
            for made in (series, single):
                await forget(owner, made.schedule.id)
            await h.run_due()
            assert (await occurrences(owner), await owner.jobs()) == before


@pytest.mark.req("R-4.5")
@pytest.mark.req("X-R16")
async def test_two_planners_share_the_work_and_double_nothing(cluster: Cluster, owner: Owner) -> None:
    """The first has claimed half of the schedules and hangs; the second plans the others meanwhile."""
    app = Diary().app()
    one = await cluster.node([app], tuning=Tuning(plan_batch=5))
    other = await cluster.node([app], tuning=Tuning(plan_batch=5))
    made = [await schedule(one.bell, start_local=wall(2026, 3, 8, 9)) for _ in range(10)]
    cluster.clock.move(5 * DAY)
    hold = one.stage.hold("after", "claim_schedules")
    await one.run_until(hold)
    await other.run_due()
    assert len(await occurrences(owner)) == 5
    await one.go_on(hold)
    rows = await occurrences(owner)
    assert sorted(row["schedule_id"] for row in rows) == sorted(each.schedule.id for each in made)
    assert len(await owner.jobs()) == 10
    assert one.engine.planner.counters.planned == other.engine.planner.counters.planned == 5


@pytest.mark.parametrize(("pool_size", "planned"), [(10, 20), (2, 10)])
async def test_a_planner_with_much_to_do_does_two_things_at_once(
    cluster: Cluster, owner: Owner, pool_size: int, planned: int
) -> None:
    """From its second look on, and not with so few connections that the others would wait."""
    node = await cluster.node([Diary().app()], tuning=Tuning(plan_batch=5), pool_size=pool_size)
    for _ in range(20):
        await schedule(node.bell, start_local=wall(2026, 3, 8, 9))
    cluster.clock.move(5 * DAY)
    for _ in range(2):
        assert await node.engine.planner.tick() == 0.0
    assert len(await occurrences(owner)) == len(await owner.jobs()) == planned


async def test_of_two_that_plan_side_by_side_neither_waits_for_the_other(
    cluster: Cluster, owner: Owner
) -> None:
    """One is held before it has written anything; the other plans all the rest meanwhile."""
    node = await cluster.node([Diary().app()], tuning=Tuning(plan_batch=5))
    for _ in range(20):
        await schedule(node.bell, start_local=wall(2026, 3, 8, 9))
    cluster.clock.move(5 * DAY)
    await node.engine.planner.tick()
    hold = node.stage.hold("before", "settle_schedules")
    ticking = asyncio.ensure_future(node.engine.planner.tick())
    await hold.reached.wait()
    for _ in range(1_000):
        if len(await owner.jobs()) >= 15:
            break
    assert len(await owner.jobs()) == 15
    hold.release()
    assert await ticking == 0.0
    assert len(await occurrences(owner)) == len(await owner.jobs()) == 20


async def test_a_tick_looks_a_bounded_number_of_times(
    cluster: Cluster, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.engine.planner.planner._LOOKS_MAX", 2)
    node = await cluster.node([Diary().app()], tuning=Tuning(plan_batch=1))
    for _ in range(8):
        await schedule(node.bell, start_local=wall(2026, 3, 8, 9))
    cluster.clock.move(5 * DAY)
    planned = []
    for _ in range(3):
        assert await node.engine.planner.tick() == 0.0
        planned.append(len(await owner.jobs()))
    assert planned == [1, 5, 8]


async def test_a_planner_that_dies_leaves_nothing_half_planned(cluster: Cluster, owner: Owner) -> None:
    app = Diary().app()
    one = await cluster.node([app])
    made = await schedule(one.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 3, 8, 9))
    cluster.clock.move(5 * DAY)
    hold = one.stage.hold("before", "settle_schedules")
    await one.run_until(hold)
    await cluster.kill(one)
    assert await occurrences(owner) == []
    assert await owner.jobs() == []
    other = await cluster.node([app])
    await other.run_due()
    assert len(await occurrences(owner, made.schedule.id)) == len(await owner.jobs()) == 3


@pytest.mark.req("S-3.2")
@pytest.mark.req("S-3.3")
@pytest.mark.req("R-4.4")
async def test_a_series_that_is_over_has_ended(database_url: TestDatabase, owner: Owner) -> None:
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=MONTHLY;COUNT=3", start_local=wall(2026, 1, 15, 9))
        await h.advance(to=utc(2026, 3, 15, 9))
        assert (await row_of(owner, made.schedule.id))["state"] == "active"
        await h.advance(30 * DAY)
        [row] = await owner.rows("SELECT * FROM timebell.schedules")
    assert row["id"] == made.schedule.id
    assert diary.instants == [utc(2026, 1, 15, 9), utc(2026, 2, 15, 9), utc(2026, 3, 15, 9)]
    assert (row["state"], row["state_reason"], row["plan_at"]) == ("ended", "over", None)


async def test_occurrences_that_owe_nothing_are_planned_and_are_not_missed(
    database_url: TestDatabase, owner: Owner
) -> None:
    async with harness(database_url.url, [Diary().app()]) as h:
        made = await schedule(
            h.bell, recurrence="FREQ=WEEKLY;COUNT=12", start_local=wall(2026, 1, 6, 9), steps=[]
        )
        before = len(await occurrences(owner))
        await h.advance(to=utc(2026, 4, 1))
        rows = await occurrences(owner, made.schedule.id)
        for table in ("jobs", "agendas", "job_log"):
            assert await owner.rows(f"SELECT * FROM timebell.{table}") == []
        assert (await row_of(owner, made.schedule.id))["state"] == "ended"
    assert before < len(rows) == 12
    assert {row["state"] for row in rows} == {"planned"}


async def test_a_frequent_schedule_is_planned_a_bounded_number_at_a_time(
    database_url: TestDatabase, owner: Owner
) -> None:
    """Every hour for sixty days is more than a caller waits for; the planner does the rest at once."""
    async with harness(database_url.url, [Diary().app()]) as h:
        made = await schedule(h.bell, recurrence="every PT1H", start_local=wall(2026, 1, 5, 9))
        assert len(await occurrences(owner, made.schedule.id)) == 500
        await h.engine.planner.run_due(h.clock.now)
        assert len(await occurrences(owner, made.schedule.id)) == 60 * 24
        assert (await row_of(owner, made.schedule.id))["plan_at"] > h.clock.now


async def test_what_an_edit_left_to_the_planner_is_owed_again(
    database_url: TestDatabase, owner: Owner
) -> None:
    """An edit plans the next 500 and takes the others back; they were owed before, and the planner puts them back."""
    async with harness(database_url.url, [Diary().app()]) as h:
        made = await schedule(h.bell, recurrence="every PT1H", start_local=wall(2026, 1, 5, 9))
        await h.engine.planner.run_due(h.clock.now)
        async with h.bell.transaction() as tx:
            await h.bell.schedules.edit(tx, made.schedule.id, payload={"title": "new"})
        assert len(await owner.jobs()) == 500
        await h.engine.planner.run_due(h.clock.now)
        jobs = await owner.jobs()
        assert len(jobs) == len({job["subject"] for job in jobs}) == 60 * 24
        assert {json.loads(job["payload"])["title"] for job in jobs} == {"new"}


@pytest.mark.req("R-4.10")
@pytest.mark.req("X-R15")
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("recurrence", "FREQ=SOMETIMES", "FREQ"),
        ("recurrence", "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "was not found"),
        ("timezone", "Mars/Olympus", "Mars/Olympus"),
        ("steps", '[{"key": "due", "kind": "t.gone", "offset": 0}]', "t.gone"),
        ("steps", '[{"nonsense": 1}]', "nonsense"),
    ],
)
async def test_one_bad_schedule_is_parked_and_stops_nobody(
    database_url: TestDatabase, owner: Owner, column: str, value: str, reason: str
) -> None:
    async with harness(database_url.url, [Diary().app()]) as h:
        made = [
            await schedule(h.bell, recurrence="FREQ=WEEKLY", start_local=wall(2026, 3, 8, 9))
            for _ in range(10)
        ]
        bad = made[4].schedule.id
        type_of = "jsonb" if column == "steps" else "text"
        await owner.connection.execute(
            f"UPDATE timebell.schedules SET {column} = $2::text::{type_of} WHERE id = $1", bad, value
        )
        h.clock.move(5 * DAY)
        await h.run_due()
        assert len(await occurrences(owner)) == 9
        row = await row_of(owner, bad)
        assert (row["state"], row["plan_at"]) == ("parked", None)
        assert reason in row["state_reason"]
        assert h.engine.planner.counters.parked == 1
        events = await owner.rows("SELECT * FROM timebell.events WHERE name = 'schedule.parked'")
        assert [event["subject"] for event in events] == [f"schedule:{bad}"]
        await h.advance(7 * DAY)
        assert (await row_of(owner, bad))["state"] == "parked"


@pytest.mark.req("R-4.10")
async def test_what_the_database_refuses_is_found_out_and_parked(
    database_url: TestDatabase, owner: Owner
) -> None:
    """All of a tick is one transaction, so one row that cannot be written would hold up all the others for ever."""
    async with harness(database_url.url, [Diary().app()]) as h:
        made = [await schedule(h.bell, start_local=wall(2026, 3, 8, 9)) for _ in range(5)]
        bad = made[2].schedule.id
        await owner.connection.execute(
            f"ALTER TABLE timebell.occurrences ADD CONSTRAINT never CHECK (schedule_id <> '{bad}')"
        )
        h.clock.move(5 * DAY)
        await h.run_due()
        assert len(await occurrences(owner)) == 4
        row = await row_of(owner, bad)
        assert (row["state"], row["plan_at"]) == ("parked", None)
        assert "never" in row["state_reason"]


@pytest.mark.req("R-4.10")
async def test_only_the_one_that_was_refused_is_parked(cluster: Cluster, owner: Owner) -> None:
    """Somebody locks it as soon as it was refused, so whoever claimed it again to park it would get another."""
    node = await cluster.node([Diary().app()])
    made = [await schedule(node.bell, start_local=wall(2026, 3, 8, 9)) for _ in range(5)]
    bad = made[0].schedule.id
    await owner.connection.execute(
        f"ALTER TABLE timebell.occurrences ADD CONSTRAINT never CHECK (schedule_id <> '{bad}')"
    )
    cluster.clock.move(5 * DAY)
    together, apart, again = (node.stage.hold("before", "claim_schedules") for _ in range(3))
    await node.run_until(together)
    together.release()
    await apart.reached.wait()
    apart.release()
    reached = asyncio.create_task(again.reached.wait())
    assert node._driving is not None
    await asyncio.wait({reached, node._driving}, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    async with owner.connection.transaction():
        await owner.connection.execute("SELECT FROM timebell.schedules WHERE id = $1 FOR UPDATE", bad)
        await node.go_on(again)
    rows = await owner.rows("SELECT id FROM timebell.schedules WHERE state = 'parked'")
    assert [row["id"] for row in rows] == [bad]
    assert len(await occurrences(owner)) == 4


async def test_one_that_is_refused_does_not_send_the_others_back_to_the_queue(
    cluster: Cluster, owner: Owner
) -> None:
    """It is the last of many; those before it are planned by the way, and not one in each look."""
    node = await cluster.node([Diary().app()])
    made = [await schedule(node.bell, start_local=wall(2026, 3, 8, 9)) for _ in range(8)]
    await owner.connection.execute(
        f"ALTER TABLE timebell.occurrences ADD CONSTRAINT never CHECK (schedule_id <> '{made[7].schedule.id}')"
    )
    cluster.clock.move(5 * DAY)
    await node.run_due()
    assert len(await occurrences(owner)) == 7
    assert node.stage.counts["claim_schedules"] <= 3


@pytest.mark.req("R-4.12")
async def test_a_schedule_that_was_mended_goes_on(database_url: TestDatabase, owner: Owner) -> None:
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 6, 9))
        await owner.connection.execute(
            "UPDATE timebell.schedules SET recurrence = 'FREQ=NEVER', plan_at = created_at"
        )
        await h.advance(HOUR)
        assert (await row_of(owner, made.schedule.id))["state"] == "parked"
        async with h.bell.transaction() as tx:
            await h.bell.schedules.edit(tx, made.schedule.id, recurrence="FREQ=DAILY;INTERVAL=2")
        await h.advance(to=utc(2026, 1, 9))
    assert diary.instants == [utc(2026, 1, 6, 9), utc(2026, 1, 8, 9)]


async def test_an_edit_waits_for_the_planner_and_then_decides(cluster: Cluster, owner: Owner) -> None:
    """The planner has claimed the schedule and goes on to write; the edit comes in between."""
    node = await cluster.node([Diary().app()])
    made = await schedule(node.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 3, 8, 9))
    cluster.clock.move(5 * DAY)
    hold = node.stage.hold("before", "insert_occurrences")
    await node.run_until(hold)

    async def edit() -> Any:
        async with node.bell.transaction() as tx:
            return await node.bell.schedules.edit(tx, made.schedule.id, start_local=wall(2026, 3, 8, 17))

    editing = asyncio.create_task(edit())
    await owner.until_someone_waits()
    await node.go_on(hold)
    change = await editing
    assert [one.was_at for one in change.diff.moved] == []
    rows = await occurrences(owner, made.schedule.id)
    assert [row["original_local"].hour for row in rows] == [17] * len(rows)
    jobs = await owner.jobs()
    assert sorted(job["subject"] for job in jobs) == sorted(f"occurrence:{row['id']}" for row in rows)
    assert [job["due_at"].hour for job in jobs] == [17] * len(rows)


async def test_the_planner_passes_over_what_somebody_edits(cluster: Cluster, owner: Owner) -> None:
    node = await cluster.node([Diary().app()])
    made = [await schedule(node.bell, start_local=wall(2026, 3, 8, 9)) for _ in range(2)]
    cluster.clock.move(5 * DAY)
    async with node.bell.transaction() as tx:
        await node.bell.schedules.edit(tx, made[0].schedule.id, start_local=wall(2026, 3, 8, 17))
        await node.run_due()
        assert {row["schedule_id"] for row in await occurrences(owner)} == {made[1].schedule.id}
    await node.run_due()
    assert [row["occurs_at"].hour for row in await occurrences(owner)] == [9, 17]


async def test_a_paused_schedule_is_not_planned(database_url: TestDatabase, owner: Owner) -> None:
    async with harness(database_url.url, [Diary().app()]) as h:
        made = await schedule(h.bell, recurrence="FREQ=MONTHLY", start_local=wall(2026, 3, 8, 9))
        async with h.bell.transaction() as tx:
            await h.bell.schedules.pause(tx, made.schedule.id, "on holiday")
        await h.advance(100 * DAY)
        assert await occurrences(owner) == []
        async with h.bell.transaction() as tx:
            await h.bell.schedules.resume(tx, made.schedule.id)
        await h.advance(100 * DAY)
        assert [row["occurs_at"].month for row in await occurrences(owner)] == [5, 6, 7, 8, 9]


async def test_each_tenant_keeps_its_own(database_url: TestDatabase, owner: Owner) -> None:
    """One tick plans for all of them."""
    async with harness(database_url.url, [Diary().app()]) as h:
        for tenant in ("a", "b", "c"):
            await schedule(h.bell, tenant=tenant, start_local=wall(2026, 3, 8, 9), subject=f"of {tenant}")
        h.clock.move(5 * DAY)
        await h.run_due()
        jobs = await owner.jobs()
        rows = await occurrences(owner)
        agendas = await owner.rows("SELECT tenant, subject FROM timebell.agendas")
    assert sorted(job["tenant"] for job in jobs) == sorted(row["tenant"] for row in rows) == ["a", "b", "c"]
    assert {(job["tenant"], job["subject"]) for job in jobs} == {(a["tenant"], a["subject"]) for a in agendas}


async def test_what_is_due_at_once_is_woken_and_offsets_that_are_past_are_not_done(
    database_url: TestDatabase,
) -> None:
    """Planned late, within its grace: the newest step that is due is done, the older ones are skipped."""
    diary = Diary()
    steps = [Step(key=f"{hours}h", kind="t.remind", offset=-hours * HOUR) for hours in (48, 24, 3)] + [DUE]
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        await schedule(h.bell, start_local=wall(2026, 3, 15, 9), steps=steps)
        h.clock.move_to(utc(2026, 3, 14, 9))
        await h.run_due()
        await h.advance(2 * DAY)
    assert [(step, at) for at, step, _ in diary.lines] == [
        ("24h", utc(2026, 3, 14, 9)),
        ("3h", utc(2026, 3, 15, 6)),
        ("due", utc(2026, 3, 15, 9)),
    ]


@pytest.mark.req("R-9.1")
async def test_the_planners_of_a_cluster_do_not_look_at_one_instant(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [Diary().app()]) as h:
        waits = [await h.engine.planner.tick() for _ in range(20)]
    assert all(55 <= wait <= 65 for wait in waits)
    assert len(set(waits)) > 10


async def test_one_look_writes_a_bounded_number_of_jobs(database_url: TestDatabase, owner: Owner) -> None:
    """Schedules of many steps, all to be planned on: a transaction takes some, and the next one others."""
    diary = Diary()
    steps = [Step(key=f"s{number}", kind="t.remind", offset=MINUTE) for number in range(100)]
    async with harness(database_url.url, [diary.app()]) as h:
        for _ in range(3):
            await schedule(h.bell, recurrence="every PT10M", start_local=wall(2026, 1, 5, 10), steps=steps)
        before = len(await owner.jobs())
        assert before == 3 * 50 * 100
        planner = Planner(h.bell)
        await planner.run_next(h.clock.now - DAY)
        assert len(await owner.jobs()) - before == 10_000
