"""How often a recipient is reached and a provider is called: counted in the database, so by all nodes together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE, device, stage
from tests.engine.support import Cluster, ClusterNode
from timebell.kernel import Timebell
from timebell.notify import Cap, Notify, Rejected, Route, Unavailable, notify_app
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


async def all_run(nodes: Sequence[ClusterNode]) -> None:
    """At the same time, and once more for what was handed over meanwhile."""
    for _ in range(2):
        await asyncio.gather(*(node.run_due() for node in nodes))


async def set_up(bell: Timebell, *caps: Cap) -> UUID:
    notify = Notify(bell)
    async with bell.transaction() as tx:
        ada = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        await notify.templates.save(tx, REMINDER)
        if caps:
            await notify.policies.change(tx, caps=list(caps))
    return ada.id


async def tell(bell: Timebell, recipient: UUID, times: int) -> list[UUID]:
    async with bell.transaction() as tx:
        return [
            (await Notify(bell).tell(tx, recipient, REMINDER.key, context=TITLE, channels=["email"])).id
            for _ in range(times)
        ]


async def test_two_workers_together_keep_to_a_cap(cluster: Cluster) -> None:
    """Sliding: in no hour are there more than three, and as soon as there is room there is another."""
    provider = RecordingProvider()
    nodes = [await cluster.node([notify_app([provider])]) for _ in range(2)]
    ada = await set_up(nodes[0].bell, Cap(count=3, per=HOUR))
    began = cluster.clock.now
    ids: list[UUID] = []
    for _ in range(20):
        ids += await tell(nodes[0].bell, ada, 2 if len(ids) < 10 else 0)
        await all_run(nodes)
        cluster.clock.move(10 * MINUTE)
    sent = sorted(parcel.attempted_at - began for parcel in provider.parcels if parcel.attempted_at)
    assert len(sent) == 10
    assert all(later - earlier >= HOUR for earlier, later in zip(sent, sent[3:], strict=False))
    # Two at first and one more after ten minutes; each is followed an hour later, to the minute.
    first = [timedelta(0), timedelta(0), 10 * MINUTE]
    assert sent == [at + hours * HOUR for hours in range(4) for at in first][:10]


async def test_several_caps_hold_at_once(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        await s.decide(caps=[Cap(count=1, per=MINUTE), Cap(count=3, per=HOUR)])
        for _ in range(5):
            await s.tell(channels=["email"])
        began = s.clock.now
        await s.harness.advance(3 * HOUR)
    sent = [parcel.attempted_at - began for parcel in provider.parcels if parcel.attempted_at]
    assert sent == [0 * MINUTE, MINUTE, 2 * MINUTE, HOUR, HOUR + MINUTE]


@pytest.mark.req("X-C15")
async def test_what_is_held_by_a_cap_says_so_and_until_when(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        await s.decide(caps=[Cap(count=1, per=HOUR, channel="email")])
        await s.told(channels=["email"])
        held = await s.told(channels=["email"])
        assert (held.state, held.reason, held.held_until) == ("held", "held_capped", s.clock.now + HOUR)
        late = await s.told(channels=["email"], expires_at=s.clock.now + HOUR)
        assert (late.state, late.reason) == ("skipped", "capped")
        other = await s.told(channels=["email", "sms"], expires_at=s.clock.now + HOUR)
        assert other.state == "sent", "the cap is on mail alone"
        critical = await s.told(channels=["email"], urgency="critical")
        assert critical.state == "sent"


async def test_it_counts_once_however_it_is_sent(database_url: TestDatabase) -> None:
    """Another provider, another channel in its place, another attempt: still one notification."""
    first = RecordingProvider("first", channels=["sms"])
    second = RecordingProvider("second", channels=["sms"])
    mails = RecordingProvider("mails", channels=["email"])
    first.answer(Unavailable(reason="busy"))
    second.answer(Unavailable(reason="busy"), Rejected(reason="no such number", blame="address"))
    first.answer(Unavailable(reason="busy"))
    async with stage(database_url.url, [first, second, mails]) as s:
        await s.decide(caps=[Cap(count=2, per=HOUR)])
        told = await s.told(channels=["sms"])
        await s.harness.advance(MINUTE)
        assert (await s.now(told.id)).state == "sent"
        assert (await s.told(channels=["email"])).state == "sent", "there was room for a second"
        assert (await s.told(channels=["email"])).reason == "held_capped"
    assert (len(first.parcels), len(second.parcels), mails.taken) == (2, 2, {EMAIL: 2})


async def test_all_devices_of_a_push_count_as_one(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    devices = [device(name) for name in ("phone", "tablet", "desk")]
    async with stage(database_url.url, [provider], terms={"addresses": devices}) as s:
        await s.decide(caps=[Cap(count=1, per=HOUR, channel="push")])
        assert (await s.told(channels=["push"])).state == "sent"
        assert (await s.told(channels=["push"])).reason == "held_capped"
    assert len(provider.parcels) == 3


@pytest.mark.req("A-6.4")
async def test_two_nodes_together_keep_to_the_rate_of_a_provider(cluster: Cluster) -> None:
    provider = RecordingProvider(rate_per_second=2)
    nodes = [await cluster.node([notify_app([provider])]) for _ in range(2)]
    ada = await set_up(nodes[0].bell)
    await tell(nodes[0].bell, ada, 12)
    began = cluster.clock.now
    for _ in range(14):
        await all_run(nodes)
        cluster.clock.move(timedelta(milliseconds=500))
    sent = [parcel.attempted_at - began for parcel in provider.parcels if parcel.attempted_at]
    assert sorted(sent) == [number * SECOND / 2 for number in range(12)]


async def test_a_start_is_used_once(database_url: TestDatabase) -> None:
    """However many devices wait for one; and none is asked for that nobody uses."""
    provider = RecordingProvider(rate_per_second=1)
    devices = [device(name) for name in ("phone", "tablet", "desk")]
    async with stage(database_url.url, [provider], terms={"addresses": devices}) as s:
        began = s.clock.now
        await s.told(channels=["push"])
        await s.harness.advance(MINUTE)
    sent = [parcel.attempted_at - began for parcel in provider.parcels if parcel.attempted_at]
    assert sent == [0 * SECOND, SECOND, 2 * SECOND]


async def test_a_start_that_was_missed_is_asked_for_anew(cluster: Cluster) -> None:
    """All nodes stood still for a minute: what was leased for it must not go out at once."""
    provider = RecordingProvider(rate_per_second=2)
    node = await cluster.node([notify_app([provider])])
    ada = await set_up(node.bell)
    await tell(node.bell, ada, 6)
    await node.run_due()
    cluster.clock.move(MINUTE)
    began = cluster.clock.now
    for _ in range(10):
        await node.run_due()
        cluster.clock.move(timedelta(milliseconds=500))
    sent = [parcel.attempted_at - began for parcel in provider.parcels[1:] if parcel.attempted_at]
    assert sent == [number * SECOND / 2 for number in range(5)]


async def test_what_is_hastened_keeps_its_turn(database_url: TestDatabase) -> None:
    provider = RecordingProvider(rate_per_second=0.1)
    async with stage(database_url.url, [provider]) as s:
        ids = [await s.tell(channels=Route(first=["email"])) for _ in range(3)]
        began = s.clock.now
        await s.harness.run_due()
        for _ in range(3):
            async with s.harness.bell.transaction() as tx:
                await s.notify.release(tx, ids)
            await s.harness.run_due()
        await s.harness.advance(HOUR)
    sent = [parcel.attempted_at - began for parcel in provider.parcels if parcel.attempted_at]
    assert sent == [0 * SECOND, 10 * SECOND, 20 * SECOND]
