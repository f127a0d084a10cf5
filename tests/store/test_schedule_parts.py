"""Splitting a series at an occurrence, and pausing, resuming and ending it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.store.schedule_support import (
    DAY,
    NOON,
    at,
    call,
    create,
    daily,
    days,
    lists,
    local,
    pending,
    states,
    step,
)
from tests.store.support import NOW, StillClock, Tables
from timebell.errors import InvalidInput, NotFound, RecurrenceError
from timebell.kernel import Timebell

FOURTH = local("2027-03-04T12:00")


async def test_this_and_following_go_on_as_a_schedule_of_their_own(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=5, exdates=[local("2027-03-05T12:00")], payload={"title": "Bins"})
    change = await call(bell, "split", schedule.id, FOURTH, start_local=local("2027-03-04T15:00"))
    rest, older = change.schedule, change.split_from
    assert older is not None
    assert (older.id, older.until_local, older.revision) == (schedule.id, local("2027-03-04T11:59:59"), 2)
    assert (rest.parent_id, rest.recurrence, rest.payload) == (
        schedule.id,
        "FREQ=DAILY;COUNT=3",
        {"title": "Bins"},
    )
    assert rest.exdates == (local("2027-03-05T15:00"),)
    assert lists(change) == {
        "kept": {**at(2, ["start"]), **at(3)},
        "withdrawn": days(4, 6),
        "added": {**at(4, hour=15), **at(6, hour=15)},
    }
    dues = {due_at for key, due_at in await pending(tables) if key == "start"}
    assert {due.isoformat()[:13] for due in dues} == {
        "2027-03-02T12",
        "2027-03-03T12",
        "2027-03-04T15",
        "2027-03-06T15",
    }


async def test_what_was_changed_about_later_ones_goes_with_them(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=5, steps=[step("start", 0)])
    await call(bell, "override", schedule.id, local("2027-03-05T12:00"), skip=True)
    await call(
        bell, "override", schedule.id, local("2027-03-06T12:00"), start_local=local("2027-03-06T14:00")
    )
    await call(bell, "override", schedule.id, local("2027-03-03T12:00"), skip=True)
    change = await call(bell, "split", schedule.id, FOURTH, start_local=local("2027-03-04T13:00"))
    assert list(lists(change)["added"]) == ["2027-03-04T13:00", "2027-03-06T13:00"]
    assert [one.occurs_at.isoformat() for one in change.diff.added][1] == "2027-03-06T15:00:00+00:00"
    assert change.orphaned_overrides == ()
    assert (await states(tables))["2027-03-03T12:00"] == "skipped"


async def test_what_was_changed_about_the_one_at_which_it_is_split_goes_with_it(
    bell: Timebell, tables: Tables
) -> None:
    schedule = await daily(bell, count=5, steps=[step("start", 0)])
    await call(bell, "override", schedule.id, FOURTH, start_local=local("2027-03-04T14:00"))
    change = await call(bell, "split", schedule.id, FOURTH, start_local=local("2027-03-04T13:00"))
    assert change.diff.added[0].occurs_at.isoformat() == "2027-03-04T15:00:00+00:00"
    left = await tables.rows("SELECT schedule_id FROM timebell.occurrence_overrides")
    assert [row["schedule_id"] for row in left] == [change.schedule.id]


async def test_a_series_that_begins_with_the_occurrence_is_edited(bell: Timebell) -> None:
    schedule = await daily(bell, count=3)
    change = await call(bell, "split", schedule.id, local("2027-03-02T12:00"), owner="anna")
    assert (change.schedule.id, change.schedule.owner, change.split_from) == (schedule.id, "anna", None)


async def test_a_split_takes_other_terms(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, recurrence="FREQ=DAILY")
    change = await call(
        bell,
        "split",
        schedule.id,
        FOURTH,
        recurrence="FREQ=WEEKLY",
        steps=[step("hour", -1)],
        until_local=local("2027-03-20T00:00"),
    )
    assert lists(change)["added"] == {
        "2027-03-04T12:00": ["hour"],
        "2027-03-11T12:00": ["hour"],
        "2027-03-18T12:00": ["hour"],
    }
    assert await tables.value("SELECT count(*) FROM timebell.schedules") == 2


async def test_elapsed_time_goes_on_where_it_is_split(bell: Timebell) -> None:
    every = await create(
        bell,
        recurrence="every PT36H",
        start_local=local("2027-03-02T12:00"),
        until_local=local("2027-03-10T00:00"),
    )
    change = await call(bell, "split", every.schedule.id, local("2027-03-05T12:00"))
    assert list(lists(change)["added"]) == [
        "2027-03-05T12:00",
        "2027-03-07T00:00",
        "2027-03-08T12:00",
        "2027-03-10T00:00",
    ]


@pytest.mark.parametrize(
    ("original", "changes", "field"),
    [
        ("2027-03-04T12:30", {}, "original_local"),
        ("2027-03-20T07:00", {}, "original_local"),
        ("2027-03-04T12:00", {"start_local": "noon"}, "start_local"),
        ("2027-03-04T12:00", {"recurrence": "FREQ=SECONDLY"}, "recurrence"),
        ("2027-03-04T12:00", {"colour": "green"}, "colour"),
    ],
)
async def test_a_split_that_is_refused_changes_nothing(
    bell: Timebell, tables: Tables, original: str, changes: dict[str, Any], field: str
) -> None:
    schedule = await daily(bell, rdates=[local("2027-03-20T07:00")])
    jobs = await tables.jobs()
    with pytest.raises(InvalidInput) as refused:
        await call(bell, "split", schedule.id, local(original), **changes)
    assert refused.value.field == field
    assert await tables.jobs() == jobs
    assert await tables.value("SELECT revision FROM timebell.schedules") == 1


async def test_an_occurrence_and_what_follows_are_left_out(bell: Timebell) -> None:
    schedule = await daily(bell, count=5)
    change = await call(bell, "end_before", schedule.id, FOURTH)
    assert lists(change) == {"kept": {**at(2, ["start"]), **at(3)}, "withdrawn": days(4, 5, 6)}
    assert (change.schedule.state, change.schedule.until_local) == ("active", local("2027-03-04T11:59:59"))
    # It has no such occurrence any more, and so no later end either.
    with pytest.raises(InvalidInput, match="no occurrence") as refusal:
        await call(bell, "end_before", schedule.id, local("2027-03-05T12:00"))
    assert refusal.value.field == "original_local"
    ended = await call(bell, "end_before", schedule.id, NOON, "given up")
    assert (ended.schedule.state, ended.schedule.state_reason) == ("ended", "given up")


async def test_a_paused_schedule_owes_nothing(bell: Timebell, clock: StillClock, tables: Tables) -> None:
    schedule = await daily(bell, recurrence="FREQ=DAILY", steps=[step("start", 0)])
    paused = await call(bell, "pause", schedule.id, "on holiday", actor="anna")
    assert len(paused.diff.withdrawn) == 59
    assert (paused.schedule.state, paused.schedule.state_reason, paused.schedule.plan_at) == (
        "paused",
        "on holiday",
        None,
    )
    assert await tables.jobs() == []
    edited = await call(bell, "edit", schedule.id, owner="anna")
    assert (edited.schedule.state, lists(edited)) == ("paused", {})
    clock.now = NOW + 10 * DAY
    resumed = await call(bell, "resume", schedule.id)
    assert (resumed.schedule.state, resumed.schedule.state_reason) == ("active", None)
    assert len(resumed.diff.added) == 60
    found = await states(tables)
    assert min(found) == "2027-03-11T12:00"
    assert set(found.values()) == {"planned"}


@pytest.mark.req("S-3.3")
async def test_a_schedule_keeps_its_id_over_its_life(bell: Timebell) -> None:
    schedule = await daily(bell)
    for verb, options in (("edit", {"owner": "anna"}), ("pause", {}), ("resume", {}), ("end", {})):
        change = await call(bell, verb, schedule.id, **options)
        assert change.schedule.id == schedule.id
    assert change.schedule.revision == 5


async def test_what_has_ended_stays_ended(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell)
    ended = await call(bell, "end", schedule.id, "moved away")
    assert list(lists(ended)) == ["withdrawn"]
    assert (ended.schedule.state, ended.schedule.state_reason) == ("ended", "moved away")
    assert await tables.jobs() == []
    for verb, options in (("edit", {"owner": "anna"}), ("resume", {}), ("pause", {}), ("end", {})):
        with pytest.raises(InvalidInput, match="has ended; create another"):
            await call(bell, verb, schedule.id, **options)


@pytest.mark.parametrize("catch_up", ["latest", "all"])
async def test_what_is_due_and_waits_ends_with_its_schedule(
    bell: Timebell, tables: Tables, clock: StillClock, catch_up: str
) -> None:
    """Its queue is paused, say, or nobody is there who could do it: it must not be done afterwards."""
    schedule = await daily(bell, steps=[step("start", 0)], catch_up=catch_up, grace=30 * DAY)
    other = await daily(bell, steps=[step("start", 0)], catch_up=catch_up, grace=30 * DAY)
    clock.now = NOW + 3 * DAY
    ended = await call(bell, "end", schedule.id, "cancelled")
    assert lists(ended) == {
        "withdrawn": {**at(2, ["start"]), **at(3, ["start"]), **at(4, ["start"]), **at(5, ["start"])}
    }
    subjects = {row["subject"] for row in await tables.jobs()}
    rows = await tables.rows("SELECT id, schedule_id FROM timebell.occurrences")
    assert {row["schedule_id"] for row in rows if f"occurrence:{row['id']}" in subjects} == {other.id}
    assert len(subjects) == 4


async def test_what_runs_as_its_schedule_ends_is_told_as_too_late(
    bell: Timebell, tables: Tables, clock: StillClock
) -> None:
    schedule = await daily(bell, steps=[step("start", 0)])
    clock.now = NOW + 2 * DAY
    [running] = await tables.rows(
        "UPDATE timebell.jobs SET started_by = 1, started_at = due_at, version = 2, attempt = 1 "
        "WHERE due_at < $1 RETURNING id, due_at",
        NOW + 2 * DAY,
    )
    ended = await call(bell, "end", schedule.id, "cancelled")
    assert list(ended.diff.too_late[0].steps) == ["start"]
    assert [row["id"] for row in await tables.jobs()] == [running["id"]]


async def test_of_what_is_over_only_the_last_can_wait(
    bell: Timebell, tables: Tables, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a schedule has gone on, its end looks at no more than its policy lets wait."""
    schedule = await daily(bell, 9, steps=[step("start", 0)], catch_up="all", catch_up_max=2)
    clock.now = NOW + 6 * DAY
    ended = await call(bell, "end", schedule.id, "cancelled")
    assert len(ended.diff.withdrawn) == 3 + 4
    assert len(await tables.jobs()) == 2


