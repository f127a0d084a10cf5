"""The page about schedules shows what works, and what happens is what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

PAGE = list(blocks((ROOT / "docs" / "howto" / "schedules.md").read_text(encoding="utf-8")))


def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in PAGE:
        if block.language == "python":
            exec(block.code, found)
    return found


def mornings(printed: str) -> list[str]:
    """Month, day and time in UTC of what was told in the morning."""
    lines = [line.split() for line in printed.splitlines()]
    return [f"{at[5:10]} {at[11:16]}" for _, at, step in lines if step == "morning"]


async def test_the_page_does_what_it_says(
    database_url: TestDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    page = names()
    clock = ManualClock(datetime(2027, 3, 1, 9, 0, tzinfo=UTC))
    async with harness(database_url.url, [page["house"]], clock=clock) as bench:
        schedules = bench.bell.schedules
        async with bench.bell.transaction() as tx:
            await page["bins"](bench.bell, tx)
            [schedule] = (await schedules.list(tx, owner="anna")).lines
        assert capsys.readouterr().out.startswith(str(schedule.id))
        await bench.advance(timedelta(days=1))
        assert capsys.readouterr().out == (
            "Bins 2027-03-02T06:00:00+00:00 evening\nBins 2027-03-02T06:00:00+00:00 morning\n"
        )
        diff = await page["what_if"](bench.bell, schedule.id, "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU")
        assert (len(diff.kept), len(diff.withdrawn)) == (4, 4)
        async with bench.bell.transaction() as tx:
            assert await schedules.get(tx, schedule.id) == schedule
            await page["holidays"](bench.bell, tx, schedule.id)
            rest = await schedules.get(tx, await page["later_from_may_on"](bench.bell, tx, schedule.id))
            older = await schedules.get(tx, schedule.id)
        assert (rest.parent_id, rest.start_local.hour) == (schedule.id, 8)
        assert older.until_local is not None
        assert older.until_local < rest.start_local
        await bench.advance(to=datetime(2027, 5, 12, tzinfo=UTC))
        assert mornings(capsys.readouterr().out)[-3:] == ["04-27 05:00", "05-04 06:00", "05-11 06:00"]


async def test_one_occurrence_is_skipped_another_moved_and_the_first_taken_back(
    database_url: TestDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    page = names()
    clock = ManualClock(datetime(2027, 12, 8, 9, 0, tzinfo=UTC))
    async with harness(database_url.url, [page["house"]], clock=clock) as bench:
        async with bench.bell.transaction() as tx:
            await page["bins"](bench.bell, tx)
            [schedule] = (await bench.bell.schedules.list(tx, owner="anna")).lines
            await page["holidays"](bench.bell, tx, schedule.id)
            states = {
                one.original_local.day: (one.state, one.local.day)
                for one in (await bench.bell.schedules.occurrences(tx, schedule.id, limit=3)).lines
            }
            assert states == {14: ("planned", 14), 21: ("skipped", 21), 28: ("planned", 29)}
            await page["after_all"](bench.bell, tx, schedule.id)
        capsys.readouterr()
        await bench.advance(to=datetime(2028, 1, 5, tzinfo=UTC))
    assert mornings(capsys.readouterr().out) == ["12-14 06:00", "12-21 06:00", "12-29 06:00", "01-04 06:00"]


async def test_a_program_of_ones_own_runs_it(
    empty_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_database.url)
    monkeypatch.setenv("TIMEBELL_OWNER_URL", empty_database.owner_url)
    await names()["main"]()
    assert "original_local=datetime.datetime" in capsys.readouterr().out
