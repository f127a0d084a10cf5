"""Schedules: what happens by the wall clock of a place is planned at once, in the caller's transaction."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import psycopg
import pytest

from tests.store.schedule_support import DAY, create, fires, local, pending, step
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import (
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    RecurrenceError,
    UnknownKind,
    UnknownTimezone,
)
from timebell.kernel import Timebell
from timebell.kernel.schedules.models import ScheduleChange
from timebell.rules.planned import occurrence_id
from timebell.testing.database import TestDatabase


async def edited(bell: Timebell, id: UUID, **changes: Any) -> ScheduleChange:
    async with bell.transaction() as tx:
        return await bell.schedules.edit(tx, id, **changes)


@pytest.mark.req("R-4.3", "R-4.12", "R-8.5")
async def test_a_one_off_owes_each_of_its_steps_once(bell: Timebell, tables: Tables) -> None:
    steps = [step(f"{hours} h", -hours) for hours in (48, 24, 12, 6, 3)]
    change = await create(bell, start_local=local("2027-03-05T17:00"), steps=steps)
    assert fires(change.diff.added) == {"2027-03-05T17:00": ["48 h", "24 h", "12 h", "6 h", "3 h"]}
    occurs_at = datetime.fromisoformat("2027-03-05T16:00Z")
    assert await pending(tables) == {(f"{hours} h", occurs_at - hours * HOUR) for hours in (48, 24, 12, 6, 3)}
    (row,) = await tables.rows("SELECT * FROM timebell.occurrences")
    assert row["id"] == occurrence_id(change.schedule.id, local("2027-03-05T17:00"))
    assert (row["occurs_at"], row["state"], row["adjusted"]) == (occurs_at, "planned", None)


async def test_a_schedule_without_steps_is_planned_and_owes_nothing(bell: Timebell, tables: Tables) -> None:
    """Not so much as an agenda is written; once it has steps, all that is to come owes them."""
    change = await create(
        bell, recurrence="FREQ=WEEKLY;COUNT=3", start_local=local("2027-03-05T17:00"), steps=[]
    )
    planned = [f"2027-03-{day:02}T17:00" for day in (5, 12, 19)]
    assert fires(change.diff.added) == {at: [] for at in planned}
    assert change.first_occurrence is not None
    rows = await tables.rows("SELECT * FROM timebell.occurrences ORDER BY occurs_at")
    assert [row["id"] for row in rows] == [one.occurrence_id for one in change.diff.added]
    assert {row["state"] for row in rows} == {"planned"}
    for table in ("jobs", "agendas", "job_log"):
        assert await tables.rows(f"SELECT * FROM timebell.{table}") == []
    owing = await edited(bell, change.schedule.id, steps=[step("start", 0)])
    assert fires(owing.diff.added) == {at: ["start"] for at in planned}
    assert {due_at for _, due_at in await pending(tables)} == {row["occurs_at"] for row in rows}
    silent = await edited(bell, change.schedule.id, steps=[])
    assert fires(silent.diff.withdrawn) == {at: ["start"] for at in planned}
    assert fires(silent.diff.kept) == {at: [] for at in planned}
    assert await pending(tables) == set()


@pytest.mark.req("R-4.8")
async def test_offsets_that_are_past_already_are_skipped(bell: Timebell, tables: Tables) -> None:
    steps = [step(f"{hours} h", -hours) for hours in (48, 24, 12, 6, 3)]
    await create(bell, start_local=local("2027-03-01T20:00"), steps=steps)
    assert {key for key, _ in await pending(tables)} == {"6 h", "3 h"}


@pytest.mark.req("R-4.8")
async def test_what_is_due_this_very_instant_is_owed(bell: Timebell, tables: Tables) -> None:
    change = await create(bell, start_local=local("2027-03-01T10:00"), steps=[step("start", 0)])
    assert fires(change.diff.added) == {"2027-03-01T10:00": ["start"]}
    assert await pending(tables) == {("start", NOW)}


@pytest.mark.req("R-4.2", "R-8.1")
async def test_a_weekly_schedule_keeps_its_wall_time_through_both_changes_of_the_clocks(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    for month in (3, 10):
        clock.now = datetime.fromisoformat(f"2027-{month:02}-01T09:00Z")
        await create(bell, recurrence="FREQ=WEEKLY;BYDAY=MO", start_local=local(f"2027-{month:02}-01T09:00"))
    rows = await tables.rows("SELECT local, occurs_at FROM timebell.occurrences ORDER BY occurs_at")
    assert {row["local"].time().isoformat() for row in rows} == {"09:00:00"}
    offsets = [(row["local"] - row["occurs_at"].replace(tzinfo=None)) // HOUR for row in rows]
    assert offsets == [1] * 3 + [2] * 5 + [2] * 4 + [1] * 5


@pytest.mark.req("R-4.11", "X-R14")
@pytest.mark.parametrize(
    ("start", "timezone", "occurs_at", "adjusted"),
    [
        ("2027-03-28T02:30", "Europe/Berlin", "2027-03-28T01:30Z", "gap"),
        ("2027-10-31T02:30", "Europe/Berlin", "2027-10-31T00:30Z", "fold"),
        ("2027-10-03T02:15", "Australia/Lord_Howe", "2027-10-02T15:45Z", "gap"),
        ("2027-04-04T01:45", "Australia/Lord_Howe", "2027-04-03T14:45Z", "fold"),
    ],
)
async def test_gaps_shift_and_folds_come_once(
    bell: Timebell, start: str, timezone: str, occurs_at: str, adjusted: str
) -> None:
    change = await create(bell, start_local=local(start), timezone=timezone)
    first = change.first_occurrence
    assert first is not None
    assert (first.occurs_at, first.adjusted) == (datetime.fromisoformat(occurs_at), adjusted)


@pytest.mark.req("R-4.1", "R-4.9")
async def test_only_what_is_within_the_horizon_and_the_longest_offset_is_planned(
    bell: Timebell, tables: Tables
) -> None:
    near = await create(bell, start_local=local("2027-04-29T09:00"))
    far = await create(bell, start_local=local("2027-05-01T12:00"))
    lead = await create(bell, start_local=local("2027-05-01T12:00"), steps=[step("early", -48)])
    assert [len(change.diff.added) for change in (near, far, lead)] == [1, 0, 1]
    assert far.first_occurrence is not None
    assert far.first_occurrence.local == local("2027-05-01T12:00")
    assert far.schedule.planned_until == NOW + 60 * DAY
    assert far.schedule.plan_at == far.first_occurrence.occurs_at - 60 * DAY + timedelta(microseconds=1)
    assert lead.schedule.planned_until == NOW + 62 * DAY
    assert await tables.value("SELECT count(*) FROM timebell.occurrences") == 2


@pytest.mark.req("R-4.4", "X-R13")
@pytest.mark.parametrize(
    ("terms", "days"),
    [
        ({"recurrence": "FREQ=DAILY", "until_local": local("2027-03-05T12:00")}, 4),
        ({"recurrence": "FREQ=DAILY;COUNT=2"}, 2),
        ({"recurrence": "FREQ=DAILY;COUNT=9", "until_local": local("2027-03-04T12:00")}, 3),
        ({"recurrence": "FREQ=DAILY;UNTIL=20270303T110000Z"}, 2),
        ({"recurrence": "FREQ=DAILY;UNTIL=20270304"}, 3),
    ],
)
async def test_the_earliest_end_wins(bell: Timebell, terms: dict[str, Any], days: int) -> None:
    change = await create(bell, start_local=local("2027-03-02T12:00"), **terms)
    assert list(fires(change.diff.added)) == [f"2027-03-0{2 + day}T12:00" for day in range(days)]
    last = change.schedule.last_local
    assert last is not None
    assert last.date() == local(f"2027-03-0{1 + days}T12:00").date()


@pytest.mark.req("X-R23")
async def test_dates_are_left_out_and_added(bell: Timebell) -> None:
    change = await create(
        bell,
        recurrence="FREQ=DAILY;COUNT=4",
        start_local=local("2027-03-02T12:00"),
        exdates=[local("2027-03-03T12:00"), local("2027-03-09T12:00")],
        rdates=[local("2027-03-20T07:00")],
    )
    assert list(fires(change.diff.added)) == [
        "2027-03-02T12:00",
        "2027-03-04T12:00",
        "2027-03-05T12:00",
        "2027-03-20T07:00",
    ]
    assert change.unused_exdates == (local("2027-03-09T12:00"),)


async def test_a_start_that_is_no_occurrence_is_told(bell: Timebell) -> None:
    change = await create(bell, recurrence="FREQ=WEEKLY;BYDAY=FR", start_local=local("2027-03-02T12:00"))
    (warning,) = change.warnings
    assert "2027-03-02T12:00:00" in warning
    assert "2027-03-05T12:00:00" in warning
    fitting = await create(bell, recurrence="FREQ=WEEKLY;BYDAY=FR", start_local=local("2027-03-05T12:00"))
    assert fitting.warnings == ()


@pytest.mark.req("R-4.7")
async def test_a_job_knows_what_it_is_about(bell: Timebell, tables: Tables) -> None:
    change = await create(
        bell,
        start_local=local("2027-03-05T17:00"),
        payload={"title": "Bins", "colour": "grey"},
        steps=[step("eve", -3, payload={"colour": "green"})],
        correlation_id="c-1",
    )
    (job,) = await tables.jobs()
    (occurrence,) = await tables.rows("SELECT id FROM timebell.occurrences")
    assert orjson.loads(job["payload_text"]) == {
        "title": "Bins",
        "colour": "green",
        "schedule_id": str(change.schedule.id),
        "occurrence_id": str(occurrence["id"]),
        "original_local": "2027-03-05T17:00:00",
        "occurs_at": "2027-03-05T16:00:00+00:00",
    }
    assert (job["subject"], job["correlation_id"]) == (f"occurrence:{occurrence['id']}", "c-1")


@pytest.mark.req("U-10")
@pytest.mark.parametrize(
    ("terms", "after_due"),
    [
        ({"catch_up": "skip"}, timedelta(seconds=60)),
        ({"catch_up": "latest"}, timedelta(minutes=15)),
        ({"catch_up": "latest", "grace": 6 * HOUR}, 6 * HOUR),
        ({"catch_up": "latest", "grace": 9 * DAY}, DAY),
        ({"catch_up": "all", "catch_up_max": 3}, 3 * DAY),
        ({"catch_up": "all", "catch_up_max": 3, "grace": HOUR}, HOUR),
    ],
)
async def test_what_is_owed_goes_stale_as_the_policy_says(
    bell: Timebell, tables: Tables, terms: dict[str, Any], after_due: timedelta
) -> None:
    await create(
        bell,
        recurrence="FREQ=DAILY",
        timezone="UTC",
        start_local=local("2027-03-02T12:00"),
        steps=[step("eve", -3), step("start", 0)],
        **terms,
    )
    assert {job["expires_at"] - job["due_at"] for job in await tables.jobs()} == {after_due}


async def test_a_step_may_go_stale_earlier_than_its_schedule_says(bell: Timebell, tables: Tables) -> None:
    steps = [step("start", 0, expires_after=timedelta(minutes=2))]
    await create(bell, start_local=local("2027-03-05T17:00"), steps=steps)
    (job,) = await tables.jobs()
    assert job["expires_at"] - job["due_at"] == timedelta(minutes=2)


async def test_a_frequent_schedule_is_planned_in_parts(bell: Timebell, tables: Tables) -> None:
    change = await create(bell, recurrence="every PT15M", start_local=local("2027-03-01T10:15"))
    assert len(change.diff.added) == 500
    assert change.schedule.planned_until == NOW + 501 * timedelta(minutes=15)
    assert change.schedule.plan_at is not None
    assert change.schedule.plan_at < NOW


async def test_many_steps_each_minute_are_not_all_written_at_once(bell: Timebell, tables: Tables) -> None:
    """A few kilobytes ask for millions of jobs; the planner writes them as they come nearer."""
    steps = [step(f"s{number}", 0) for number in range(200)]
    change = await create(bell, recurrence="every PT1M", start_local=local("2027-03-01T10:15"), steps=steps)
    assert await tables.value("SELECT count(*) FROM timebell.jobs") == 5_000
    assert len(change.diff.added) == 25
    assert change.schedule.planned_until == max(one.occurs_at for one in change.diff.added) + timedelta(
        minutes=1
    )
    assert change.schedule.plan_at is not None
    assert change.schedule.plan_at < NOW
    assert await tables.value("SELECT count(*) FROM timebell.occurrences") == 25


async def test_a_schedule_that_would_fill_the_tables_is_refused(bell: Timebell, tables: Tables) -> None:
    steps = [step("early", -24 * 366)]
    with pytest.raises(InvalidInput, match=r"steps: .*10000 jobs would be due before"):
        await create(bell, recurrence="every PT1M", start_local=local("2027-03-01T10:15"), steps=steps)
    assert await tables.value("SELECT count(*) FROM timebell.schedules") == 0


STEP = step("start", 0)


@pytest.mark.parametrize(
    ("terms", "error", "field"),
    [
        ({"start_local": local("2027-03-01T09:59")}, InvalidInput, "start_local"),
        ({"start_local": NOW}, InvalidInput, "start_local"),
        ({"start_local": "tomorrow"}, InvalidInput, "start_local"),
        ({"timezone": "Europe/Berlinn"}, UnknownTimezone, "timezone"),
        ({"timezone": ""}, InvalidInput, "timezone"),
        (
            {"recurrence": "FREQ=DAILY;COUNT=2", "start_local": local("2027-02-01T12:00")},
            RecurrenceError,
            None,
        ),
        ({"recurrence": "FREQ=SECONDLY"}, RecurrenceError, "recurrence"),
        ({"recurrence": "FREQ=NEVER"}, RecurrenceError, "recurrence"),
        ({"recurrence": "FREQ=DAILY", "until_local": local("2027-03-01T12:00")}, RecurrenceError, None),
        ({"exdates": [local("2027-03-02T12:00")] * 1_001}, InvalidInput, "exdates"),
        ({"exdates": [local("2027-03-02T12:00")]}, InvalidInput, "start_local"),
        ({"steps": [STEP, STEP]}, InvalidInput, "steps"),
        ({"steps": ["start"]}, InvalidInput, "steps"),
        ({"steps": [step("start", None, at=NOW + HOUR)]}, InvalidInput, "steps"),
        ({"steps": [step("start", 0, kind="office.unknown")]}, UnknownKind, "kind"),
        ({"steps": [step("start", 24 * 4_000)]}, InvalidInput, "offset"),
        ({"steps": [step("start", 0, payload={"x": "y" * 70_000})]}, PayloadTooLarge, "payload"),
        ({"payload": {"x": "y" * 70_000}}, PayloadTooLarge, "payload"),
        ({"payload": {"x": object()}}, InvalidInput, "payload"),
        ({"catch_up": "some"}, InvalidInput, "catch_up"),
        ({"catch_up_max": 0}, InvalidInput, "catch_up_max"),
        ({"grace": timedelta(seconds=-1)}, InvalidInput, "grace"),
        ({"grace": 15}, InvalidInput, "grace"),
        ({"on_gap": "guess"}, InvalidInput, "on_gap"),
        ({"on_fold": "third"}, InvalidInput, "on_fold"),
        ({"owner": ""}, InvalidInput, "owner"),
        ({"colour": "green"}, InvalidInput, "colour"),
    ],
)
async def test_what_is_refused_names_its_field_and_writes_nothing(
    bell: Timebell, tables: Tables, terms: dict[str, Any], error: type[InvalidInput], field: str | None
) -> None:
    with pytest.raises(error) as refused:
        await create(bell, **{"start_local": local("2027-03-02T12:00"), **terms})
    assert refused.value.field == (field or "recurrence")
    for table in ("schedules", "occurrences", "jobs", "agendas", "events"):
        assert await tables.value(f"SELECT count(*) FROM timebell.{table}") == 0


async def test_a_refusal_leaves_the_rest_of_the_transaction_alone(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring")
        with pytest.raises(UnknownKind):
            await bell.schedules.create(
                tx,
                timezone="UTC",
                start_local=local("2030-03-02T12:00"),
                steps=[step("start", 0, kind="office.unknown")],
            )
    assert len(await tables.jobs()) == 1


async def test_a_term_that_is_missing_is_named(bell: Timebell) -> None:
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="timezone"):
            await bell.schedules.create(  # type: ignore[call-arg]
                tx, start_local=local("2027-03-02T12:00"), steps=[STEP]
            )


async def create_and_fail(bell: Timebell) -> None:
    async with bell.transaction() as tx:
        await bell.schedules.create(tx, timezone="UTC", start_local=local("2027-03-02T12:00"), steps=[STEP])
        raise RuntimeError


@pytest.mark.req("U-13")
async def test_a_rollback_takes_the_schedule_with_it(bell: Timebell, tables: Tables) -> None:
    with pytest.raises(RuntimeError):
        await create_and_fail(bell)
    assert await tables.value("SELECT count(*) FROM timebell.schedules") == 0
    assert await tables.jobs() == []


@pytest.mark.req("S-3.1")
async def test_what_was_said_is_read_back(bell: Timebell) -> None:
    terms: dict[str, Any] = {
        "timezone": "America/New_York",
        "start_local": local("2027-03-02T12:00"),
        "recurrence": "FREQ=DAILY;COUNT=3",
        "until_local": local("2027-03-30T12:00"),
        "exdates": (local("2027-03-03T12:00"),),
        "rdates": (local("2027-03-09T12:00"),),
        "on_gap": "skip",
        "on_fold": "second",
        "catch_up": "all",
        "catch_up_max": 7,
        "grace": timedelta(seconds=90),
        "payload": {"title": "Bins"},
        "owner": "anna",
        "subject": "bins",
        "correlation_id": "c-1",
        "steps": (
            step(
                "eve",
                -3,
                kind="office.post",
                payload={"to": "all"},
                late="grace",
                grace=HOUR,
                expires_after=2 * HOUR,
                guard="still_wanted",
                queue="slow",
                priority=5,
                urgency="critical",
                max_attempts=2,
                ordered=True,
                once=True,
            ),
            STEP,
        ),
    }
    change = await create(bell, **terms)
    async with bell.transaction() as tx:
        schedule = await bell.schedules.get(tx, change.schedule.id)
    assert schedule == change.schedule
    assert {name: getattr(schedule, name) for name in terms} == terms
    assert (schedule.state, schedule.revision, schedule.parent_id) == ("active", 1, None)
    assert schedule.last_local == local("2027-03-04T12:00")


async def test_each_tenant_has_its_own(bell: Timebell, tables: Tables) -> None:
    change = await create(bell, start_local=local("2027-03-02T12:00"))
    id = change.schedule.id
    async with bell.transaction(tenant="other") as tx:
        for call in (
            bell.schedules.get(tx, id),
            bell.schedules.edit(tx, id, owner="eve"),
            bell.schedules.end(tx, id),
            bell.schedules.split(tx, id, local("2027-03-02T12:00")),
        ):
            with pytest.raises(NotFound, match=str(id)):
                await call
        assert (await bell.schedules.list(tx)).lines == ()
        assert (await bell.schedules.occurrences(tx, id)).lines == ()
    with pytest.raises(NotFound):
        async with bell.transaction() as tx:
            await bell.schedules.get(tx, uuid4())


async def test_schedules_are_listed_in_pages(bell: Timebell) -> None:
    ids = [
        (await create(bell, start_local=local("2027-03-02T12:00"), owner=owner, subject=subject)).schedule.id
        for owner, subject in (("anna", "bins"), ("ben", "bins"), ("anna", "post"), (None, None))
    ]
    async with bell.transaction() as tx:
        await bell.schedules.pause(tx, ids[2])
        listed: list[UUID] = []
        cursor = None
        while True:
            page = await bell.schedules.list(tx, limit=3, cursor=cursor)
            listed += [line.id for line in page.lines]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert listed == ids
        assert [line.id for line in (await bell.schedules.list(tx, owner="anna")).lines] == [ids[0], ids[2]]
        assert [line.id for line in (await bell.schedules.list(tx, subject="bins")).lines] == ids[:2]
        assert [line.id for line in (await bell.schedules.list(tx, state="paused")).lines] == [ids[2]]
        with pytest.raises(InvalidInput, match="not both"):
            await bell.schedules.list(tx, owner="anna", subject="bins")
        with pytest.raises(InvalidInput, match="state: 'asleep' is unknown"):
            await bell.schedules.list(tx, state="asleep")  # type: ignore[arg-type]


async def test_occurrences_are_listed_in_pages(bell: Timebell) -> None:
    change = await create(bell, recurrence="FREQ=DAILY;COUNT=7", start_local=local("2027-03-02T12:00"))
    async with bell.transaction() as tx:
        first = await bell.schedules.occurrences(tx, change.schedule.id, limit=4)
        rest = await bell.schedules.occurrences(
            tx, change.schedule.id, limit=4, cursor=first.next_cursor, before=NOW + 6 * DAY
        )
    assert [one.local.day for one in first.lines] == [2, 3, 4, 5]
    assert [one.local.day for one in rest.lines] == [6]


@pytest.mark.req("U-20")
async def test_a_schedule_leaves_a_trail(bell: Timebell, tables: Tables) -> None:
    change: ScheduleChange = await create(bell, start_local=local("2027-03-02T12:00"), actor="anna")
    async with bell.transaction() as tx:
        await bell.schedules.end(tx, change.schedule.id, "moved away", actor="ben")
    rows = await tables.rows(
        "SELECT name, actor, subject, data::text AS data FROM timebell.events ORDER BY id"
    )
    assert [(row["name"], row["actor"]) for row in rows] == [
        ("schedule.created", "anna"),
        ("schedule.ended", "ben"),
    ]
    assert {row["subject"] for row in rows} == {f"schedule:{change.schedule.id}"}
    assert '"withdrawn": 1' in rows[1]["data"]


async def test_a_schedule_takes_part_in_a_transaction_of_another_driver(
    bell: Timebell, database_url: TestDatabase, tables: Tables
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url.url, autocommit=True) as connection:
        await connection.execute("SET timezone = 'Asia/Kathmandu'")
        async with connection.transaction():
            tx = bell.join(connection)
            change = await bell.schedules.create(
                tx,
                timezone="Europe/Berlin",
                recurrence="FREQ=DAILY;COUNT=6",
                start_local=local("2027-03-26T02:30"),
                exdates=[local("2027-03-27T02:30")],
                steps=[step("eve", -30), step("start", 0)],
                grace=HOUR,
            )
            id = change.schedule.id
            await bell.schedules.override(
                tx, id, local("2027-03-29T02:30"), start_local=local("2027-03-29T03:30"), payload={"x": 1}
            )
            await bell.schedules.edit(tx, id, payload={"title": "Bins"})
            change = await bell.schedules.split(tx, id, local("2027-03-30T02:30"), owner="anna")
            assert (await bell.schedules.get(tx, change.schedule.id)) == change.schedule
            assert len((await bell.schedules.occurrences(tx, id)).lines) == 3
            await bell.schedules.pause(tx, change.schedule.id)
    rows = await tables.rows("SELECT occurs_at FROM timebell.occurrences ORDER BY occurs_at")
    assert [row["occurs_at"].isoformat()[5:16] for row in rows] == [
        "03-26T01:30",
        "03-28T01:30",
        "03-29T01:30",
    ]
