"""Keys: the caller's own name for a job, so that asking twice is asking once."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.store.support import APP, HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.errors import KeyConflict
from timebell.kernel import Enqueue, Enqueued, Registry, Timebell
from timebell.testing.database import TestDatabase

ASKED: dict[str, Any] = {"payload": {"n": 1}, "subject": "meeting:1", "due_at": NOW + HOUR, "key": "k"}


async def enqueue(bell: Timebell, *, tenant: str = "default", **changes: Any) -> Enqueued:
    async with bell.transaction(tenant=tenant) as tx:
        return await bell.enqueue(tx, **{"kind": "office.ring", **ASKED, **changes})


@pytest.mark.req("U-5")
async def test_the_same_job_asked_for_twice_is_one_job(bell: Timebell, tables: Tables) -> None:
    first = await enqueue(bell)
    async with bell.transaction() as tx:
        again = await bell.enqueue(tx, "office.ring", **ASKED)
        is_writing = await tx.connection.fetchval("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
        third = await bell.enqueue(tx, "office.ring", **{**ASKED, "priority": 9})
    assert first.created
    assert (again.id, again.created) == (first.id, False)
    assert is_writing, "the commit of such an answer waits for the standby as a write does"
    assert (third.id, third.created) == (first.id, False)
    assert [row["id"] for row in await tables.jobs()] == [first.id]


async def test_now_is_never_twice_the_same_and_does_not_count(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    first = await enqueue(bell, due_at=None)
    clock.now = NOW + HOUR
    assert not (await enqueue(bell, due_at=None)).created
    assert not (await enqueue(bell, due_at=None, delay=HOUR)).created
    assert (await tables.job(first.id))["due_at"] == NOW


@pytest.mark.req("U-5")
@pytest.mark.parametrize(
    "change",
    [{"payload": {"n": 2}}, {"subject": "meeting:2"}, {"queue": "slow"}, {"due_at": NOW + 2 * HOUR}],
    ids=str,
)
async def test_another_job_under_a_taken_key_is_refused(
    bell: Timebell, tables: Tables, change: dict[str, Any]
) -> None:
    first = await enqueue(bell)
    before = await tables.jobs()
    async with bell.transaction() as tx:
        with pytest.raises(KeyConflict, match=rf"'k' already stands for .*{first.id}.*use another key"):
            await bell.enqueue(tx, "office.ring", **{**ASKED, **change})
        other = await bell.enqueue(tx, "office.ring", **{**ASKED, **change, "key": "other"})
    assert [row for row in await tables.jobs() if row["id"] != other.id] == before


async def test_one_conflict_refuses_the_many_and_leaves_their_keys_free(
    bell: Timebell, tables: Tables
) -> None:
    first = await enqueue(bell)
    before = await tables.jobs()
    asked = [
        Enqueue(kind="office.ring", key="a"),
        Enqueue(kind="office.ring", key="b", on_conflict="replace", payload={"n": 3}),
        Enqueue(kind="office.ring", key="k", payload={"n": 2}),
    ]
    second = await enqueue(bell, key="b")
    async with bell.transaction() as tx:
        with pytest.raises(KeyConflict, match="'k' already stands"):
            await bell.enqueue_many(tx, asked)
        good = await bell.enqueue_many(
            tx, [Enqueue(kind="office.ring"), Enqueue(kind="office.ring", key="c")]
        )
    rows = {row["id"]: row for row in await tables.jobs()}
    assert set(rows) == {first.id, second.id, *(job.id for job in good)}
    assert [rows[first.id]] == before
    assert json.loads(rows[second.id]["payload_text"]) == {"n": 1}
    keys = await tables.rows("SELECT key FROM timebell.job_keys ORDER BY key")
    assert [row["key"] for row in keys] == ["b", "c", "k"]


async def test_keep_answers_with_the_job_that_is_there(bell: Timebell, tables: Tables) -> None:
    first = await enqueue(bell)
    before = await tables.jobs()
    kept = await enqueue(bell, payload={"n": 2}, on_conflict="keep")
    assert (kept.id, kept.created) == (first.id, False)
    assert await tables.jobs() == before


async def test_replace_gives_the_job_new_content_and_time(bell: Timebell, tables: Tables) -> None:
    first = await enqueue(bell)
    before = await tables.job(first.id)
    asked: dict[str, Any] = {
        "payload": {"n": 2},
        "subject": "meeting:2",
        "due_at": None,
        "delay": 2 * HOUR,
        "expires_at": NOW + 3 * HOUR,
        "queue": "slow",
        "priority": 3,
        "urgency": "critical",
        "max_attempts": 2,
        "guard": "office.still_open",
        "correlation_id": "c-2",
        "key_lifetime": HOUR,
    }
    replaced = await enqueue(bell, on_conflict="replace", **asked)
    row = await tables.job(first.id)
    assert (replaced.id, replaced.created) == (first.id, False)
    assert (row["due_at"], row["run_at"], row["expires_at"]) == (
        NOW + 2 * HOUR,
        NOW + 2 * HOUR,
        NOW + 3 * HOUR,
    )
    assert (row["subject"], row["queue"], row["lane"], row["priority"]) == ("meeting:2", "slow", 0, 3)
    assert (row["max_attempts"], row["guard"], row["correlation_id"]) == (2, "office.still_open", "c-2")
    assert row["version"] == before["version"] + 1
    assert row["slot"] != before["slot"]
    assert await tables.value("SELECT lifetime_seconds FROM timebell.job_keys") == 3600
    again = await enqueue(bell, **asked)
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(KeyConflict):
        await enqueue(bell)


async def test_what_is_replaced_is_wanted_again(bell: Timebell, tables: Tables) -> None:
    """It was cancelled while it ran, and came back unfinished."""
    first = await enqueue(bell)
    await tables.start(first.id)
    async with bell.transaction() as tx:
        assert [one.answer for one in await bell.cancel(tx, id=first.id)] == ["too_late"]
    await tables.give_back(first.id)
    assert (await enqueue(bell, on_conflict="replace", payload={"n": 2})).id == first.id
    assert (await tables.job(first.id))["cancel_requested_at"] is None


async def test_what_runs_is_not_replaced(bell: Timebell, tables: Tables) -> None:
    first = await enqueue(bell)
    await tables.start(first.id)
    before = await tables.jobs()
    async with bell.transaction() as tx:
        with pytest.raises(KeyConflict, match=f"the job {first.id} is running, too late to replace it"):
            await bell.enqueue(tx, "office.ring", **{**ASKED, "payload": {}, "on_conflict": "replace"})
    assert await tables.jobs() == before


async def test_a_key_belongs_to_a_tenant_and_a_kind(bell: Timebell, tables: Tables) -> None:
    made = [
        await enqueue(bell),
        await enqueue(bell, tenant="acme"),
        await enqueue(bell, kind="office.post"),
    ]
    again = [
        await enqueue(bell),
        await enqueue(bell, tenant="acme"),
        await enqueue(bell, kind="office.post"),
    ]
    assert [job.created for job in made] == [True, True, True]
    assert [(job.id, job.created) for job in again] == [(job.id, False) for job in made]
    assert len(await tables.jobs()) == 3


@pytest.mark.req("U-15")
@pytest.mark.parametrize("on_conflict", ["same", "keep", "replace"])
async def test_another_tenant_neither_sees_nor_changes_a_key(
    bell: Timebell, tables: Tables, on_conflict: str
) -> None:
    ours = await enqueue(bell)
    before = await tables.job(ours.id)
    theirs = await enqueue(bell, tenant="acme", payload={"n": 9}, on_conflict=on_conflict)
    assert theirs.created
    assert await tables.job(ours.id) == before


async def test_a_key_is_free_once_its_job_has_ended(bell: Timebell, tables: Tables) -> None:
    first = await enqueue(bell)
    await tables.finish(first.id)
    second = await enqueue(bell, payload={"n": 2})
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=second.id)
    third = await enqueue(bell, payload={"n": 3})
    assert (second.created, third.created) == (True, True)
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.req("U-5")
async def test_a_key_with_a_lifetime_outlives_its_job(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    first = await enqueue(bell, key_lifetime=HOUR)
    await tables.finish(first.id, key_expires_at=NOW + HOUR)
    for on_conflict in ("same", "keep", "replace"):
        again = await enqueue(bell, on_conflict=on_conflict)
        assert (again.id, again.created) == (first.id, False)
    with pytest.raises(KeyConflict):
        await enqueue(bell, payload={"n": 2})
    clock.now = NOW + HOUR
    second = await enqueue(bell, payload={"n": 2})
    assert second.created
    row = (await tables.rows("SELECT job_id, expires_at, lifetime_seconds FROM timebell.job_keys"))[0]
    assert row == {"job_id": second.id, "expires_at": None, "lifetime_seconds": None}


@pytest.mark.req("U-5")
async def test_of_two_that_ask_at_once_the_second_waits_and_gets_the_same_job(
    bell: Timebell, tables: Tables
) -> None:
    async with bell.transaction() as tx:
        first = await bell.enqueue(tx, "office.ring", **ASKED)
        second = asyncio.create_task(enqueue(bell))
        await tables.until_someone_waits()
        assert not second.done()
    answer = await second
    assert (answer.id, answer.created) == (first.id, False)
    assert len(await tables.jobs()) == 1


async def test_the_second_gets_the_key_when_the_first_gives_up(bell: Timebell, tables: Tables) -> None:
    connection = await bell.database.dedicated()
    await connection.execute("BEGIN")
    first = await bell.enqueue(bell.join(connection), "office.ring", **ASKED)
    second = asyncio.create_task(enqueue(bell, payload={"n": 2}))
    await tables.until_someone_waits()
    await connection.execute("ROLLBACK")
    await connection.close()
    answer = await second
    assert answer.created
    assert [row["id"] for row in await tables.jobs()] == [answer.id] != [first.id]


async def test_the_same_keys_in_opposite_order_do_not_deadlock(bell: Timebell, tables: Tables) -> None:
    async def ask(names: list[str]) -> list[Enqueued]:
        async with bell.transaction() as tx:
            return await bell.enqueue_many(tx, [Enqueue(kind="office.ring", key=name) for name in names])

    for number in range(5):
        names = [f"{number}-{place:04}" for place in range(800)]
        up, down = await asyncio.gather(ask(names), ask(names[::-1]))
        assert [job.id for job in up] == [job.id for job in reversed(down)]
        assert {one.created != other.created for one, other in zip(up, reversed(down), strict=True)} == {True}
    assert await tables.value("SELECT count(*) FROM timebell.jobs") == 5 * 800


@pytest.mark.parametrize("by_sql", [False, True], ids=["python", "sql"])
async def test_asking_for_a_taken_key_does_not_hold_up_the_finish_of_its_job(
    bell: Timebell, tables: Tables, by_sql: bool
) -> None:
    first = await enqueue(bell, payload={}, subject=None, due_at=None)
    async with bell.transaction() as tx:
        if by_sql:
            again: UUID = await tx.connection.fetchval("SELECT timebell.enqueue('office.ring', key => 'k')")
        else:
            again = (await bell.enqueue(tx, "office.ring", key="k")).id
        assert again == first.id
        async with asyncio.timeout(4):
            await tables.finish(first.id)
    assert await tables.jobs() == []


class Meanwhile:
    """Lets something happen right after a query, a number of times."""

    def __init__(self, query_name: str, times: int = 1) -> None:
        self.query_name = query_name
        self.times = times
        self.tables: Tables | None = None

    async def before(self, name: str) -> None:
        pass

    async def after(self, name: str) -> None:
        if name == self.query_name and self.times and self.tables is not None:
            self.times -= 1
            for row in await self.tables.jobs("key = 'k'"):
                await self.tables.finish(row["id"])


async def test_a_job_that_ends_while_its_key_is_asked_for_makes_room(
    database_url: TestDatabase, clock: StillClock, tables: Tables
) -> None:
    gate = Meanwhile("claim_keys")
    database = await Database.open(database_url.url, gate=gate)
    bell = Timebell(database, registry=Registry([APP]), clock=clock)
    await bell.declare()
    first = await enqueue(bell)
    gate.tables = tables
    second = await enqueue(bell, payload={"n": 2})
    await database.close()
    assert gate.times == 0
    assert second.created
    assert [row["id"] for row in await tables.jobs()] == [second.id] != [first.id]
    assert await tables.value("SELECT job_id FROM timebell.job_keys") == second.id


async def test_a_lifetime_has_a_bound(bell: Timebell, tables: Tables) -> None:
    longest = await enqueue(bell, key_lifetime=timedelta(days=3_660))
    await tables.rows(
        "UPDATE timebell.job_keys SET expires_at = now() + lifetime_seconds * interval '1 second' "
        "WHERE job_id = $1",
        longest.id,
    )
    assert await tables.value("SELECT expires_at > now() FROM timebell.job_keys")
