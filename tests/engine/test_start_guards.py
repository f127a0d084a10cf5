"""The two statements that let a job begin: each condition in them holds by itself, up to the instant.

A node looks before it asks, so what it chooses by mistake is seldom seen from outside; here the statements are asked
alone, about jobs that each fail one condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine.store import EngineStore
from timebell.kernel import App, Handler, Job, Step

NOW = "'2026-01-05T09:00:00Z'::timestamptz"
SUBJECT = "(SELECT subject FROM timebell.jobs WHERE id = $1)"
EARLIER = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, lane, run_at, due_at, priority, urgency, max_attempts,
        step, revision, step_order, payload)
    SELECT gen_random_uuid(), {tenant}, queue, kind, subject, lane, run_at, due_at, priority, urgency, 1,
        'before', revision, step_order - 1, payload
    FROM timebell.jobs WHERE id = $1
"""
# What is done to a job, or around it, and whether it begins then.
CASES: Mapping[str, tuple[str, bool]] = {
    "as it was chosen": ("", True),
    "due at this instant": (f"UPDATE timebell.jobs SET run_at = {NOW} WHERE id = $1", True),
    "due a moment later": (
        f"UPDATE timebell.jobs SET run_at = {NOW} + interval '1 ms' WHERE id = $1",
        False,
    ),
    "expires a moment later": (
        f"UPDATE timebell.jobs SET expires_at = {NOW} + interval '1 ms' WHERE id = $1",
        True,
    ),
    "expires at this instant": (f"UPDATE timebell.jobs SET expires_at = {NOW} WHERE id = $1", False),
    "changed since": ("UPDATE timebell.jobs SET version = version + 1 WHERE id = $1", False),
    "started by another": (
        "UPDATE timebell.jobs SET started_by = -7, started_at = now() WHERE id = $1",
        False,
    ),
    "cancelled while it ran": (f"UPDATE timebell.jobs SET cancel_requested_at = {NOW} WHERE id = $1", False),
    "asked to be cancelled": (
        "INSERT INTO timebell.cancel_requests (job_id, tenant, requested_at) VALUES ($1, 'default', now())",
        False,
    ),
    "its slot was had again": (
        "UPDATE timebell.slots SET epoch = epoch + 1 WHERE slot = (SELECT slot FROM timebell.jobs WHERE id = $1)",
        False,
    ),
    "its slot is another's": (
        "UPDATE timebell.slots SET owner = -7 WHERE slot = (SELECT slot FROM timebell.jobs WHERE id = $1)",
        False,
    ),
    "a step of an earlier revision": (
        f"UPDATE timebell.agendas SET revision = revision + 1 WHERE subject = {SUBJECT}",
        False,
    ),
    "the subject of another tenant was stated anew": (
        "INSERT INTO timebell.agendas (tenant, subject, revision, updated_at) "
        f"VALUES ('other', {SUBJECT}, 7, now())",
        True,
    ),
    "an earlier step is not over": (EARLIER.format(tenant="tenant"), False),
    "an earlier step of another tenant's subject is not over": (EARLIER.format(tenant="'other'"), True),
}


async def run(job: Job) -> None:
    """Never begins by itself here."""


APP = App(name="t", handlers={"t.act": Handler(run=run, mode="external")})


async def _begins(node: ClusterNode, statement: str, id: UUID, slot: int, epoch: int) -> bool:
    store = EngineStore(node.bell.clock)
    async with node.bell.database.transaction() as session:
        if statement == "lock_job":
            locked = await store.lock_job(
                session, id=id, version=1, epoch=epoch, incarnation=node.incarnation
            )
            return locked is not None
        fence = {
            "slots": [slot],
            "epochs": [epoch],
            "incarnation": node.incarnation,
            "lock_timeout": "10s",
        }
        return bool(await store.start_jobs(session, ids=[id], version=1, fence=fence))


@pytest.mark.req("U-2", "U-11")
@pytest.mark.parametrize("statement", ["start_jobs", "lock_job"])
async def test_a_job_begins_only_where_nothing_speaks_against_it(
    cluster: Cluster, owner: Owner, statement: str
) -> None:
    node = await cluster.node([APP])
    epochs = {slot: owned.epoch for slot, owned in node.engine.node.owned.items()}
    began: dict[str, bool] = {}
    for number, (case, (change, _)) in enumerate(CASES.items()):
        step = Step(key="step", kind="t.act", at=cluster.clock.now, ordered=True)
        async with node.bell.transaction() as tx:
            diff = await node.bell.set_agenda(tx, subject=f"s:{number}", steps=[step])
        id = diff.added[0].job_id
        assert id is not None
        if change:
            await owner.rows(change, id)
        slot = await owner.value("SELECT slot FROM timebell.jobs WHERE id = $1", id)
        began[case] = await _begins(node, statement, id, slot, epochs[slot])
        await owner.rows(
            "UPDATE timebell.slots SET epoch = $2, owner = $3 WHERE slot = $1",
            slot,
            epochs[slot],
            node.incarnation,
        )
    assert began == {case: is_begun for case, (_, is_begun) in CASES.items()}
