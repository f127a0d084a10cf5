"""What is held before it runs is bounded by its real size, and large payloads and cursors arrive all the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.support import has_read_all, passes_until
from timebell.kernel import App, Done, Enqueue, Handler, Job, Outcome, Snooze
from timebell.kernel.models import Mode
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
# As they are stored these take up a hundredth of what they are as text, or less.
ALIKE: dict[str, Any] = {"text": "x" * 60_000}
NUMBERS: dict[str, Any] = {"numbers": [1e300] * 60}


def held_bytes(h: Harness) -> int:
    """What payloads and cursors take up of the jobs that wait in memory."""
    rows = [entry.row for entry in h.engine.worker.ledger._entries.values()]
    return sum(len(row[name] or "") for row in rows for name in ("payload", "cursor"))


async def read_ahead(h: Harness) -> None:
    """Read what is due soon, and begin none of it."""
    await h.engine.beat()
    h.engine.worker.sweep()
    await passes_until(h.engine, lambda: has_read_all(h.engine))


@pytest.mark.parametrize("payload", [ALIKE, NUMBERS], ids=["compressed", "numbers"])
async def test_a_payload_counts_as_large_as_it_is_and_not_as_it_is_stored(
    database_url: TestDatabase, payload: dict[str, Any]
) -> None:
    seen: list[Any] = []

    async def run(job: Job) -> None:
        seen.append(job.payload)

    async with harness(database_url.url, [App(name="t", handlers={"t.run": Handler(run=run)})]) as h:
        async with h.bell.transaction() as tx:
            await h.bell.enqueue_many(tx, [Enqueue(kind="t.run", payload=payload, delay=SECOND / 2)] * 200)
        await read_ahead(h)
        assert len(h.engine.worker.ledger) == 200
        assert held_bytes(h) == 0
        await h.advance(SECOND)
    assert seen == [payload] * 200


async def test_all_tenants_together_hold_so_many_bytes(database_url: TestDatabase) -> None:
    seen: list[int] = []

    async def run(job: Job) -> None:
        seen.append(job.payload["number"])

    app = App(name="t", handlers={"t.run": Handler(run=run)})
    async with harness(database_url.url, [app], held_bytes_max=20_000) as h:
        for tenant in ("a", "b", "c", "d"):
            async with h.bell.transaction(tenant=tenant) as tx:
                jobs = [
                    Enqueue(kind="t.run", payload={"number": number, "text": "x" * 900}, delay=SECOND / 2)
                    for number in range(40)
                ]
                await h.bell.enqueue_many(tx, jobs)
        await read_ahead(h)
        assert len(h.engine.worker.ledger) == 160
        assert 18_000 < held_bytes(h) <= 20_000
        await h.advance(SECOND)
        assert h.engine.worker.ledger._bytes == 0
    assert sorted(seen) == sorted([*range(40)] * 4)


@pytest.mark.parametrize("mode", ["plain", "external", "transactional"])
async def test_a_large_cursor_is_left_behind_as_well(database_url: TestDatabase, mode: Mode) -> None:
    seen: list[Any] = []

    async def run(job: Job, *_: Any) -> Outcome:
        seen.append((job.payload, job.cursor))
        return Snooze(delay=SECOND, cursor=ALIKE) if job.cursor is None else Done()

    app = App(name="t", handlers={"t.run": Handler(run=run, mode=mode)})
    async with harness(database_url.url, [app]) as h:
        async with h.bell.transaction() as tx:
            await h.bell.enqueue_many(tx, [Enqueue(kind="t.run", payload={"a": 1})] * 20)
        await h.run_due()
        h.clock.move(SECOND / 2)
        await read_ahead(h)
        assert len(h.engine.worker.ledger) == 20
        assert held_bytes(h) < 1_000
        await h.advance(SECOND)
    assert seen == [({"a": 1}, None)] * 20 + [({"a": 1}, ALIKE)] * 20
