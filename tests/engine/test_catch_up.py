"""What becomes of occurrences that were due while nobody paid, or while nobody planned."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.planner_support import DAY, HOUR, MINUTE, Diary, occurrences, row_of, schedule, utc, wall
from tests.engine.support import Owner
from timebell.engine.planner import planner
from timebell.kernel import Step
from timebell.testing import harness
from timebell.testing.database import TestDatabase


async def states(owner: Owner) -> list[tuple[int, str]]:
    """Hour and state of the occurrences of the first day."""
    rows = await occurrences(owner)
    return [(row["occurs_at"].hour, row["state"]) for row in rows if row["occurs_at"] < utc(2026, 1, 5, 17)]


@pytest.mark.req("S-3.4")
@pytest.mark.req("U-10")
@pytest.mark.parametrize(
    ("catch_up", "done_late", "missed"),
    [
        ("latest", [14], [10, 11, 12, 13]),
        ("all", [10, 11, 12, 13, 14], []),
        ("skip", [], [10, 11, 12, 13, 14]),
    ],
)
async def test_after_an_outage_the_policy_says_what_is_done_late(
    database_url: TestDatabase, owner: Owner, catch_up: Any, done_late: list[int], missed: list[int]
) -> None:
    """Every hour from ten; nobody is there from before ten until half past two. One at a time, so that order shows."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()], concurrency=1) as h:
        diary.clock = h.clock
        made = await schedule(
            h.bell,
            recurrence="FREQ=HOURLY",
            start_local=wall(2026, 1, 5, 10),
            catch_up=catch_up,
            grace=timedelta(hours=6),
        )
        h.clock.move_to(utc(2026, 1, 5, 14, 30))
        await h.run_due()
        late = [payload["original_local"] for _, _, payload in diary.lines]
        assert late == [f"2026-01-05T{hour}:00:00" for hour in done_late]
        diary.lines.clear()
        await h.advance(to=utc(2026, 1, 5, 16))
        assert diary.instants == [utc(2026, 1, 5, 15), utc(2026, 1, 5, 16)]
        # The planner looks again when another hour comes within reach, and by then it is known what was missed.
        await h.advance(8 * HOUR)
        told = dict(await states(owner))
        assert [hour for hour, state in told.items() if state == "missed"] == missed
        assert (await row_of(owner, made.schedule.id))["state"] == "active"


@pytest.mark.req("U-10")
async def test_latest_is_done_late_only_within_its_grace(database_url: TestDatabase, owner: Owner) -> None:
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        await schedule(h.bell, recurrence="FREQ=HOURLY", start_local=wall(2026, 1, 5, 10))
        h.clock.move_to(utc(2026, 1, 5, 14, 15, 1))
        await h.run_due()
        assert diary.lines == []
        await h.advance(to=utc(2026, 1, 5, 16))
        assert [(hour, state) for hour, state in await states(owner) if hour < 15] == [
            (hour, "missed") for hour in (10, 11, 12, 13, 14)
        ]