async def test_what_has_ended_can_be_forgotten(bell: Timebell, tables: Tables) -> None:
    schedule, other = await daily(bell), await daily(bell)
    await call(bell, "override", schedule.id, FOURTH, skip=True)
    with pytest.raises(NotFound, match="end it first"):
        await call(bell, "forget", schedule.id)
    await call(bell, "end", schedule.id)
    await call(bell, "forget", schedule.id)
    for table, column in (
        ("schedules", "id"),
        ("occurrences", "schedule_id"),
        ("occurrence_overrides", "schedule_id"),
    ):
        left = await tables.rows(f"SELECT DISTINCT {column} AS id FROM timebell.{table}")
        assert {row["id"] for row in left} <= {other.id}
    assert len(await tables.rows("SELECT FROM timebell.occurrences")) == 4


async def test_who_ends_a_schedule_cannot_say_that_it_ended_by_itself(bell: Timebell) -> None:
    """An edit would give one that is over a later end, and bring back what somebody ended."""
    schedule = await daily(bell)
    with pytest.raises(InvalidInput, match="'over' is kept for a schedule that ended by itself") as refusal:
        await call(bell, "end", schedule.id, "over")
    assert refusal.value.field == "reason"
    assert (await call(bell, "end", schedule.id, "over and out")).schedule.state == "ended"


