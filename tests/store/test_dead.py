"""Dead jobs wait for an operator, who brings them back or gives them up."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, PayloadTooLarge
from timebell.kernel import Timebell


async def bury(tables: Tables, **values: object) -> UUID:
    id = uuid4()
    await tables.bury(id, **values)
    return id


async def revive(bell: Timebell, *, tenant: str = "default", **filters: Any) -> list[UUID]:
    async with bell.transaction(tenant=tenant) as tx:
        return await bell.revive(tx, **filters)


async def discard(bell: Timebell, *, tenant: str = "default", **filters: Any) -> list[UUID]:
    async with bell.transaction(tenant=tenant) as tx:
        return await bell.discard(tx, **filters)


@pytest.mark.req("U-7", "U-20")
async def test_a_revived_job_is_tried_anew_under_its_own_id(bell: Timebell, tables: Tables) -> None:
    id = await bury(
        tables,
        queue="slow",
        kind="office.post",
        subject="meeting:1",
        expires_at=NOW + HOUR,
        max_attempts=5,
        priority=3,
        urgency="critical",
        guard="office.still_open",
        payload='{"n": 1}',
        cursor='{"page": 4}',
        correlation_id="c-1",
        error="refused",
    )
    assert await revive(bell, ids=[id], actor="ops") == [id]
    row = await tables.job(id)
    assert (row["queue"], row["kind"], row["subject"]) == ("slow", "office.post", "meeting:1")
    assert (row["run_at"], row["due_at"], row["expires_at"]) == (NOW, NOW - HOUR, NOW + HOUR)
    assert (row["version"], row["attempt"], row["max_attempts"], row["crash_count"]) == (5, 0, 5, 0)
    assert (row["priority"], row["urgency"], row["lane"], row["guard"]) == (
        3,
        "critical",
        0,
        "office.still_open",
    )
    assert (row["payload"], row["cursor"], row["correlation_id"]) == ('{"n": 1}', '{"page": 4}', "c-1")
    assert (row["started_by"], row["created_at"]) == (None, NOW - 2 * HOUR)
    (logged,) = await tables.log(id)
    assert (logged["state"], logged["reason"], logged["actor"]) == ("pending", "revived", "ops")
    assert (await tables.counts())["dead_jobs"] == 0
    assert await revive(bell, ids=[id]) == []


@pytest.mark.req("U-7", "U-20")
async def test_what_is_discarded_is_gone_and_logged(bell: Timebell, tables: Tables) -> None:
    id, other = await bury(tables, subject="meeting:1"), await bury(tables)
    assert await discard(bell, ids=[id], actor="ops") == [id]
    (logged,) = await tables.log(id)
    assert (logged["state"], logged["reason"], logged["actor"]) == ("dead", "discarded", "ops")
    assert await discard(bell, ids=[id]) == []
    assert await tables.jobs() == []
    assert await tables.value("SELECT id FROM timebell.dead_jobs") == other


@pytest.mark.req("U-7")
@pytest.mark.parametrize("verb", [revive, discard])
async def test_filters_narrow_each_other(bell: Timebell, tables: Tables, verb: Any) -> None:
    ring = await bury(tables, fingerprint="timeout")
    post = await bury(tables, kind="office.post", queue="mail", fingerprint="timeout")
    slow = await bury(tables, kind="office.post", queue="slow", fingerprint="refused")
    assert await verb(bell, kind="office.post", queue="default") == []
    assert await verb(bell, fingerprint="refused", ids=[ring, post]) == []
    assert await verb(bell, kind="office.post", fingerprint="timeout") == [post]
    assert await verb(bell, queue="slow") == [slow]
    assert await verb(bell, fingerprint="timeout") == [ring]
    assert (await tables.counts())["dead_jobs"] == 0


@pytest.mark.parametrize("verb", [revive, discard])
async def test_the_limit_takes_those_that_died_first(bell: Timebell, tables: Tables, verb: Any) -> None:
    ids = [await bury(tables, died_at=NOW + n * HOUR) for n in (2, 0, 3, 1)]
    assert set(await verb(bell, kind="office.ring", limit=2)) == {ids[1], ids[3]}
    left = await tables.rows("SELECT id FROM timebell.dead_jobs")
    assert {row["id"] for row in left} == {ids[0], ids[2]}


async def test_a_capped_rate_spreads_them(bell: Timebell, tables: Tables) -> None:
    ids = [await bury(tables, died_at=NOW + n * HOUR) for n in range(5)]
    async with bell.transaction() as tx:
        await bell.revive(tx, kind="office.ring", per_second=0.5)
        assert len(tx.wakeups) == 2, "only what is due soon wakes a node"
    runs = {row["id"]: row["run_at"] for row in await tables.jobs()}
    assert [runs[id] for id in ids] == [NOW + timedelta(seconds=2 * n) for n in range(5)]


async def test_a_new_payload_for_one_job(bell: Timebell, tables: Tables) -> None:
    id = await bury(tables, payload='{"n": 1}')
    async with bell.transaction() as tx:
        assert await bell.revive(tx, ids=[id], payload={"n": 2}) == [id]
    assert json.loads((await tables.job(id))["payload"]) == {"n": 2}


@pytest.mark.req("U-5")
async def test_a_job_whose_key_was_taken_stays_dead(bell: Timebell, tables: Tables) -> None:
    dead = await bury(tables, key="k")
    async with bell.transaction() as tx:
        alive = await bell.enqueue(tx, "office.ring", key="k")
    assert await revive(bell, ids=[dead]) == []
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=alive.id)
    assert await revive(bell, ids=[dead]) == [dead]
    assert await tables.value("SELECT job_id FROM timebell.job_keys WHERE key = 'k'") == dead


async def test_a_job_that_stays_dead_takes_no_place_of_those_that_return(
    bell: Timebell, tables: Tables
) -> None:
    await bury(tables, key="k", died_at=NOW - HOUR)
    free = await bury(tables, died_at=NOW)
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", key="k")
    assert await revive(bell, kind="office.ring", limit=1) == [free]


async def test_a_key_that_lapsed_is_taken_back(bell: Timebell, clock: StillClock, tables: Tables) -> None:
    dead = await bury(tables, key="k")
    async with bell.transaction() as tx:
        other = await bell.enqueue(tx, "office.ring", key="k", key_lifetime=HOUR)
    await tables.finish(other.id, key_expires_at=NOW + HOUR)
    assert await revive(bell, ids=[dead]) == []
    clock.now = NOW + HOUR
    assert await revive(bell, ids=[dead]) == [dead]
    row = (await tables.rows("SELECT job_id, expires_at, lifetime_seconds FROM timebell.job_keys"))[0]
    assert row == {"job_id": dead, "expires_at": None, "lifetime_seconds": None}


@pytest.mark.req("U-5")
async def test_of_two_dead_jobs_with_one_key_the_first_returns(bell: Timebell, tables: Tables) -> None:
    second = await bury(tables, key="k", died_at=NOW + HOUR)
    first = await bury(tables, key="k", died_at=NOW)
    other_kind = await bury(tables, key="k", kind="office.post")
    unkeyed = [await bury(tables) for _ in range(2)]
    assert set(await revive(bell, fingerprint=None, ids=[first, second, other_kind, *unkeyed])) == {
        first,
        other_kind,
        *unkeyed,
    }
    assert await tables.value("SELECT id FROM timebell.dead_jobs") == second


@pytest.mark.req("U-5")
async def test_a_key_that_is_taken_at_this_moment_leaves_the_job_dead(bell: Timebell, tables: Tables) -> None:
    dead = await bury(tables, key="k")
    async with bell.transaction() as tx:
        alive = await bell.enqueue(tx, "office.ring", key="k")
        reviving = asyncio.create_task(revive(bell, kind="office.ring"))
        await tables.until_someone_waits()
    assert await reviving == []
    assert [row["id"] for row in await tables.jobs()] == [alive.id]
    assert await tables.value("SELECT id FROM timebell.dead_jobs") == dead
    assert await tables.log(dead) == []


async def test_what_another_operator_holds_is_left_to_them(bell: Timebell, tables: Tables) -> None:
    held, free = await bury(tables), await bury(tables)
    async with bell.transaction() as tx:
        assert await bell.discard(tx, ids=[held]) == [held]
        assert await revive(bell, kind="office.ring") == [free]


@pytest.mark.req("U-15")
@pytest.mark.parametrize("verb", [revive, discard])
async def test_another_tenant_finds_nothing(bell: Timebell, tables: Tables, verb: Any) -> None:
    id = await bury(tables, fingerprint="timeout")
    for filters in ({"ids": [id]}, {"kind": "office.ring"}, {"queue": "default"}, {"fingerprint": "timeout"}):
        assert await verb(bell, tenant="acme", **filters) == []
    assert await tables.value("SELECT id FROM timebell.dead_jobs") == id
    assert (await tables.counts())["job_log"] == 0


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "ids: name dead jobs by ids, kind, queue or fingerprint"),
    ({"ids": ["x"]}, "ids: 'x' is not a UUID"),
    ({"ids": [uuid4()] * 10_001}, "ids: 10001 at once, the limit is 10000; send several"),
    ({"kind": "k\x00"}, "kind: must not contain a NUL"),
    ({"queue": ""}, "queue: must have 1 to 200 characters"),
    ({"fingerprint": "f" * 201}, "fingerprint: must have 1 to 200 characters"),
    ({"kind": "office.ring", "limit": 0}, "limit: must be between 1 and 10000, was 0"),
    ({"kind": "office.ring", "limit": 10_001}, "limit: must be between 1 and 10000, was 10001"),
    ({"kind": "office.ring", "limit": 1.5}, "limit: must be a whole number"),
    ({"kind": "office.ring", "actor": ""}, "actor: must have 1 to 200 characters"),
]
REVIVE_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "office.ring", "per_second": 0}, "per_second: must be between 0.001 and 100000, was 0"),
    ({"kind": "office.ring", "per_second": float("nan")}, "per_second: must be between"),
    ({"kind": "office.ring", "payload": {}}, "payload: a new payload is taken for a single id only"),
    ({"ids": [uuid4(), uuid4()], "payload": {}}, "payload: a new payload is taken for a single id only"),
    ({"ids": [uuid4()], "payload": []}, "payload: must be a mapping"),
]


async def test_bad_input_is_refused(bell: Timebell, tables: Tables, subtests: pytest.Subtests) -> None:
    id = await bury(tables)
    async with bell.transaction() as tx:
        for asked, text in REFUSED:
            for verb in (bell.revive, bell.discard):
                with subtests.test(text), pytest.raises(InvalidInput, match=text):
                    await verb(tx, **asked)
        for asked, text in REVIVE_REFUSED:
            with subtests.test(text), pytest.raises(InvalidInput, match=text):
                await bell.revive(tx, **asked)
        with pytest.raises(PayloadTooLarge):
            await bell.revive(tx, ids=[id], payload={"x": "a" * 65_536})
        assert await bell.revive(tx, ids=[id]) == [id]
    assert (await tables.counts())["jobs"] == 1
