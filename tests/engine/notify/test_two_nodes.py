"""Two nodes on one database, and a provider that takes its time: each is told by one of them, and once."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE
from tests.engine.support import Cluster, ClusterNode, Owner, has_read_all
from timebell.notify import Notify, Tell, notify_app
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider


class Slow(RecordingProvider):
    """Whatever is sent hangs until the test says that it may end."""

    def __init__(self, under_way: Counter[UUID]) -> None:
        super().__init__("mails", channels=["email"])
        self.under_way = under_way
        self.hanging_count = 0
        self.may_end = asyncio.Event()

    async def send(self, parcel: Parcel) -> Answer:
        self.under_way[parcel.delivery_id] += 1
        self.hanging_count += 1
        await self.may_end.wait()
        return await super().send(parcel)


async def _go_on_until_all_hangs(node: ClusterNode, slow: Slow) -> None:
    """Look at all that is due; nothing is left then to read, to begin or to write, but for the ends of these calls."""
    worker = node.engine.worker

    def is_so() -> bool:
        hanging = slow.hanging_count
        can_begin = hanging < worker._concurrency and bool(worker.ledger)
        is_quiet = has_read_all(node.engine) and not worker.background.going_on
        return is_quiet and not can_begin and hanging == len(worker.attempts)

    worker.sweep()
    await worker.tick()
    await node.passes_until(is_so)


@pytest.mark.req("M-5.3", "S-2.5")
@pytest.mark.parametrize("count", [80, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_two_nodes_tell_each_once_however_slow_the_provider_is(
    cluster: Cluster, owner: Owner, count: int
) -> None:
    """The second comes while the calls of the first hang, takes half of its slots and finds there what it tells."""
    under_way: Counter[UUID] = Counter()
    first, second = Slow(under_way), Slow(under_way)
    one = await cluster.node([notify_app([first])], node_name="one", concurrency=count // 2, tenant_share=1)
    bell = one.bell
    notify = Notify(bell)
    async with bell.transaction() as tx:
        await notify.templates.save(tx, REMINDER)
        ada = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        tells = [Tell(recipient=ada.id, template=REMINDER.key, context=TITLE, channels=["email"])] * count
        await notify.tell_many(tx, tells)
    await _go_on_until_all_hangs(one, first)
    assert len(under_way) == count // 2
    two = await cluster.node([notify_app([second])], node_name="two", concurrency=count, tenant_share=1)
    for _ in range(3):
        await one.engine.beat()
        await two.engine.beat()
    assert len(one.engine.node.owned) == len(two.engine.node.owned)
    for node, slow in ((one, first), (two, second)):
        await _go_on_until_all_hangs(node, slow)
    assert len(under_way) > count // 2, "the second found nothing that the first had left"
    for slow in (first, second):
        slow.may_end.set()
    for node in (one, two):
        await node.run_due()
    assert sorted(under_way.values()) == [1] * count
    assert first.taken[EMAIL] + second.taken[EMAIL] == count
    # Who takes over an attempt that goes on counts it as cut off and calls nobody. That must not be what saved us.
    deliveries = "SELECT DISTINCT state, reason, attempt_count FROM timebell_notify.deliveries"
    assert [tuple(row.values()) for row in await owner.rows(deliveries)] == [("sent", "accepted", 1)]
    assert {row["attempt"] for row in await owner.log("done")} == {1}
