"""What waits in a digest can be taken back, moved and changed until that closes, and is told with it or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from tests.store.notify.digest_support import (
    ANA,
    CLOSES_AT,
    DAILY,
    DAY,
    Asked,
    close,
    entries,
    facts_of,
    intended,
    join,
    joined,
    notify_app,
    put_in,
    states,
    teller,
    told,
)
from tests.store.notify.support import SCHEMA
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.kernel import Registry, Snooze, Timebell
from timebell.notify import Notify
from timebell.notify.delivery.digests import Digests, Waiting

MINUTE = timedelta(minutes=1)


@pytest.fixture
def guard() -> Asked:
    return Asked()


@pytest_asyncio.fixture
async def bell(database: Database, clock: StillClock, guard: Asked) -> AsyncIterator[Timebell]:
    made = Timebell(database, registry=Registry([notify_app(guard)]), clock=clock)
    await made.declare()
    yield made
    await made.close()


async def digest_of(tables: Tables, id: UUID) -> UUID | None:
    found: UUID | None = await tables.value(f"SELECT digest_id FROM {SCHEMA}.notifications WHERE id = $1", id)
    return found


async def shown(bell: Timebell, id: UUID) -> str:
    return (await Notify(bell).notifications.get(id)).notification.state


async def test_it_waits_until_a_little_after_the_digest_closes(bell: Timebell) -> None:
    digests = Digests(bell)
    job = await told(bell, "post:1")
    first = await digests.join(job, intended(), ANA, NOW)
    assert isinstance(first, Waiting)
    assert (first.closes_at, first.look_at) == (CLOSES_AT, CLOSES_AT + 5 * MINUTE)
    job = replace(job, cursor=first.cursor)
    for late, again in ((MINUTE, 5 * MINUTE), (5 * MINUTE, 10 * MINUTE), (HOUR, 2 * HOUR)):
        waiting = await digests.join(job, intended(), ANA, CLOSES_AT + late)
        assert isinstance(waiting, Waiting)
        assert (waiting.digest_id, waiting.look_at) == (first.digest_id, CLOSES_AT + again)


@pytest.mark.req("U-3")
async def test_what_is_taken_back_before_it_closes_is_not_told(bell: Timebell, tables: Tables) -> None:
    notify = Notify(bell)
    digest_id = await joined(bell, "post:1", "post:2", "post:3", "post:4")
    ids = {row["subject"]: row["id"] for row in await tables.rows("SELECT id, subject FROM timebell.jobs")}
    async with bell.transaction(tenant="b") as tx:
        assert await notify.withdraw(tx, subject="post:1") == []
        (foreign,) = await notify.withdraw(tx, id=ids["post:1"])
        assert foreign.answer == "not_found"
    async with bell.transaction() as tx:
        (one,) = await notify.withdraw(tx, subject="post:1")
        (two,) = await notify.withdraw(tx, id=ids["post:2"])
        (three,) = await bell.cancel(tx, subject="post:3")
    assert {one.answer, two.answer, three.answer} == {"cancelled"}
    assert await entries(bell, tables, digest_id) == ["post:4"]
    withdrawn = ("withdrawn", "withdrawn")
    assert await states(tables) == {
        "post:1": withdrawn,
        "post:2": withdrawn,
        "post:3": withdrawn,
        "post:4": ("held", "held_digest"),
    }
    settled = f"SELECT count(*) FROM {SCHEMA}.notifications WHERE settled_at = $1 AND digest_id IS NULL"
    assert await tables.value(settled, NOW) == 3
    async with bell.transaction() as tx:
        for named in ({"subject": "post:4"}, {"id": ids["post:4"]}):
            (late,) = await notify.withdraw(tx, **named)
            assert (late.id, late.answer) == (ids["post:4"], "too_late")
    assert await entries(bell, tables, digest_id) == ["post:4"], "a second run tells the same"


async def test_what_is_told_is_done_and_not_cancelled(bell: Timebell, tables: Tables) -> None:
    job = await told(bell, "post:1")
    digest_id, _ = await join(Digests(bell), job)
    await put_in(bell, job)
    assert await entries(bell, tables, digest_id) == ["post:1"]
    (logged,) = await tables.rows("SELECT * FROM timebell.job_log WHERE subject = 'post:1'")
    assert (logged["state"], logged["reason"]) == ("done", "told in a digest")


async def test_a_digest_waits_a_moment_for_what_is_being_decided(bell: Timebell, tables: Tables) -> None:
    """Whoever closes it waits for no caller for long, who may still think better of it."""
    digests = Digests(bell)
    digest_id = await joined(bell, "post:1", "post:2", "post:3")
    ids = {row["subject"]: row["id"] for row in await tables.rows("SELECT id, subject FROM timebell.jobs")}
    job = await teller(bell, tables, digest_id)
    async with bell.database.transaction() as caller, bell.transaction() as tx:
        await bell.cancel(tx, subject="post:1")
        await caller.execute("SELECT FROM timebell.jobs WHERE subject = 'post:2' FOR UPDATE")
        for look_count in (1, 2, 3):
            async with asyncio.timeout(1):
                waiting = await digests.close(job, digest_id, facts_of(job))
            assert isinstance(waiting, Snooze)
            assert waiting.cursor == {"look_count": look_count}
            job = replace(job, cursor=waiting.cursor)
        (window,) = await tables.rows(f"SELECT * FROM {SCHEMA}.digests")
        assert window["closed_at"] is None
        assert len(await tables.rows("SELECT FROM timebell.jobs")) == 4, "nothing was taken yet"
        closed = await close(digests, job, digest_id)
    assert closed is not None
    assert [entry["subject"] for entry in closed["entries"]] == ["post:3"]
    found = [await shown(bell, ids[f"post:{number}"]) for number in (1, 2, 3)]
    assert found == ["withdrawn", "pending", "held"]


async def test_what_was_decided_while_a_digest_waited_holds(bell: Timebell, tables: Tables) -> None:
    digests = Digests(bell)
    digest_id = await joined(bell, "post:1", "post:2")
    job = await teller(bell, tables, digest_id)
    async with bell.transaction() as tx:
        await bell.cancel(tx, subject="post:1")
        waiting = await digests.close(job, digest_id, facts_of(job))
    assert isinstance(waiting, Snooze)
    closed = await close(digests, replace(job, cursor=waiting.cursor), digest_id)
    assert closed is not None
    assert [entry["subject"] for entry in closed["entries"]] == ["post:2"]
    assert (await states(tables))["post:1"] == ("withdrawn", "withdrawn")


async def test_what_runs_when_it_closes_is_told_with_the_next_one(bell: Timebell, tables: Tables) -> None:
    digests = Digests(bell)
    digest_id = await joined(bell, "post:1")
    job = await told(bell, "post:2")
    await join(digests, job)
    assert await entries(bell, tables, digest_id) == ["post:1"], "the run of the other has not ended"
    assert (await states(tables))["post:2"] == ("pending", None)
    snoozed = replace(job, cursor={"digest_id": str(digest_id)})
    next_id, closes_at = await join(digests, snoozed, now=CLOSES_AT + 5 * MINUTE)
    assert (next_id != digest_id, closes_at) == (True, CLOSES_AT + DAY)
    await put_in(bell, snoozed, now=CLOSES_AT + 5 * MINUTE)
    assert await entries(bell, tables, next_id) == ["post:2"]
    assert await entries(bell, tables, digest_id) == ["post:1"]


async def test_what_was_moved_leaves_it_and_joins_at_its_new_time(bell: Timebell, tables: Tables) -> None:
    digests = Digests(bell)
    digest_id = await joined(bell, "post:stays")
    job = await put_in(bell, await told(bell, "post:moved"))
    later = replace(job, due_at=NOW + DAY, cursor=None)
    moved = "UPDATE timebell.jobs SET due_at = $2, run_at = $2, cursor = NULL WHERE id = $1"
    await tables.rows(moved, job.id, NOW + DAY)
    assert await entries(bell, tables, digest_id) == ["post:stays"]
    assert await digest_of(tables, job.id) is None
    next_id, closes_at = await join(digests, later, now=NOW + DAY)
    assert closes_at == CLOSES_AT + DAY
    await put_in(bell, later, now=NOW + DAY)
    assert await entries(bell, tables, next_id) == ["post:moved"]


async def test_what_was_moved_past_a_digest_that_is_late_does_not_stay_in_it(
    bell: Timebell, tables: Tables
) -> None:
    digest_id = await joined(bell, "post:stays")
    job = await put_in(bell, await told(bell, "post:moved"))
    next_id, _ = await join(Digests(bell), replace(job, due_at=CLOSES_AT, cursor=None), now=CLOSES_AT)
    assert next_id != digest_id
    assert await entries(bell, tables, digest_id) == ["post:stays"]
    assert await digest_of(tables, job.id) == next_id


async def test_what_was_changed_is_told_as_it_is_now(bell: Timebell, tables: Tables) -> None:
    digests = Digests(bell)
    job = await put_in(bell, await told(bell, "post:1", context={"title": "Rain"}))
    other = intended(context={"title": "Snow"}, guard="news.wanted", template="news.other")
    changed = replace(job, payload=other.payload(), cursor=None)
    digest_id, _ = await join(digests, changed)
    await put_in(bell, changed)
    closed = await close(digests, await teller(bell, tables, digest_id), digest_id, ANA, CLOSES_AT)
    assert closed is not None
    assert [(line["title"], line["template"]) for line in closed["entries"]] == [("Snow", "news.other")]


async def test_what_was_changed_to_another_digest_is_in_that_one(bell: Timebell, tables: Tables) -> None:
    digest_id = await joined(bell, "post:1")
    job = await put_in(bell, await told(bell, "post:2"))
    other = intended(digest=replace(DAILY, key="jobs"))
    changed = replace(job, payload=other.payload(), cursor=None)
    other_id, _ = await join(Digests(bell), changed)
    assert other_id != digest_id
    assert await entries(bell, tables, digest_id) == ["post:1"]


async def test_a_digest_that_is_withdrawn_takes_everything_in_it_along(
    bell: Timebell, tables: Tables
) -> None:
    notify = Notify(bell)
    digest_id = await joined(bell, "post:1", "post:2")
    await joined(bell, "post:3", digest=replace(DAILY, key="jobs"))
    id = (await teller(bell, tables, digest_id)).id
    async with bell.transaction(tenant="b") as tx:
        assert [one.answer for one in await notify.withdraw(tx, id=id)] == ["not_found"]
    assert (await states(tables))["post:1"] == ("held", "held_digest")
    async with bell.transaction() as tx:
        assert [one.answer for one in await notify.withdraw(tx, id=id)] == ["cancelled"]
    withdrawn = ("withdrawn", "withdrawn")
    waits = ("held", "held_digest")
    assert await states(tables) == {"post:1": withdrawn, "post:2": withdrawn, "post:3": waits}
    assert await shown(bell, id) == "withdrawn"
    left = await tables.rows("SELECT subject FROM timebell.jobs WHERE subject IS NOT NULL")
    assert [row["subject"] for row in left] == ["post:3"]
    next_id, closes_at = await join(Digests(bell), await told(bell, "post:4"))
    assert (next_id != digest_id, closes_at) == (True, CLOSES_AT + DAY), "nobody joins what is not told"


async def test_one_whose_job_was_cancelled_holds_nobody(bell: Timebell, tables: Tables) -> None:
    """The kernel cancels a job and knows of no digest; whoever comes next finds that nobody will tell it."""
    digests = Digests(bell)
    waiting = await put_in(bell, await told(bell, "post:1"))
    digest_id = await digest_of(tables, waiting.id)
    assert digest_id is not None
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=(await teller(bell, tables, digest_id)).id)
    next_id, closes_at = await join(digests, await told(bell, "post:2"))
    assert (next_id != digest_id, closes_at) == (True, CLOSES_AT + DAY)
    assert (await states(tables))["post:1"] == ("withdrawn", "withdrawn")
    assert await digests.join(waiting, intended(), ANA, CLOSES_AT + 5 * MINUTE) is None


async def test_what_was_erased_is_in_no_digest(bell: Timebell, tables: Tables) -> None:
    recipients = Notify(bell).recipients
    async with bell.transaction() as tx:
        bo = await recipients.add(tx, name="Bo", timezone="Europe/Berlin")
    job = await put_in(bell, await told(bell, "post:1", recipient=bo.id), recipient=bo)
    digest_id = await digest_of(tables, job.id)
    assert digest_id is not None
    async with bell.transaction() as tx:
        erasure = await recipients.erase(tx, bo.id)
    assert len(erasure.withdrawn) == 2, "what tells it, too"
    assert await tables.value(f"SELECT closed_at FROM {SCHEMA}.digests WHERE id = $1", digest_id) == NOW
    assert await states(tables) == {"post:1": ("withdrawn", "withdrawn")}
    assert await tables.value("SELECT count(*) FROM timebell.jobs") == 0


async def test_two_that_close_it_at_once_tell_the_same(bell: Timebell, tables: Tables) -> None:
    digest_id = await joined(bell, *(f"post:{number}" for number in range(20)))
    job = await teller(bell, tables, digest_id)
    digests = Digests(bell)
    one, other = await asyncio.gather(
        close(digests, job, digest_id, ANA, CLOSES_AT), close(digests, job, digest_id, ANA, CLOSES_AT)
    )
    assert one is not None
    assert one == other
    assert len(one["entries"]) == 20
    assert await close(digests, replace(job, id=uuid4()), digest_id, ANA, CLOSES_AT) == one
