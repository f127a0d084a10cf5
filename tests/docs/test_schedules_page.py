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
