"""The statements that write what became of a job, or of a node: each condition in them holds by itself.

As in `test_start_guards`, they are asked alone, since a node asks them only about what it believes to be its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from tests.engine.writes import Write, end, finish, retry
from timebell.engine.store import EngineStore
from timebell.kernel import App, Handler, Job

OF_THE_SLOT = "WHERE slot = (SELECT slot FROM timebell.jobs WHERE id = $1)"
# What is done to a job, or around it, and by which statements it is still written.
CASES: Mapping[str, tuple[str, set[str]]] = {
    "as it was begun": ("", {"finish", "end", "retry"}),
    "changed since": ("UPDATE timebell.jobs SET version = version + 1 WHERE id = $1", set()),
    "begun by another": ("UPDATE timebell.jobs SET started_by = -7, started_at = now() WHERE id = $1", set()),
    "its slot was had again": (f"UPDATE timebell.slots SET epoch = epoch + 1 {OF_THE_SLOT}", set()),
    "its slot is another's": (f"UPDATE timebell.slots SET owner = -7 {OF_THE_SLOT}", set()),
    "cancelled while it ran": (
        "UPDATE timebell.jobs SET cancel_requested_at = now() WHERE id = $1",
        {"finish", "end"},
    ),
    "asked to be cancelled": (
        "INSERT INTO timebell.cancel_requests (job_id, tenant, requested_at) VALUES ($1, 'default', now())",
        {"finish", "end"},
    ),
}


async def run(job: Job) -> None:
    """Done."""


APP = App(name="t", handlers={"t.act": Handler(run=run, mode="external")})


async def enqueue(node: ClusterNode, **options: Any) -> UUID:
    async with node.bell.transaction() as tx:
        return (await node.bell.enqueue(tx, "t.act", **options)).id


@pytest.mark.req("U-2")
@pytest.mark.parametrize(("name", "write"), [("finish", finish), ("end", end), ("retry", retry)])
async def test_what_became_of_a_job_is_written_only_by_whoever_has_it(
    cluster: Cluster, owner: Owner, name: str, write: Write
) -> None:
    node = await cluster.node([APP])
    written: dict[str, bool] = {}
    for case, (change, _) in CASES.items():
        id = await enqueue(node)
        slot = await owner.value("SELECT slot FROM timebell.jobs WHERE id = $1", id)
        epoch = node.engine.node.owned[slot].epoch
        if change:
            await owner.rows(change, id)
        fence: dict[str, object] = {
            "slots": [slot],
            "epochs": [epoch],
            "incarnation": node.incarnation,
            "lock_timeout": "10s",
        }
        async with node.bell.database.connection() as session:
            written[case] = bool(await write(EngineStore(cluster.clock), session, id, fence))
        await owner.rows(
            "UPDATE timebell.slots SET epoch = $2, owner = $3 WHERE slot = $1", slot, epoch, node.incarnation
        )
    assert written == {case: name in names for case, (_, names) in CASES.items()}


async def test_the_end_of_a_job_frees_its_own_key_and_no_others(cluster: Cluster, owner: Owner) -> None:
    """A key may stand for another job by now, of which this one knows nothing."""
    node = await cluster.node([APP])
    left = {}
    for name in ("finish", "end"):
        for holder in ("own", "another's"):
            id = await enqueue(node, key=f"{name}-{holder}")
            if holder != "own":
                await owner.rows("UPDATE timebell.job_keys SET job_id = $2 WHERE job_id = $1", id, uuid4())
            slot = await owner.value("SELECT slot FROM timebell.jobs WHERE id = $1", id)
            fence: dict[str, object] = {
                "slots": [slot],
                "epochs": [node.engine.node.owned[slot].epoch],
                "incarnation": node.incarnation,
                "lock_timeout": "10s",
            }
            async with node.bell.database.connection() as session:
                write = finish if name == "finish" else end
                assert await write(EngineStore(cluster.clock), session, id, fence)
            left[name, holder] = await owner.value(
                "SELECT count(*) FROM timebell.job_keys WHERE key = $1", f"{name}-{holder}"
            )
    assert left == {
        ("finish", "own"): 0,
        ("finish", "another's"): 1,
        ("end", "own"): 0,
        ("end", "another's"): 1,
    }


async def test_a_key_with_a_lifetime_is_taken_for_so_long_after_its_job(
    cluster: Cluster, owner: Owner
) -> None:
    node = await cluster.node([APP])
    await enqueue(node, key="k", key_lifetime=timedelta(hours=1))
    await node.run_due()
    assert await owner.jobs() == []
    (key,) = await owner.rows("SELECT key, expires_at FROM timebell.job_keys")
    assert key == {"key": "k", "expires_at": cluster.clock.now + timedelta(hours=1)}


@pytest.mark.req("U-2")
async def test_what_runs_on_a_node_that_lives_is_not_recovered(cluster: Cluster, owner: Owner) -> None:
    node = await cluster.node([APP])
    found = {}
    for started_by in (node.incarnation, -7):
        id = await enqueue(node)
        await owner.rows(
            "UPDATE timebell.jobs SET started_by = $2, started_at = now() WHERE id = $1", id, started_by
        )
        slot = await owner.value("SELECT slot FROM timebell.jobs WHERE id = $1", id)
        async with node.bell.database.connection() as session:
            rows = await EngineStore(cluster.clock).recover_jobs(
                session,
                ids=[id],
                are_marked=[True],
                slots=[slot],
                epochs=[node.engine.node.owned[slot].epoch],
                incarnation=node.incarnation,
                is_blind=False,
            )
        found[started_by] = len(rows)
    assert found == {node.incarnation: 0, -7: 1}
    (recovered,) = [job for job in await owner.jobs() if job["started_by"] is None]
    assert (recovered["crash_count"], recovered["version"]) == (1, 2)


@pytest.mark.req("U-2")
async def test_a_life_that_is_over_is_neither_prolonged_nor_given_anything(
    cluster: Cluster, owner: Owner
) -> None:
    node = await cluster.node([APP])
    store = EngineStore(cluster.clock)
    async with node.bell.database.connection() as session:
        assert await store.renew_node(session, incarnation=node.incarnation, lease_seconds=10)
        await owner.expire_lease(node.incarnation)
        assert not await store.renew_node(session, incarnation=node.incarnation, lease_seconds=10)
        assert await store.bury_nodes(session, incarnation=-7, is_alone=False, frozen=[]) == [
            node.incarnation
        ]
        await owner.rows("UPDATE timebell.slots SET owner = NULL WHERE slot < 2")
        assert await store.take_slots(session, incarnation=-7, slots=[0, 1]) == []
        assert await store.take_slots(session, incarnation=node.incarnation, slots=[0, 1]) == []


async def test_whoever_is_alone_buries_all_but_itself(cluster: Cluster) -> None:
    first, second = await cluster.node([APP]), await cluster.node([APP])
    store = EngineStore(cluster.clock)
    async with first.bell.database.connection() as session:
        for is_alone, buried in ((False, []), (True, [second.incarnation])):
            assert (
                await store.bury_nodes(session, incarnation=first.incarnation, is_alone=is_alone, frozen=[])
                == buried
            )


@pytest.mark.req("U-2")
async def test_a_slot_that_is_had_again_is_told_from_what_it_was(cluster: Cluster) -> None:
    """Whoever takes one raises its epoch, so that what it read in an earlier time is refused."""
    node = await cluster.node([APP])
    store, epoch = EngineStore(cluster.clock), node.engine.node.owned[0].epoch
    async with node.bell.database.connection() as session:
        assert await store.take_slots(session, incarnation=node.incarnation, slots=[0]) == []
        assert await store.release_slots(session, incarnation=node.incarnation, slots=[0]) == [0]
        (taken,) = await store.take_slots(session, incarnation=node.incarnation, slots=[0])
    assert taken["epoch"] == epoch + 1


async def test_what_is_still_paused_is_not_brought_back(cluster: Cluster, owner: Owner) -> None:
    """Neither what everybody's pause holds nor what that of its own tenant does."""
    node = await cluster.node([APP])
    id = await enqueue(node)
    await owner.rows("UPDATE timebell.jobs SET lane = 2 WHERE id = $1", id)
    store, found = EngineStore(cluster.clock), {}
    for tenant in ("", "default", "other"):
        await owner.rows(
            "INSERT INTO timebell.queue_pauses (queue, tenant, paused_at) "
            "SELECT queue, $2, now() FROM timebell.jobs WHERE id = $1",
            id,
            tenant,
        )
        async with node.bell.database.connection() as session:
            found[tenant] = len(await store.unpark_jobs(session, slots=range(256), limit=10))
        await owner.rows("DELETE FROM timebell.queue_pauses")
    assert found == {"": 0, "default": 0, "other": 1}


async def test_a_run_that_lost_its_job_writes_no_cursor(cluster: Cluster, owner: Owner) -> None:
    node = await cluster.node([APP])
    id = await enqueue(node)
    store = EngineStore(cluster.clock)
    async with node.bell.database.connection() as session:
        for version, is_ours in ((1, True), (2, False)):
            row = await store.beat_job(
                session, id=id, version=version, incarnation=node.incarnation, cursor=f'{{"at": {version}}}'
            )
            assert (row is not None) == is_ours
    assert await owner.value("SELECT cursor->>'at' FROM timebell.jobs WHERE id = $1", id) == "1"


async def test_a_hold_is_not_made_shorter_by_whoever_hears_of_it_later(
    cluster: Cluster, owner: Owner
) -> None:
    node = await cluster.node([APP])
    store, now = EngineStore(cluster.clock), cluster.clock.now
    async with node.bell.database.connection() as session:
        for seconds in (60, 30, 90):
            await store.open_breaker(
                session,
                destination="mail",
                failure_count=5,
                open_seconds=seconds,
                open_until=now + timedelta(seconds=seconds),
            )
            opened = await owner.value("SELECT open_until FROM timebell.breakers")
            assert opened == now + timedelta(seconds=max(60, seconds))
