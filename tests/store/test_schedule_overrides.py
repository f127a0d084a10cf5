"""Changes to one occurrence: moved, skipped, given a payload of its own, and taken back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
import pytest

from tests.store.schedule_support import (
    DAY,
    at,
    call,
    create,
    daily,
    lists,
    local,
    pending,
    states,
    step,
)
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell
from timebell.kernel.schedules.models import OrphanedOverride

THIRD = local("2027-03-03T12:00")


@pytest.mark.req("X-R23")
async def test_one_occurrence_is_skipped_and_comes_back(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3)
    before = await pending(tables)
    change = await call(bell, "override", schedule.id, THIRD, skip=True, actor="anna")
    assert lists(change) == {"kept": {**at(2, ["start"]), **at(4)}, "withdrawn": at(3)}
    assert await states(tables) == {
        "2027-03-02T12:00": "planned",
        "2027-03-03T12:00": "skipped",
        "2027-03-04T12:00": "planned",
    }
    assert len(await pending(tables)) == len(before) - 2
    again = await call(bell, "override", schedule.id, THIRD, skip=True)
    assert lists(again) == {"kept": {**at(2, ["start"]), **at(4)}}
    restored = await call(bell, "restore", schedule.id, THIRD)
    assert lists(restored) == {"kept": {**at(2, ["start"]), **at(4)}, "added": at(3)}
    assert await pending(tables) == before
    assert restored.schedule.revision == 4


async def test_one_occurrence_is_moved_and_keeps_its_name(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3)
    jobs = {job["step"]: job["id"] for job in await tables.jobs("due_at::date = '2027-03-03'")}
    change = await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-03T18:00"))
    assert lists(change) == {"kept": {**at(2, ["start"]), **at(4)}, "moved": at(3)}
    (moved,) = change.diff.moved
    assert moved.was_at is not None
    assert moved.occurs_at - moved.was_at == 6 * HOUR
    (row,) = await tables.rows("SELECT * FROM timebell.occurrences WHERE original_local = $1", THIRD)
    assert (row["local"], row["id"]) == (local("2027-03-03T18:00"), moved.occurrence_id)
    assert (await tables.job(jobs["start"]))["due_at"] == datetime.fromisoformat("2027-03-03T18:00Z")


async def test_a_move_outlives_an_edit_of_the_series(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3)
    await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-03T18:00"))
    change = await call(bell, "edit", schedule.id, payload={"title": "Bins"})
    assert list(lists(change)) == ["kept"]
    assert change.orphaned_overrides == ()
    assert await tables.value(
        "SELECT local FROM timebell.occurrences WHERE original_local = $1", THIRD
    ) == local("2027-03-03T18:00")


async def test_a_change_whose_occurrence_is_gone_is_told_and_kept(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3)
    await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-03T18:00"))
    change = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;INTERVAL=2;COUNT=2")
    assert change.orphaned_overrides == (
        OrphanedOverride(original_local=THIRD, fold=0, new_local=local("2027-03-03T18:00")),
    )
    assert lists(change)["withdrawn"] == at(3)
    back = await call(bell, "edit", schedule.id, recurrence="FREQ=DAILY;COUNT=3")
    assert back.orphaned_overrides == ()
    (added,) = back.diff.added
    assert added.occurs_at == datetime.fromisoformat("2027-03-03T18:00Z")


async def test_an_occurrence_far_away_is_moved_near(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, recurrence="FREQ=MONTHLY", steps=[step("start", 0)])
    far = local("2027-09-02T12:00")
    change = await call(bell, "override", schedule.id, far, start_local=local("2027-03-10T12:00"))
    assert list(lists(change)["added"]) == ["2027-09-02T12:00"]
    assert ("start", datetime.fromisoformat("2027-03-10T12:00Z")) in await pending(tables)


async def test_an_occurrence_that_is_moved_far_away_stays_planned(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3, steps=[step("start", 0)])
    change = await call(bell, "override", schedule.id, THIRD, start_local=local("2027-09-09T12:00"))
    assert list(lists(change)["moved"]) == ["2027-03-03T12:00"]
    again = await call(bell, "edit", schedule.id, owner="anna")
    assert list(lists(again)["kept"]) == ["2027-03-02T12:00", "2027-03-04T12:00", "2027-03-03T12:00"]
    # It is not over before that one is.
    assert again.schedule.plan_at == datetime.fromisoformat("2027-09-09T12:15Z")
    assert ("start", datetime.fromisoformat("2027-09-09T12:00Z")) in await pending(tables)


async def test_one_occurrence_has_a_payload_of_its_own(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=3, payload={"title": "Bins", "room": 1}, steps=[step("start", 0)])
    await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-03T18:00"))
    change = await call(bell, "override", schedule.id, THIRD, payload={"room": 2})
    assert list(lists(change)) == ["kept"]
    payloads = [orjson.loads(job["payload_text"]) for job in await tables.jobs()]
    assert [(payload["title"], payload["room"]) for payload in payloads] == [
        ("Bins", 1),
        ("Bins", 2),
        ("Bins", 1),
    ]
    assert payloads[1]["occurs_at"] == "2027-03-03T18:00:00+00:00"


async def test_a_move_changes_when_the_one_before_is_overtaken(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, count=2, steps=[step("start", 0)], grace=30 * HOUR)
    first = datetime.fromisoformat("2027-03-02T12:00Z")
    assert (await tables.jobs())[0]["expires_at"] == first + DAY
    await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-02T18:00"))
    assert (await tables.jobs())[0]["expires_at"] == first + 6 * HOUR
    await call(bell, "override", schedule.id, THIRD, skip=True)
    assert (await tables.jobs())[0]["expires_at"] == first + 30 * HOUR


async def test_both_passes_of_a_fold_are_two_occurrences(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    clock.now = datetime.fromisoformat("2027-10-30T22:00Z")
    change = await create(
        bell,
        recurrence="every PT1H",
        start_local=local("2027-10-31T01:00"),
        until_local=local("2027-10-31T03:00"),
    )
    folds = [(one.original_local.hour, one.fold) for one in change.diff.added]
    assert folds == [(1, 0), (2, 0), (2, 1), (3, 0)]
    second = await call(bell, "override", change.schedule.id, local("2027-10-31T02:00"), fold=1, skip=True)
    assert [(one.original_local.hour, one.fold) for one in second.diff.withdrawn] == [(2, 1)]
    assert await tables.value("SELECT count(*) FROM timebell.occurrences WHERE state = 'planned'") == 3


@pytest.mark.parametrize(
    ("original", "options", "field"),
    [
        ("2027-03-03T12:01", {"skip": True}, "original_local"),
        ("2027-03-09T12:00", {"skip": True}, "original_local"),
        ("2027-03-03T12:00", {}, "skip"),
        ("2027-03-03T12:00", {"skip": True, "payload": {}}, "skip"),
        ("2027-03-03T12:00", {"start_local": local("2027-03-01T08:59")}, "start_local"),
        ("2027-03-03T12:00", {"start_local": local("2300-03-01T08:59")}, "start_local"),
        ("2027-03-03T12:00", {"start_local": NOW + DAY}, "start_local"),
        ("2027-03-03T12:00", {"fold": 2, "skip": True}, "fold"),
        ("2027-03-03T12:00", {"payload": {"x": "y" * 70_000}}, "payload"),
    ],
)
async def test_what_is_refused_names_its_field(
    bell: Timebell, tables: Tables, original: str, options: dict[str, Any], field: str
) -> None:
    schedule = await daily(bell, count=3)
    jobs = await tables.jobs()
    with pytest.raises(InvalidInput) as refused:
        await call(bell, "override", schedule.id, local(original), **options)
    assert refused.value.field == field
    assert await tables.jobs() == jobs
    assert await tables.value("SELECT count(*) FROM timebell.occurrence_overrides") == 0


async def test_what_is_over_does_not_change(bell: Timebell, clock: StillClock, tables: Tables) -> None:
    schedule = await daily(bell, count=3)
    clock.now = NOW + 2 * DAY + 4 * HOUR
    for options in ({"skip": True}, {"start_local": local("2027-03-09T12:00")}):
        with pytest.raises(InvalidInput, match="is over"):
            await call(bell, "override", schedule.id, THIRD, **options)
    with pytest.raises(InvalidInput, match="is over"):
        await call(bell, "split", schedule.id, THIRD)
    with pytest.raises(NotFound, match="nothing was changed"):
        await call(bell, "restore", schedule.id, local("2027-03-04T12:00"))


async def test_what_was_moved_on_does_not_go_back_into_the_past(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    schedule = await daily(bell, count=3)
    await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-09T12:00"))
    clock.now = NOW + 2 * DAY + 4 * HOUR
    with pytest.raises(InvalidInput, match="is past; skip the occurrence or move it elsewhere"):
        await call(bell, "restore", schedule.id, THIRD)
    moved = await call(bell, "override", schedule.id, THIRD, start_local=local("2027-03-08T12:00"))
    assert list(lists(moved)["moved"]) == ["2027-03-03T12:00"]
    skipped = await call(bell, "override", schedule.id, THIRD, skip=True)
    assert list(lists(skipped)["withdrawn"]) == ["2027-03-03T12:00"]


async def test_only_so_many_occurrences_to_come_are_changed(bell: Timebell, tables: Tables) -> None:
    schedule = await daily(bell, recurrence="FREQ=DAILY")
    fill = (
        "INSERT INTO timebell.occurrence_overrides (schedule_id, original_local, created_at) "
        "SELECT $1, t, now() FROM generate_series($2::timestamp, $2::timestamp + interval '999 days', '1 day') t"
    )
    await tables.rows(fill, schedule.id, local("2020-03-03T12:00"))
    await call(bell, "override", schedule.id, THIRD, skip=True)
    await tables.rows(fill, schedule.id, local("2028-03-03T12:00"))
    with pytest.raises(InvalidInput, match="1000 occurrences to come are changed already"):
        await call(bell, "override", schedule.id, local("2027-03-05T12:00"), skip=True)
    await call(bell, "override", schedule.id, local("2028-03-03T12:00"), payload={"room": 1})