@pytest.mark.req("X-R17")
@pytest.mark.req("U-10")
@pytest.mark.parametrize(
    ("catch_up", "done_late"),
    [("latest", ["2026-05-08"]), ("skip", []), ("all", ["2026-04-24", "2026-05-01", "2026-05-08"])],
)
async def test_what_was_never_planned_is_caught_up_from_the_cursor_on(
    database_url: TestDatabase, owner: Owner, catch_up: Any, done_late: list[str]
) -> None:
    """All nodes were away for four months, and only two of them had been planned ahead."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        made = await schedule(
            h.bell,
            recurrence="FREQ=WEEKLY",
            start_local=wall(2026, 1, 9, 9),
            catch_up=catch_up,
            catch_up_max=3,
            grace=timedelta(days=30),
        )
        planned = len(await occurrences(owner))
        h.clock.move_to(utc(2026, 5, 9, 9))
        await h.run_due()
        rows = await occurrences(owner, made.schedule.id)
    assert planned == 8
    assert sorted(original[:10] for original in diary.originals) == done_late
    past = [row for row in rows if row["occurs_at"] < utc(2026, 5, 9)]
    assert len(past) == 18
    assert [
        row["original_local"].date().isoformat() for row in past if row["state"] == "planned"
    ] == done_late
    assert [row["state"] for row in rows if row["occurs_at"] > utc(2026, 5, 9)] == ["planned"] * 8
    if diary.lines:
        assert {payload["missed_count"] for _, _, payload in diary.lines} == {18 - len(done_late)}


async def test_a_look_that_ends_early_forgets_none_of_those_that_were_missed(
    database_url: TestDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both schedules are claimed at once, and the first fills the look alone: the second is left to the next one."""
    monkeypatch.setattr(planner, "_OCCURRENCES_MAX", 1)
    monkeypatch.setattr(planner, "_TURN_SECONDS", 0.0)
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        for _ in range(2):
            await schedule(
                h.bell, recurrence="FREQ=WEEKLY", start_local=wall(2026, 1, 9, 9), grace=timedelta(days=30)
            )
        h.clock.move_to(utc(2026, 5, 9, 9))
        await h.run_due()
    assert [payload["missed_count"] for _, _, payload in diary.lines] == [17, 17]


@pytest.mark.req("S-3.2", "S-3.3")
async def test_a_series_without_end_goes_on_after_a_thousand_times(
    database_url: TestDatabase, owner: Owner
) -> None:
    """Every hour, and every eight days somebody comes and makes up for all of them."""
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        made = await schedule(
            h.bell,
            recurrence="FREQ=HOURLY",
            start_local=wall(2026, 1, 5, 10),
            catch_up="all",
            catch_up_max=1_000,
        )
        for _ in range(5):
            h.clock.move(200 * HOUR)
            await h.run_due()
        [row] = await owner.rows("SELECT * FROM timebell.schedules")
    assert sorted(diary.originals) == [(wall(2026, 1, 5, 10) + n * HOUR).isoformat() for n in range(1_000)]
    assert (row["id"], row["state"]) == (made.schedule.id, "active")


async def test_only_what_nobody_did_is_missed(database_url: TestDatabase, owner: Owner) -> None:
    """One step was done before the outage and the other expired in it: the occurrence did happen."""
    diary = Diary()
    steps = [
        Step(key="before", kind="t.remind", offset=-2 * HOUR),
        Step(key="due", kind="t.remind", offset=timedelta(0)),
    ]
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        made = await schedule(h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 5, 12), steps=steps)
        await h.advance(to=utc(2026, 1, 5, 11))
        h.clock.move_to(utc(2026, 1, 6, 11))
        await h.advance(to=utc(2026, 1, 8))
        rows = await occurrences(owner, made.schedule.id)
    done = [(step, at) for at, step, _ in diary.lines]
    assert done == [
        ("before", utc(2026, 1, 5, 10)),
        ("due", utc(2026, 1, 6, 12)),
        ("before", utc(2026, 1, 7, 10)),
        ("due", utc(2026, 1, 7, 12)),
    ]
    assert [row["state"] for row in rows[:3]] == ["planned"] * 3


async def test_what_waits_is_not_missed_yet(database_url: TestDatabase, owner: Owner) -> None:
    """Its job was not tried yet, and may still be: it has two hours."""
    async with harness(database_url.url, [Diary().app()]) as h:
        await schedule(
            h.bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 5, 10), grace=timedelta(hours=2)
        )
        h.clock.move_to(utc(2026, 1, 5, 11, 59))
        await h.engine.planner.run_due(h.clock.now)
        await owner.connection.execute("UPDATE timebell.schedules SET plan_at = created_at")
        await h.engine.planner.run_due(h.clock.now)
        assert (await occurrences(owner))[0]["state"] == "planned"
        h.clock.move(MINUTE)
        await owner.connection.execute("UPDATE timebell.schedules SET plan_at = created_at")
        await h.engine.planner.run_due(h.clock.now)
        assert (await occurrences(owner))[0]["state"] == "missed"
        await h.advance(DAY)
