"""Events in an order that never changes behind whoever reads them."""

from __future__ import annotations

import asyncio
from uuid import UUID

import asyncpg
import orjson
import pytest

from tests.query_plans import nodes
from tests.store.support import StillClock, Tables
from timebell.db.pool import Database
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.kernel.events.following import EventPlace, Following
from timebell.kernel.events.following_store import FollowingStore
from timebell.testing.database import TestDatabase

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.fixture
def following(database: Database, clock: StillClock) -> Following:
    return Following(database, clock)


async def record(bell: Timebell, *names: str) -> None:
    async with bell.transaction() as tx:
        for name in names:
            await bell.record(tx, f"door.{name}")


async def names_after(following: Following, place: EventPlace) -> list[str]:
    events, _ = await following.after("default", place)
    return [event.name.removeprefix("door.") for event in events]


async def until_named(following: Following, place: EventPlace, *names: str) -> None:
    """Transactions of other databases of the server, where other tests run, may hold it up for a moment."""
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) < len(names):
            found = await names_after(following, place)
    assert found == list(names)


@pytest.mark.parametrize("place", [EventPlace(0), EventPlace(7), EventPlace(7, ID)])
def test_a_place_is_read_as_it_was_written(place: EventPlace) -> None:
    assert EventPlace.read(str(place)) == place


@pytest.mark.parametrize("text", ["", "x", "-1", "01", "1.", f"1.{ID.hex}", f"1.{ID} ", "1" * 20, "\u0661"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="after"):
        EventPlace.read(text)


async def test_a_late_commit_holds_up_what_came_after_it(bell: Timebell, following: Following) -> None:
    before = (await following.end("default")).now
    async with bell.transaction() as tx:
        await bell.record(tx, "door.first")
        # Whoever asked by ids alone would read the second now, and the first never.
        await record(bell, "second")
        assert await names_after(following, before) == []
        end = await following.end("default")
        assert end.last is None
    await until_named(following, before, "first", "second")
    await until_named(following, end.now, "first", "second")
    last = (await following.end("default")).last
    assert last is not None
    assert await names_after(following, last) == []


async def test_what_is_rolled_back_holds_up_nobody_for_good(bell: Timebell, following: Following) -> None:
    async def undone() -> None:
        async with bell.transaction() as tx:
            await bell.record(tx, "door.never")
            await record(bell, "kept")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await undone()
    await until_named(following, EventPlace(0), "kept")


async def test_pages_follow_each_other(bell: Timebell, following: Following) -> None:
    await record(bell, "a", "b", "c")
    await record(bell, "d", "e")
    await until_named(following, EventPlace(0), "a", "b", "c", "d", "e")
    place, seen = EventPlace(0), []
    has_more = True
    while has_more:
        events, has_more = await following.after("default", place, limit=2)
        seen += [event.name.removeprefix("door.") for event in events]
        place = events[-1].place
    assert seen == ["a", "b", "c", "d", "e"]
    assert await following.after("other", EventPlace(0)) == ((), False)


async def test_a_place_that_no_transaction_has_reached_is_not_known(
    bell: Timebell, following: Following
) -> None:
    end = await following.end("default")
    assert end.knows(end.now)
    assert end.knows(EventPlace(0))
    assert not end.knows(EventPlace(end.given_below + 1))


async def test_events_from_before_the_migration_are_the_beginning(
    bell: Timebell, following: Following, database_url: TestDatabase
) -> None:
    await record(bell, "new")
    admin = await asyncpg.connect(database_url.admin_url)
    await admin.execute(
        "INSERT INTO timebell.events (id, tenant, name, data, occurred_at, written_in) "
        "VALUES ($1, 'default', 'old', '{}', now(), '0')",
        ID,
    )
    await admin.close()
    await until_named(following, EventPlace(0), "old", "new")


MANY = """
    INSERT INTO timebell.events (id, tenant, name, data, occurred_at, written_in)
    SELECT timebell.new_id(), 'tenant ' || n % 5, 'written', '{}', now(), (n % 400)::text::xid8
    FROM generate_series(1, 20000) n
"""


@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_it_is_read_along_the_index(
    bell: Timebell, tables: Tables, database_url: TestDatabase, role: str, mode: str
) -> None:
    """Also behind the wall, where only what cannot leak is asked of an index."""
    await tables.rows(MANY)
    admin = await asyncpg.connect(database_url.admin_url, server_settings={"plan_cache_mode": mode})
    await admin.execute("ANALYZE timebell.events")
    await admin.execute(f"SET timebell.tenant = 'tenant 1'; SET ROLE {role}")
    asked: dict[str, tuple[object, ...]] = {
        "read_events_after": ("tenant 1", "200", ID, 50),
        "read_event_end": ("tenant 1",),
    }
    for name, values in asked.items():
        query = FollowingStore.queries[name]
        explained = await admin.fetchval(f"EXPLAIN (FORMAT JSON) {query.text}", *values)
        plan = orjson.loads(explained)[0]["Plan"]
        scans = [node for node in nodes(plan) if "Scan" in node["Node Type"] and "Relation Name" in node]
        assert [scan.get("Index Name") for scan in scans] == ["events_order"], plan
        condition = scans[0]["Index Cond"]
        assert "tenant" in condition
        assert "written_in" in condition
        if name == "read_events_after":
            assert "ROW(" in condition
        assert not any(node["Node Type"] == "Sort" for node in nodes(plan))
    await admin.close()
