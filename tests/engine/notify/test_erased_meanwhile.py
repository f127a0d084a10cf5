"""A recipient who is erased while it is being told: nothing about it is written afterwards."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER
from tests.engine.support import Cluster, ClusterNode, Moment, Owner
from timebell.errors import NotFound
from timebell.notify import Notify, Rejected, Route, Sent, Tell, notify_app
from timebell.notify.provider import Answer
from timebell.testing import RecordingProvider

MINUTE = timedelta(minutes=1)
SECRET = "Mrs Lovelace's surgery"
TABLES = (
    "recipients",
    "addresses",
    "opt_outs",
    "notifications",
    "deliveries",
    "attempts",
    "inbox",
    "outbox",
    "provider_reports",
)


async def remembered(owner: Owner) -> dict[str, list[str]]:
    """What is still known of the recipient, by table."""
    found = {}
    for table in TABLES:
        rows = await owner.rows(f"SELECT to_jsonb(t)::text AS row FROM timebell_notify.{table} t")
        found[table] = [row["row"] for row in rows if SECRET in row["row"] or EMAIL in row["row"]]
    return {table: rows for table, rows in found.items() if rows}


async def set_up(node: ClusterNode) -> UUID:
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        ada = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        await notify.templates.save(tx, REMINDER)
    return ada.id


async def erase(node: ClusterNode, recipient: UUID) -> None:
    async with node.bell.transaction() as tx:
        await Notify(node.bell).recipients.erase(tx, recipient)


def asked(recipient: UUID, **options: Any) -> Tell:
    whole: dict[str, Any] = {
        "recipient": recipient,
        "template": REMINDER.key,
        "context": {"title": SECRET},
        "channels": Route(first=["email"], also=["inbox"]),
    }
    return Tell(**{**whole, **options})


PLACES: list[tuple[Moment, str]] = [
    ("after", "start_jobs"),
    ("after", "read_facts"),
    ("before", "start_attempts"),
    ("after", "start_attempts"),
    ("before", "record_answers"),
    ("after", "record_answers"),
    ("before", "show_entries"),
    ("after", "show_entries"),
    ("before", "note_progress"),
    ("after", "note_progress"),
]
# Here a transaction of the run is open, and the erasure waits for it.
OPEN = {"start_attempts", "show_entries", "note_progress", "capture_sends"}
ANSWERS: dict[str, Answer] = {
    "sent": Sent(detail={"said": f"250 <{EMAIL}> accepted"}),
    "captured": Sent(is_captured=True),
    "rejected": Rejected(reason=f"550 <{EMAIL}> unknown", blame="address"),
}


@pytest.mark.parametrize(
    ("moment", "place", "answer"),
    [
        *((moment, place, "sent") for moment, place in PLACES),
        ("before", "record_answers", "rejected"),
        ("before", "record_answers", "captured"),
        ("after", "capture_sends", "captured"),
    ],
)
async def test_at_each_point_of_a_run(
    cluster: Cluster, owner: Owner, moment: Moment, place: str, answer: str
) -> None:
    provider = RecordingProvider()
    provider.answer(ANSWERS[answer])
    node = await cluster.node([notify_app([provider])])
    ada = await set_up(node)
    async with node.bell.transaction() as tx:
        (told,) = await Notify(node.bell).tell_many(tx, [asked(ada)])
    hold = node.stage.hold(moment, place)
    await node.run_until(hold)
    if place in OPEN and moment == "after":
        erasing = asyncio.create_task(erase(node, ada))
        await owner.until_someone_waits()
        await node.go_on(hold)
        await erasing
    else:
        await erase(node, ada)
        assert await remembered(owner) == {}
        await node.go_on(hold)
    for _ in range(3):
        cluster.clock.move(MINUTE)
        await node.run_due()
    assert await remembered(owner) == {}
    found = (await Notify(node.bell).notifications.get(told.id)).notification
    assert found.settled_at is not None
    assert await owner.jobs() == []


async def test_a_step_that_comes_due_afterwards_is_noted_without_a_word(
    cluster: Cluster, owner: Owner
) -> None:
    provider = RecordingProvider()
    node = await cluster.node([notify_app([provider])])
    ada = await set_up(node)
    async with node.bell.transaction() as tx:
        at = cluster.clock.now + MINUTE
        step = await Notify(node.bell).step(tx, asked(ada), key="a", at=at)
        diff = await node.bell.set_agenda(tx, subject="meeting:1", steps=[step])
    await erase(node, ada)
    cluster.clock.move(MINUTE)
    await node.run_due()
    (change,) = diff.added
    assert change.job_id is not None
    found = (await Notify(node.bell).notifications.get(change.job_id)).notification
    assert (found.state, found.reason, found.context) == ("skipped", "no_recipient", {})
    assert await remembered(owner) == {}
    assert provider.parcels == []


async def test_whoever_erases_keeps_no_worker_waiting(cluster: Cluster, owner: Owner) -> None:
    """The transaction that erases stays open: the run goes on for others, and comes back for this one."""
    provider = RecordingProvider()
    node = await cluster.node([notify_app([provider])])
    ada = await set_up(node)
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        bo = await notify.recipients.add(tx, name="Bo", email="bo@example.org")
        at = cluster.clock.now
        step = await notify.step(tx, asked(ada), key="a", at=at, late="run")
        await node.bell.set_agenda(tx, subject="meeting:1", steps=[step])
    async with node.bell.transaction() as tx:
        await notify.recipients.erase(tx, ada)
        async with node.bell.transaction() as other:
            await notify.tell_many(other, [asked(bo.id, context={"title": "Board"})])
        await node.run_due()
        assert provider.taken == {"bo@example.org": 1}
        (job,) = await owner.jobs()
        assert job["kind"] == "notify.deliver"
    cluster.clock.move(MINUTE)
    await node.run_due()
    assert await owner.jobs() == []
    assert await remembered(owner) == {}
    assert provider.taken == {"bo@example.org": 1}


async def test_an_erasure_that_is_undone_delays_it_by_seconds(cluster: Cluster) -> None:
    provider = RecordingProvider()
    node = await cluster.node([notify_app([provider])])
    ada = await set_up(node)
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        step = await notify.step(tx, asked(ada), key="a", at=cluster.clock.now, late="run")
        await node.bell.set_agenda(tx, subject="meeting:1", steps=[step])
    with suppress(asyncio.CancelledError):
        async with node.bell.transaction() as tx:
            await notify.recipients.erase(tx, ada)
            await node.run_due()
            raise asyncio.CancelledError
    assert provider.parcels == []
    cluster.clock.move(timedelta(seconds=5))
    await node.run_due()
    assert provider.taken == {EMAIL: 1}
    assert await notify.inbox.count_unseen(ada) == 1


async def test_who_is_being_told_of_is_not_erased_before_that_is_known(
    cluster: Cluster, owner: Owner
) -> None:
    """The erasure waits for the transaction that tells, and then takes that back too."""
    node = await cluster.node([notify_app()])
    ada = await set_up(node)
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        await notify.tell_many(tx, [asked(ada, due_at=cluster.clock.now + MINUTE)])
        erasing = asyncio.create_task(erase(node, ada))
        await owner.until_someone_waits()
    await erasing
    assert await remembered(owner) == {}
    assert await owner.jobs() == []
    async with node.bell.transaction() as tx:
        with pytest.raises(NotFound, match="recipient"):
            await notify.tell_many(tx, [asked(ada)])
