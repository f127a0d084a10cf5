"""One tenant's handlers hang, all of them, and another tenant's jobs begin all the same, when they are due."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.engine.support import has_read_all, passes_until
from timebell.kernel import App, Enqueue, Handler, Job, Queue
from timebell.kernel.models import Mode
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

HANGING = 250


class Hanging:
    """Handlers that wait until they are let go, and others that note what they ran."""

    def __init__(self, mode: Mode) -> None:
        self.over = asyncio.Event()
        self.begun = 0
        self.ran: list[str] = []
        self._mode = mode

    def app(self) -> App:
        async def wait(job: Job, *_: Any) -> None:
            self.begun += 1
            await self.over.wait()

        async def tell(job: Job, *_: Any) -> None:
            self.ran.append(job.tenant)

        return App(
            name="t",
            handlers={
                "t.hang": Handler(run=wait, mode=self._mode),
                "t.tell": Handler(run=tell, mode=self._mode),
            },
            queues=[Queue(name="some")],
        )


async def enqueue(h: Harness, tenant: str, kind: str, number: int = 1, **options: Any) -> None:
    async with h.bell.transaction(tenant=tenant) as tx:
        await h.bell.enqueue_many(tx, [Enqueue(kind=kind, **options) for _ in range(number)])


async def rest(h: Harness, hanging: Hanging, at_most: int) -> None:
    """Until so many have begun, and nothing more does though all of them are there to be begun."""
    await passes_until(h.engine, lambda: hanging.begun >= at_most)
    await passes_until(h.engine, lambda: has_read_all(h.engine))
    for _ in range(5):
        await h.engine._pass(0.01)
    assert hanging.begun == at_most


@pytest.mark.req("U-15")
@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
@pytest.mark.parametrize("urgency", ["normal", "critical"])
async def test_handlers_that_hang_delay_nobody_else(
    database_url: TestDatabase, mode: Mode, urgency: str
) -> None:
    hanging = Hanging(mode)
    async with harness(database_url.url, [hanging.app()], pool_size=10) as h:
        await h.engine.beat()
        await enqueue(h, "hangs", "t.hang", HANGING, urgency=urgency)
        at_most = 5 if mode == "transactional" else 90
        await rest(h, hanging, at_most)

        await enqueue(h, "quiet", "t.tell", 3)
        await passes_until(h.engine, lambda: len(hanging.ran) == 3)
        assert hanging.ran == ["quiet"] * 3
        assert hanging.begun == at_most

        hanging.over.set()
        await h.run_due()
        assert hanging.begun == HANGING


@pytest.mark.req("U-15")
async def test_a_critical_flood_leaves_turns_to_ordinary_jobs(database_url: TestDatabase) -> None:
    """Nothing hangs here; there is only more of it than there are places, and it never ends by itself."""
    order: list[str] = []

    async def run(job: Job) -> None:
        order.append(job.tenant)

    app = App(name="t", handlers={"t.run": Handler(run=run)})
    async with harness(database_url.url, [app], concurrency=20) as h:
        await enqueue(h, "flood", "t.run", 1_000, urgency="critical")
        await enqueue(h, "quiet", "t.run", 40)
        await h.run_due()
    assert len(order) == 1_040
    last = max(number for number, tenant in enumerate(order) if tenant == "quiet")
    assert last < 40 + 40 + 64 + 40, f"{last} began before the last of them"


@pytest.mark.req("U-15")
async def test_threads_that_hang_are_not_all_there_are(database_url: TestDatabase) -> None:
    over, ran, begun = threading.Event(), list[str](), list[int]()

    def wait(job: Job) -> None:
        begun.append(1)
        over.wait(60)

    def tell(job: Job) -> None:
        ran.append(job.tenant)

    app = App(name="t", handlers={"t.hang": Handler(run=wait), "t.tell": Handler(run=tell)})
    async with harness(database_url.url, [app], threads=8) as h:
        try:
            await h.engine.beat()
            await enqueue(h, "hangs", "t.hang", 30)
            await passes_until(h.engine, lambda: len(begun) == 7)
            await enqueue(h, "quiet", "t.tell", 2)
            await passes_until(h.engine, lambda: len(ran) == 2)
            assert len(begun) == 7
        finally:
            over.set()
        await h.run_due()
    assert len(begun) == 30


async def test_the_share_of_a_tenant_is_a_setting(database_url: TestDatabase) -> None:
    hanging = Hanging("plain")
    async with harness(database_url.url, [hanging.app()], concurrency=40, tenant_share=0.5) as h:
        await h.engine.beat()
        await enqueue(h, "hangs", "t.hang", HANGING)
        await rest(h, hanging, 20)
        hanging.over.set()
        await h.run_due()
