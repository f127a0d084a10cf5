"""The lists the other way round, the oldest first, and the list of events in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.insights_support import SECOND, ago, bury, enqueue, log
from tests.store.support import HOUR, NOW, StillClock, Tables
from tests.store.test_insights_lists import all_pages
from timebell.db.pool import Database
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.records import ListedState


@pytest.fixture
def insights(bell: Timebell, database: Database, clock: StillClock) -> Insights:
    return Insights(database, clock)


@pytest.mark.parametrize(
    ("state", "filters"),
    [
        ("unfinished", {}),
        ("unfinished", {"subject": "guest:1"}),
        ("pending", {"kind": "office.ring", "queue": "default"}),
        ("running", {}),
        ("running", {"subject": "guest:1"}),
        ("finished", {}),
        ("done", {"subject": "guest:1"}),
        ("dead", {}),
        ("dead", {"subject": "guest:1"}),
    ],
)
async def test_the_oldest_first_is_the_same_list_the_other_way_round(
    insights: Insights, tables: Tables, state: ListedState, filters: dict[str, str]
) -> None:
    for number in range(5):
        about = {"subject": f"guest:{number % 2}"}
        await enqueue(tables, due_at=NOW + HOUR, **about)
        await enqueue(tables, started_by=7, started_at=NOW, **about)
        await log(tables, **about)
        await bury(tables, died_at=ago(number * SECOND), **about)
        await enqueue(tables, tenant="other", **about)
    options: dict[str, Any] = {"state": state, "limit": 2, **filters}
    newest = [line for page in await all_pages(insights.jobs, "default", **options) for line in page]
    pages = await all_pages(insights.jobs, "default", oldest_first=True, **options)
    assert len(newest) > 1
    assert [line for page in pages for line in page] == newest[::-1]
    assert max(len(page) for page in pages) == 2


@pytest.mark.parametrize("state", ["unfinished", "finished", "dead"])
async def test_a_page_looks_at_a_bounded_number_of_jobs(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch, state: ListedState
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.LOOK_MAX", 3)
    make = {"unfinished": enqueue, "finished": log, "dead": bury}[state]
    mine = [await make(tables, queue="mail")]
    for _ in range(6):
        await make(tables)
    mine.append(await make(tables, queue="mail"))
    pages = await all_pages(insights.jobs, "default", state=state, queue="mail", oldest_first=True)
    assert [line.id for page in pages for line in page] == mine
    assert len(pages) > 2


@pytest.mark.parametrize("look_max", [1, 2, 3, 4, 5])
async def test_looking_never_stops_between_two_entries_of_a_job(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch, look_max: int
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.LOOK_MAX", look_max)
    made = []
    for _ in range(3):
        id = await log(tables)
        if look_max > 2:
            await log(tables, id=id, state="pending", reason="retry", version=1)
        made.append(id)
    pages = await all_pages(insights.jobs, "default", state="finished", oldest_first=True)
    assert [line.id for page in pages for line in page] == made


async def test_dead_jobs_of_one_cause(insights: Insights, tables: Tables) -> None:
    alike = [await bury(tables, died_at=ago((9 - n) * SECOND), fingerprint="f1") for n in range(3)]
    await bury(tables, died_at=ago(SECOND), fingerprint="f2")
    pages = await all_pages(insights.dead, "default", fingerprint="f1", oldest_first=True, limit=2)
    assert [line.id for page in pages for line in page] == alike


@pytest.mark.parametrize("oldest_first", [True, False])
async def test_events_are_looked_through_a_bounded_number_at_once(
    bell: Timebell, insights: Insights, monkeypatch: pytest.MonkeyPatch, oldest_first: bool
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.LOOK_MAX", 3)
    async with bell.transaction() as tx:
        rare = [await bell.record(tx, "guest.rare", subject="guest:1", correlation_id="c1")]
        for number in range(7):
            await bell.record(tx, "guest.came", {"number": number}, subject="guest:1", correlation_id="c1")
        rare.append(
            await bell.record(tx, "guest.rare", {"last": True}, subject="guest:1", correlation_id="c1")
        )
    async with bell.transaction(tenant="other") as tx:
        await bell.record(tx, "guest.rare", subject="guest:1", correlation_id="c1")
    for filters in ({}, {"subject": "guest:1"}, {"correlation_id": "c1"}):
        options: dict[str, Any] = {"name": "guest.rare", "oldest_first": oldest_first, **filters}
        pages = await all_pages(insights.events, "default", **options)
        found = [line for page in pages for line in page]
        assert [line.id for line in found] == (rare if oldest_first else rare[::-1])
        assert len(pages) > 2
    assert [line.data for line in found if line.id == rare[1]] == [{"last": True}]


async def test_a_cursor_of_one_direction_is_refused_in_the_other(insights: Insights, tables: Tables) -> None:
    for _ in range(2):
        await enqueue(tables)
        await bury(tables)
    for read in (insights.jobs, insights.dead):
        cursor = (await read("default", limit=1)).next_cursor
        with pytest.raises(InvalidInput, match="cursor"):
            await read("default", limit=1, cursor=cursor, oldest_first=True)
