"""What somebody was told is kept for as long as the settings say, and then goes with everything that came of it."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.notify.stage import Owner, Stage, stage
from tests.engine.notify.test_digests import APPS, DAILY, set_up
from tests.engine.notify.test_digests import tell as tell_digested
from timebell.engine import pruner
from timebell.notify import Route
from timebell.providers.log import captured_providers
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

DAY = timedelta(days=1)
TABLES = ("notifications", "deliveries", "attempts", "inbox", "outbox", "digests", "provider_reports")


async def counts(owner: Owner) -> dict[str, int]:
    """The tables that have something in them."""
    found = {name: await owner.value(f"SELECT count(*) FROM timebell_notify.{name}") for name in TABLES}
    return {name: count for name, count in found.items() if count}


async def prune(s: Stage) -> None:
    for _ in range(20):
        if await s.harness.engine.pruner.tick() == pruner.EVERY_SECONDS:
            return
    raise AssertionError("the pruner finds no end")


@pytest.mark.req("X-C8")
async def test_what_was_told_goes_after_its_days(database_url: TestDatabase, owner: Owner) -> None:
    async with stage(database_url.url, [RecordingProvider()]) as s:
        told = await s.told(channels=Route(first=["email"], also=["inbox"]))
        assert told.state == "sent"
        kept = await counts(owner)
        assert kept == {"notifications": 1, "deliveries": 2, "attempts": 1, "inbox": 1}
        s.clock.move(179 * DAY)
        await prune(s)
        assert await counts(owner) == kept
        s.clock.move(2 * DAY)
        await prune(s)
        assert await counts(owner) == {}
        # The next is told as ever, and its entry has the next number.
        await s.told(channels=["inbox"])
        [line] = (await s.notify.inbox.list(s.recipient)).lines
        assert line.seq == 2


@pytest.mark.req("X-C8")
async def test_what_demo_mode_kept_goes_with_it(database_url: TestDatabase, owner: Owner) -> None:
    async with stage(database_url.url, captured_providers(), delivery_days=10) as s:
        await s.told(channels=["email"])
        assert (await counts(owner))["outbox"] == 1
        s.clock.move(11 * DAY)
        await prune(s)
        assert await counts(owner) == {}


async def test_what_is_still_owed_stays_and_what_was_taken_back_goes(
    database_url: TestDatabase, owner: Owner
) -> None:
    async with stage(database_url.url, [RecordingProvider()], delivery_days=30) as s:
        began = s.clock.now
        far = await s.tell(due_at=began + 300 * DAY, subject="far")
        back = await s.tell(due_at=began + 10 * DAY, subject="back")
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.cancel(tx, id=back)
        for days, left in ((39, {far, back}), (2, {far})):
            s.clock.move(days * DAY)
            await prune(s)
            assert await ids(owner) == left
        s.clock.move(began + 300 * DAY - s.clock.now)
        await s.harness.run_due()
        assert (await s.now(far)).state == "sent"


async def test_what_was_given_up_stays_as_long_as_its_job_can_be_revived(
    database_url: TestDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And holds up nothing that lies behind it."""
    monkeypatch.setattr(pruner, "_ROWS_MAX", 2)
    async with stage(database_url.url, [RecordingProvider()], delivery_days=30, dead_days=100) as s:
        given_up = {await dead(s, owner) for _ in range(4)}
        back = await s.tell(due_at=s.clock.now + DAY)
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.cancel(tx, id=back)
        s.clock.move(60 * DAY)
        await prune(s)
        assert await ids(owner) == given_up
        s.clock.move(50 * DAY)
        await prune(s)
        assert await ids(owner) == set()


async def test_a_digest_goes_when_all_that_it_told_is_gone(database_url: TestDatabase, owner: Owner) -> None:
    async with stage(database_url.url, apps=APPS[1:], delivery_days=30) as s:
        bell = s.harness.bell
        ana = await set_up(bell)
        first, _ = await tell_digested(bell, ana, "First", "Second", digest=DAILY)
        await s.harness.advance(2 * DAY)
        assert await counts(owner) == {"notifications": 3, "deliveries": 1, "inbox": 1, "digests": 1}
        await owner.connection.execute(
            "UPDATE timebell_notify.notifications SET settled_at = settled_at + interval '20 days' WHERE id = $1",
            first,
        )
        s.clock.move(40 * DAY)
        await prune(s)
        assert await counts(owner) == {"notifications": 1, "digests": 1}
        s.clock.move(20 * DAY)
        await prune(s)
        assert await counts(owner) == {}


async def test_a_report_goes_when_nobody_has_yet_to_apply_it(
    database_url: TestDatabase, owner: Owner
) -> None:
    async with stage(database_url.url, delivery_days=30) as s:
        await owner.connection.execute(
            "INSERT INTO timebell_notify.provider_reports (provider, report_id, kind, received_at, applied, body)"
            " VALUES ('mail', 'old', 'delivered', $1, 'unknown', '{}'), ('mail', 'waits', 'delivered', $1, NULL, '{}'),"
            " ('mail', 'new', 'delivered', $2, 'unknown', '{}')",
            s.clock.now,
            s.clock.now + 20 * DAY,
        )
        s.clock.move(40 * DAY)
        await prune(s)
        rows = await owner.rows("SELECT report_id FROM timebell_notify.provider_reports ORDER BY 1")
        assert [row["report_id"] for row in rows] == ["new", "waits"]


async def ids(owner: Owner) -> set[UUID]:
    return {
        UUID(int=row["id"].int) for row in await owner.rows("SELECT id FROM timebell_notify.notifications")
    }


async def dead(s: Stage, owner: Owner) -> UUID:
    """A notification whose job died, as a fault of ours leaves it."""
    id = await s.tell()
    await owner.connection.execute(
        "WITH gone AS (DELETE FROM timebell.jobs WHERE id = $1 RETURNING *)"
        " INSERT INTO timebell.dead_jobs (id, tenant, queue, kind, due_at, version, attempt, crash_count, priority,"
        " urgency, payload, created_at, died_at) SELECT id, tenant, queue, kind, due_at, version, attempt, crash_count,"
        " priority, urgency, payload, created_at, due_at FROM gone",
        id,
    )
    return id
