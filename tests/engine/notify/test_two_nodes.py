"""Two nodes on one database, and a provider that takes its time: each is told by one of them, and once."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE
from tests.engine.support import Cluster
from timebell.notify import Notify, Tell, notify_app
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider


class Slow(RecordingProvider):
    """Whatever is sent hangs until the test says that it may end."""

    def __init__(self, name: str, under_way: Counter[UUID]) -> None:
        super().__init__(name, channels=["email"])
        self.under_way = under_way
        self.may_end = asyncio.Event()

    async def send(self, parcel: Parcel) -> Answer:
        self.under_way[parcel.delivery_id] += 1
        assert self.under_way[parcel.delivery_id] == 1, "both nodes tell it"
        await self.may_end.wait()
        return await super().send(parcel)

    def end(self) -> None:
        self.may_end.set()
        self.may_end = asyncio.Event()


@pytest.mark.req("M-5.3", "S-2.5")
@pytest.mark.parametrize("count", [80, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_two_nodes_tell_each_once_however_slow_the_provider_is(cluster: Cluster, count: int) -> None:
    """While calls hang both nodes go on looking for what is due, with places free for more."""
    under_way: Counter[UUID] = Counter()
    slow = {name: Slow("mails", under_way) for name in ("a", "b")}
    nodes = {
        name: await cluster.node([notify_app([slow[name]])], node_name=name, concurrency=count)
        for name in ("a", "b")
    }
    for _ in range(3):
        for node in nodes.values():
            await node.engine.beat()
    bell = nodes["a"].bell
    notify = Notify(bell)
    async with bell.transaction() as tx:
        await notify.templates.save(tx, REMINDER)
        ada = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        tells = [Tell(recipient=ada.id, template=REMINDER.key, context=TITLE, channels=["email"])] * count
        await notify.tell_many(tx, tells)
    for node in nodes.values():
        node.engine.worker.sweep()
    for _ in range(1_000):
        for name, node in nodes.items():
            await node.engine.beat()
            await node.engine._pass(0.01)
            if sum(under_way.values()) == count or node.engine.worker.is_idle():
                slow[name].end()
        if sum(provider.taken[EMAIL] for provider in slow.values()) == count:
            break
        node.engine.worker.sweep()
    for provider in slow.values():
        provider.end()
    for node in nodes.values():
        await node.run_due()
    assert sum(provider.taken[EMAIL] for provider in slow.values()) == count
    assert set(under_way.values()) == {1}
    assert all(provider.taken[EMAIL] > count / 4 for provider in slow.values()), "both took part"
