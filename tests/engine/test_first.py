from __future__ import annotations
from datetime import timedelta
import pytest
from timebell.kernel import *
from timebell.kernel.app import Registry
from timebell.rules.backoff import RetryPolicy
from timebell.testing import harness

async def test_modes(database_url):
    ran = []
    async def h(job): ran.append((job.kind, job.due_at))
    async def t(job):
        ran.append((job.kind, job.due_at))
        await job.tx.connection.execute("select 1")
    fails = [2]
    async def flaky(job):
        ran.append(("flaky", job.attempt, clock.now))
        if fails[0]:
            fails[0] -= 1
            raise ValueError("nope")
    app = App(name="t", handlers={"t.plain": h, "t.external": Handler(run=h, mode="external"), "t.tx": Handler(run=t, mode="transactional"), "t.flaky": flaky},
       queues=[Queue(name="slow", rate=5), Queue(name="narrow", concurrency=2)])
    async with harness(database_url.url, [app]) as hs:
        bell, clock = hs.bell, hs.clock
        async with bell.transaction() as tx:
            for k in ("t.plain", "t.external", "t.tx"):
                await bell.enqueue(tx, k, {}, delay=timedelta(minutes=5))
            await bell.enqueue(tx, "t.flaky")
        await hs.run_due()
        assert ran == [("flaky", 1, clock.now)]
        t0 = clock.now
        await hs.advance(timedelta(minutes=6))
        assert ran[1:] and {r[0] for r in ran} == {"t.plain", "t.external", "t.tx", "flaky"}
        assert [r for r in ran if r[0] == "flaky"] == [("flaky", 1, t0), ("flaky", 2, t0 + timedelta(seconds=60)), ("flaky", 3, t0 + timedelta(seconds=360))]
        ran.clear()
        async with bell.transaction() as tx:
            await bell.enqueue_many(tx, [Enqueue(kind="t.plain", queue="slow") for _ in range(20)])
            await bell.enqueue_many(tx, [Enqueue(kind="t.external", queue="narrow") for _ in range(20)])
        n = await hs.advance(timedelta(seconds=10))
        assert n == 40