async def test_both_parts_of_a_parked_schedule_go_on(bell: Timebell, tables: Tables) -> None:
    """A split is an edit of both parts, and an edit that can be planned mends what was parked."""
    schedule = await daily(bell, steps=[step("start", 0)])
    await tables.rows("UPDATE timebell.schedules SET state = 'parked', state_reason = 'bad', plan_at = NULL")
    change = await call(bell, "split", schedule.id, FOURTH)
    assert change.split_from is not None
    assert (change.split_from.state, change.schedule.state, change.schedule.state_reason) == (
        "active",
        "active",
        None,
    )
    assert len(await tables.jobs()) == 4


async def test_what_an_occurrence_owes_afterwards_goes_with_its_schedule(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    schedule = await daily(bell, count=2, steps=[step("after", 2)])
    clock.now = datetime.fromisoformat("2027-03-02T13:00Z")
    edited = await call(bell, "edit", schedule.id, owner="anna")
    assert lists(edited) == {"kept": at(3, ["after"])}
    assert len(await tables.jobs()) == 2
    ended = await call(bell, "end", schedule.id)
    assert lists(ended) == {"withdrawn": days(2, 3, steps=["after"])}
    assert await tables.jobs() == []
    assert list(await states(tables)) == ["2027-03-02T12:00"]


async def test_only_what_is_paused_or_parked_resumes(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell)
    with pytest.raises(InvalidInput, match="is active"):
        await call(bell, "resume", schedule.id)
    await tables.rows("UPDATE timebell.schedules SET state = 'parked', state_reason = 'bad', plan_at = NULL")
    resumed = await call(bell, "resume", schedule.id)
    assert (resumed.schedule.state, resumed.schedule.state_reason) == ("active", None)


async def test_a_parked_schedule_is_mended_by_an_edit(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, steps=[step("start", 0)])
    await tables.rows(
        "UPDATE timebell.schedules SET state = 'parked', plan_at = NULL, timezone = 'Mars/Olympus'"
    )
    with pytest.raises(InvalidInput, match="Mars/Olympus"):
        await call(bell, "edit", schedule.id, owner="anna")
    change = await call(bell, "edit", schedule.id, timezone="Europe/Berlin")
    assert (change.schedule.state, len(change.diff.moved)) == ("active", 4)
    await tables.rows(
        "UPDATE timebell.schedules SET state = 'parked', plan_at = NULL, timezone = 'Mars/Olympus'"
    )
    ended = await call(bell, "end", schedule.id)
    assert len(ended.diff.withdrawn) == 4


async def test_a_series_that_is_over_is_given_a_later_end(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    schedule = await daily(bell, steps=[step("start", 0)])
    clock.now = NOW + 10 * DAY
    over = await call(bell, "edit", schedule.id, owner="anna")
    assert (over.schedule.state, over.schedule.state_reason) == ("ended", "over")
    with pytest.raises(RecurrenceError, match="nothing is due"):
        await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=5")
    change = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=12")
    assert (change.schedule.state, list(lists(change)["added"])) == (
        "active",
        ["2027-03-11T12:00", "2027-03-12T12:00", "2027-03-13T12:00"],
    )


async def test_a_series_that_is_over_may_be_ended_for_good(bell: Timebell, clock: StillClock) -> None:
    schedule = await daily(bell, steps=[step("start", 0)])
    clock.now = NOW + 10 * DAY
    await call(bell, "edit", schedule.id, owner="anna")
    ended = await call(bell, "end", schedule.id, "deleted")
    assert (ended.schedule.state, ended.schedule.state_reason) == ("ended", "deleted")
    with pytest.raises(InvalidInput, match="has ended; create another"):
        await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=12")


async def test_a_frequent_schedule_is_paused_whole(bell: Timebell, tables: Tables) -> None:
    change = await create(bell, recurrence="every PT15M", start_local=local("2027-03-01T10:15"))
    later = datetime.fromisoformat("2027-03-08T00:00Z")
    # As the planner would go on.
    await tables.rows(
        "INSERT INTO timebell.occurrences (schedule_id, original_local, id, tenant, local, occurs_at, revision, "
        "timezone_version, created_at) SELECT $1, t, gen_random_uuid(), 'default', t, t AT TIME ZONE 'UTC', 1, "
        "'2026a', now() FROM generate_series($2::timestamp, $2::timestamp + interval '6 days', '15 minutes') t",
        change.schedule.id,
        later.replace(tzinfo=None),
    )
    paused = await call(bell, "pause", change.schedule.id)
    assert len(paused.diff.withdrawn) == 500
    assert await tables.value("SELECT count(*) FROM timebell.occurrences") == 0
    assert await tables.jobs() == []
