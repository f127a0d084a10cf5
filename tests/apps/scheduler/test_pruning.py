"""What is past its retention goes, a bounded number at a time, and with it what the kernel kept for it."""

from __future__ import annotations

import pytest

from tests.apps.scheduler.support import DAY, HOUR, NOW, SECOND, Desk, desk, message
from timebell.apps.scheduler.pruning import Pruning
from timebell.testing.database import TestDatabase

AT = NOW + HOUR


async def ids(post: Desk) -> list[str]:
    return [row["id"] for row in await post.rows()]


async def prune(post: Desk, limit: int = 1_000) -> int:
    """As often as there is more; answers with how often."""
    pruning = Pruning()
    for count in range(1, 100):
        if await pruning(post.bell, limit) < limit:
            return count
    raise AssertionError("it never comes to an end")


async def test_what_came_to_its_end_long_ago_goes(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database, log_days=7) as post:
        await post.send(
            message("ScheduleRequest", "done", at=AT),
            message("ScheduleRequest", "cancelled", at=NOW + 90 * DAY),
            message("ScheduleRequest", "later", at=NOW + 20 * DAY),
            message("ScheduleRequest", "again", rrule="FREQ=HOURLY;COUNT=2"),
            message("ScheduleRequest", "stopped", rrule="FREQ=WEEKLY"),
            message("ScheduleRequest", "endless", rrule="FREQ=WEEKLY"),
            message("ScheduleRequest", "dead", at=AT),
        )
        await post.cancel("cancelled", "stopped")
        await post.rows("UPDATE timebell.jobs SET payload = '{}' WHERE payload->>'id' = 'dead'")
        await post.run_to(AT + 7 * DAY)
        await prune(post)
        assert await ids(post) == ["again", "dead", "done", "endless", "later"]
        await post.run_to(AT + 7 * DAY + HOUR)
        await prune(post)
        assert await ids(post) == ["dead", "endless", "later"]
        assert len(await post.rows("SELECT FROM timebell.schedules")) == 1
        await post.run_to(NOW + 27 * DAY + SECOND)
        await prune(post)
        assert await ids(post) == ["dead", "endless"]
        assert await post.status("endless") == "pending"


async def test_what_is_owed_or_was_published_lately_stays(scheduler_database: TestDatabase) -> None:
    """It was to be published long ago, and was not until now."""
    async with desk(scheduler_database, log_days=7) as post:
        await post.ask("a", at=AT)
        await post.ask("b", rrule="FREQ=HOURLY;COUNT=1")
        post.server.block()
        await post.run_to(NOW + 30 * DAY)
        await prune(post)
        assert await ids(post) == ["a", "b"]
        post.server.unblock()
        await post.run_to(NOW + 31 * DAY)
        await prune(post)
        assert len(post.fired()) == 2
        assert [await post.status(id) for id in ("a", "b")] == ["done", "done"]
        await post.run_to(NOW + 39 * DAY)
        await prune(post)
        assert await ids(post) == []


async def test_a_name_that_was_cancelled_and_never_asked_for_is_free_after_a_day(post: Desk) -> None:
    await post.cancel("a", "b")
    await post.run_to(NOW + DAY - SECOND)
    await post.cancel("b")
    await prune(post)
    assert await ids(post) == ["a", "b"]
    await post.run_to(NOW + DAY)
    await prune(post)
    assert await ids(post) == ["b"]


@pytest.mark.parametrize("limit", [3, 7, 1_000])
async def test_tenants_take_turns_and_what_stays_holds_up_nothing(
    scheduler_database: TestDatabase, limit: int
) -> None:
    async with desk(scheduler_database, log_days=7, broker_trusts_tenant=True) as post:
        for tenant in ("acme", "beta", "gamma"):
            await post.send(
                *[
                    message(
                        "ScheduleRequest",
                        f"{number}",
                        at=AT if number % 3 else NOW + 300 * DAY,
                        tenant=tenant,
                    )
                    for number in range(20)
                ]
            )
        await post.run_to(AT)
        await post.run_to(AT + 8 * DAY)
        await post.send(
            *[message("ScheduleRequest", f"new {n}", at=NOW, tenant="acme") for n in range(20)],
            message("ScheduleRequest", "new", at=NOW, tenant="zeta"),
        )
        await post.harness.run_due()
        times = await prune(post, limit)
        assert times <= 2 + 4 * (40 // limit + 1)
        left = await post.rows(
            "SELECT tenant, count(*) AS count FROM scheduler.requests GROUP BY 1 ORDER BY 1"
        )
        assert [tuple(row) for row in left] == [("acme", 27), ("beta", 7), ("gamma", 7), ("zeta", 1)]


async def test_a_node_calls_it(post: Desk) -> None:
    (app,) = [app for app in post.bell.registry.apps if app.name == "scheduler"]
    assert isinstance(app.on_prune, Pruning)
