"""S20: what was recorded cannot be rewritten without the chain of seals showing where."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.store.support import StillClock
from tests.store.walls_support import as_tenant, connected
from timebell.db.pool import Database
from timebell.kernel import Timebell
from timebell.kernel.events import audit
from timebell.kernel.events.audit import Audit, Break
from timebell.kernel.insights.insights import Insights
from timebell.testing.database import TestDatabase

UNFORCED = "ALTER TABLE timebell.{table} NO FORCE ROW LEVEL SECURITY"


@pytest.fixture
def trail(database: Database, clock: StillClock) -> Audit:
    return Audit(database, clock)


@pytest_asyncio.fixture
async def owner(database_url: TestDatabase) -> AsyncIterator[Any]:
    """The owner of the tables, who can do everything to them, once the wall is lifted."""
    async with connected(database_url.owner_url) as connection:
        for table in ("events", "event_seals"):
            await connection.execute(UNFORCED.format(table=table))
        yield connection


async def record(bell: Timebell, count: int, tenant: str = "acme") -> list[UUID]:
    async with bell.transaction(tenant=tenant) as tx:
        return [
            await bell.record(tx, "office.rang", {"times": number}, subject=f"s:{number}", actor="maria")
            for number in range(count)
        ]


async def test_every_event_is_sealed_once(bell: Timebell, trail: Audit) -> None:
    await record(bell, 3)
    await record(bell, 2, "zeta")
    before = await trail.verify()
    assert (before.seal_count, before.unsealed_count) == (0, 5)
    assert before.unsealed_since is not None
    assert (await trail.seal(), await trail.seal()) == (5, 0)
    await record(bell, 1)
    assert await trail.seal() == 1
    verdict = await trail.verify()
    assert (verdict.is_whole, verdict.seal_count, verdict.unsealed_count) == (True, 6, 0)
    assert [(head.tenant, head.number) for head in verdict.heads] == [("acme", 4), ("zeta", 2)]
    assert len({head.hash for head in verdict.heads}) == 2
    alone = await trail.verify("zeta")
    assert (alone.seal_count, alone.heads) == (2, verdict.heads[1:])


async def test_many_are_sealed_and_verified_a_part_at_a_time(
    bell: Timebell, trail: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "SEALS_AT_ONCE", 3)
    for tenant in ("acme", "zeta", "ivy"):
        await record(bell, 4, tenant)
    # Until all was gone along once, what comes after the last seal is a part of its own.
    assert [await trail.seal() for _ in range(5)] == [3, 6, 3, 0, 0]
    verdict = await trail.verify()
    assert (verdict.is_whole, verdict.seal_count) == (True, 12)


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'nobody'",
        "data = '{\"times\": 9}'",
        "name = 'office.slept'",
        "tenant = 'zeta'",
        "subject = NULL",
        "occurred_at = occurred_at - interval '1 microsecond'",
        "recorded_at = recorded_at + interval '1 day'",
        "correlation_id = 'other'",
    ],
)
async def test_a_changed_event_is_named(bell: Timebell, trail: Audit, owner: Any, change: str) -> None:
    ids = await record(bell, 5)
    await trail.seal()
    assert await owner.execute(f"UPDATE timebell.events SET {change} WHERE id = $1", ids[2]) == "UPDATE 1"
    verdict = await trail.verify()
    assert verdict.breaks == (Break(tenant="acme", number=3, event_id=ids[2], damage="changed"),)
    assert not verdict.is_whole


async def test_a_removed_event_is_named(bell: Timebell, trail: Audit, owner: Any) -> None:
    ids = await record(bell, 5)
    await trail.seal()
    await owner.execute("DELETE FROM timebell.events WHERE id = ANY($1)", [ids[1], ids[4]])
    breaks = (await trail.verify()).breaks
    assert [(each.number, each.event_id, each.damage) for each in breaks] == [
        (2, ids[1], "gone"),
        (5, ids[4], "gone"),
    ]


async def test_an_event_that_is_removed_with_its_seal_leaves_a_gap(
    bell: Timebell, trail: Audit, owner: Any
) -> None:
    ids = await record(bell, 5)
    await trail.seal()
    for table, column in (("events", "id"), ("event_seals", "event_id")):
        await owner.execute(f"DELETE FROM timebell.{table} WHERE {column} = $1", ids[2])
    assert (await trail.verify()).breaks == (
        Break(tenant="acme", number=3, event_id=None, damage="seal_gone"),
    )
    await owner.execute("UPDATE timebell.event_seals SET number = number - 1 WHERE number > 3")
    (moved_up,) = (await trail.verify()).breaks
    assert (moved_up.event_id, moved_up.damage) == (ids[3], "changed")


async def test_a_seal_that_was_made_anew_no_longer_fits_the_next(
    bell: Timebell, trail: Audit, owner: Any
) -> None:
    """Who changes an event and its seal has to change every seal after it, and the head that others have kept."""
    ids = await record(bell, 4)
    await trail.seal()
    head = (await trail.verify()).heads[0].hash
    await owner.execute("UPDATE timebell.events SET actor = 'nobody' WHERE id = $1", ids[1])
    await owner.execute("DELETE FROM timebell.event_seals WHERE number >= 2")
    assert await Audit(bell.database, bell.clock).seal() == 3
    again = await trail.verify()
    assert again.is_whole
    assert again.heads[0].hash != head


WRITE = (
    "INSERT INTO timebell.events (id, tenant, name, data, occurred_at) "
    "VALUES ($1, 'acme', 'office.rang', '{}', now())"
)


@pytest.mark.req("U-20")
@pytest.mark.parametrize("is_new_process", [False, True])
@pytest.mark.parametrize(
    "id", ["ffffffff-0000-7000-8000-000000000000", "00000000-0000-7000-8000-000000000000"]
)
async def test_an_event_from_a_clock_that_is_wrong_hides_no_other(
    bell: Timebell, database: Database, clock: StillClock, owner: Any, id: str, is_new_process: bool
) -> None:
    """An id begins with the time of whoever made it. Seals go by the order of writing, which no clock decides."""
    trail = Audit(database, clock)
    await record(bell, 1)
    assert await trail.seal() == 1
    await owner.execute(WRITE, UUID(id))
    assert await trail.seal() == 1
    await record(bell, 5)
    if is_new_process:
        trail = Audit(database, clock)
    assert await trail.seal() == 5
    verdict = await trail.verify()
    assert (verdict.is_whole, verdict.seal_count, verdict.unsealed_count) == (True, 7, 0)


async def test_an_event_whose_transaction_others_overtook_is_sealed(
    bell: Timebell, trail: Audit, owner: Any
) -> None:
    async with owner.transaction():
        await owner.execute(WRITE, UUID(int=7))
        await record(bell, 2)
        assert (await trail.seal(), await trail.seal()) == (2, 0)
    await record(bell, 1)
    assert (await trail.seal(), await trail.seal()) == (2, 0)
    assert (await trail.verify()).unsealed_count == 0


@pytest.mark.req("U-20")
async def test_what_has_had_no_seal_for_long_fails_the_check(
    bell: Timebell, trail: Audit, owner: Any
) -> None:
    """As it is where no node has sealed anything, or somebody takes seals away."""
    (first, *_) = await record(bell, 3)
    assert (await trail.verify()).is_whole
    await owner.execute(
        "UPDATE timebell.events SET recorded_at = now() - interval '61 minutes' WHERE id = $1", first
    )
    verdict = await trail.verify()
    assert (verdict.breaks, verdict.overdue_count, verdict.unsealed_count) == ((), 1, 3)
    assert not verdict.is_whole
    health = await Insights(bell.database, bell.clock).health()
    assert 3_600 < health.unsealed_seconds < 4_000
    assert await trail.seal() == 3
    assert (await trail.verify()).is_whole
    assert (await Insights(bell.database, bell.clock).health()).unsealed_seconds == 0


async def test_the_trail_is_gone_along_in_stretches(
    bell: Timebell, database: Database, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts passes what is sealed already, a bounded number at a time, and says that there is more.
    What is added does not wait until it has come so far."""
    monkeypatch.setattr(audit, "SEALS_AT_ONCE", 2)
    monkeypatch.setattr(audit, "_LOOKS_MAX", 2)
    await record(bell, 9)
    trail = Audit(database, clock)
    while await trail.seal():
        pass
    await record(bell, 1)
    fresh = Audit(database, clock)
    assert (await fresh.seal(), fresh.has_more) == (1, True)
    await record(bell, 3)
    # How many of the three it is depends on whether a transaction elsewhere in the cluster still keeps the place before
    # them open.
    added = [await fresh.seal()]
    assert (added[0] > 0, fresh.has_more) == (True, True)
    while fresh.has_more and len(added) < 10:
        added.append(await fresh.seal())
    assert (sum(added), fresh.has_more, await fresh.seal()) == (3, False, 0)
    assert (await fresh.verify()).is_whole


async def test_one_at_a_time(bell: Timebell, trail: Audit, database: Database, clock: StillClock) -> None:
    await record(bell, 2)
    async with database.transaction() as session:
        assert await trail._store.lock_seals(session)
        assert await Audit(database, clock).seal() == 0
    assert await trail.seal() == 2


async def test_no_role_that_works_rewrites_a_seal(
    bell: Timebell, trail: Audit, database_url: TestDatabase, subtests: pytest.Subtests
) -> None:
    await record(bell, 1)
    await trail.seal()
    for url in (database_url.url, database_url.api_url, database_url.read_url):
        async with connected(url) as connection:
            await connection.execute("SET default_transaction_read_only = off")
            for statement in ("UPDATE {} SET number = 7", "DELETE FROM {}", "TRUNCATE {}"):
                with subtests.test(statement):
                    async with as_tenant(connection, "acme"):
                        with pytest.raises(asyncpg.InsufficientPrivilegeError):
                            await connection.execute(statement.format("timebell.event_seals"))
