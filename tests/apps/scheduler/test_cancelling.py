"""Cancels: in time, too late, twice, and before the request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.apps.scheduler.support import DAY, HOUR, NOW, SECOND, Desk, desk, is_there, message
from timebell.apps.scheduler.service import CANCELLED, QUEUED
from timebell.brokers import Heard, Message, local
from timebell.errors import RevisionConflict
from timebell.testing.database import TestDatabase

AT = NOW + HOUR


@asynccontextmanager
async def held_in_publish(post: Desk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """While the block lasts a producer is in the middle of publishing what is due now."""
    publishing, go_on = asyncio.Event(), asyncio.Event()
    publish = post.broker.publish

    async def held(messages: list[Message], heard: Heard) -> object:
        publishing.set()
        await go_on.wait()
        return await publish(messages, heard)

    monkeypatch.setattr(post.broker, "publish", held)
    running = asyncio.create_task(post.harness.run_due())
    try:
        async with asyncio.timeout(30):
            await publishing.wait()
            yield
    finally:
        go_on.set()
        async with asyncio.timeout(30):
            await running
        monkeypatch.undo()


@pytest.mark.req("S-4.1")
@pytest.mark.parametrize("when", [{"at": AT}, {"rrule": "FREQ=HOURLY", "dtstart": AT}])
async def test_what_is_cancelled_a_second_before_is_not_published(
    post: Desk, when: dict[str, object]
) -> None:
    await post.ask("a", **when)
    await post.run_to(AT - SECOND)
    await post.cancel("a")
    assert (await post.get("a")).upcoming_at is None
    assert await post.status("a") == "cancelled"
    await post.run_to(AT + DAY)
    assert post.dues() == []
    assert await post.rows("SELECT FROM timebell.jobs") == []


@pytest.mark.req("S-4.2")
async def test_what_is_being_published_once_is_done(post: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await post.ask("a", at=AT)
    post.clock.move_to(AT)
    async with held_in_publish(post, monkeypatch):
        await post.cancel("a")
        assert await post.status("a") == "pending"
    assert len(post.dues()) == 1
    assert await post.status("a") == "done"
    assert post.counted(CANCELLED) == 0


@pytest.mark.req("S-4.2")
@pytest.mark.parametrize("rule", ["FREQ=HOURLY", "FREQ=HOURLY;COUNT=1"])
async def test_what_is_being_published_again_and_again_is_cancelled(
    post: Desk, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    await post.ask("a", rrule=rule)
    async with held_in_publish(post, monkeypatch):
        await post.cancel("a")
        assert await post.status("a") == "cancelled"
    await post.run_to(AT + DAY)
    assert len(post.dues()) == 1
    assert (await post.get("a")).status == "cancelled"
    assert post.counted(CANCELLED) == 1


@pytest.mark.req("S-4.2")
async def test_what_could_not_be_published_then_is_not_tried_again(
    post: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post.ask("a", at=AT)
    post.clock.move_to(AT)
    async with held_in_publish(post, monkeypatch):
        await post.cancel("a")
        post.server.delete_queue("timebell.due")
    await post.run_to(AT + HOUR)
    assert await post.status("a") == "cancelled"


@pytest.mark.req("S-4.1")
async def test_a_number_that_is_hardly_one_keeps_nobody_from_cancelling(post: Desk) -> None:
    body = b'{"type": "ScheduleRequest", "id": "a", "at": "2025-07-10T09:00:00Z", "payload": {"x": 1e-20000}}'
    await post.send(Message(exchange="timebell", routing_key="schedule.request", body=body))
    await post.cancel("a")
    assert await post.status("a") == "cancelled"
    assert post.letters() == []


@pytest.mark.req("S-4.3")
async def test_what_came_to_its_end_stays_there(post: Desk) -> None:
    await post.ask("done", at=AT)
    await post.ask("again", rrule="FREQ=HOURLY;COUNT=1")
    await post.ask("cancelled", at=AT)
    await post.cancel("cancelled", "cancelled")
    await post.run_to(AT)
    await post.cancel("done", "again", "cancelled")
    assert [await post.status(id) for id in ("done", "again", "cancelled")] == ["done", "done", "cancelled"]
    assert post.counted(CANCELLED) == 1
    assert post.letters() == []


@pytest.mark.req("S-4.4")
async def test_a_cancel_that_comes_first_counts_for_a_day(post: Desk) -> None:
    await post.cancel("a")
    await post.run_to(NOW + DAY - SECOND)
    await post.ask("a", at=NOW + DAY)
    await post.ask("a", rrule="FREQ=DAILY")
    await post.run_to(NOW + 2 * DAY)
    assert post.dues() == []
    assert (post.counted(QUEUED), post.counted(CANCELLED)) == (0, 0)
    await post.ask("a", at=NOW + 3 * DAY)
    await post.run_to(NOW + 3 * DAY)
    assert post.fired() == [("a", "2025-07-13T08:00:00.000000Z")]
    assert post.counted(QUEUED) == 1
    one = await post.get("a")
    assert (one.status, one.fired_count) == ("done", 1)


@pytest.mark.req("S-4.4")
async def test_a_cancel_that_comes_again_counts_from_then(post: Desk) -> None:
    await post.cancel("a")
    post.clock.move(20 * HOUR)
    await post.cancel("a")
    post.clock.move(20 * HOUR)
    await post.ask("a", at=NOW + 3 * DAY)
    await post.run_to(NOW + 3 * DAY)
    assert post.dues() == []


async def test_a_cancel_in_the_wrong_queue_is_one(post: Desk) -> None:
    request, cancel = message("ScheduleRequest", "a", at=AT), message("ScheduleCancel", "a")
    await post.send(
        Message(exchange="timebell", routing_key="schedule.cancel", body=request.body),
        Message(exchange="timebell", routing_key="schedule.cancel", body=cancel.body),
        Message(exchange="timebell", routing_key="schedule.cancel", body=request.body),
    )
    assert await post.status("a") == "cancelled"
    assert (post.counted(QUEUED), post.counted(CANCELLED)) == (1, 1)


async def test_what_died_waits_for_nobody_once_it_is_cancelled(post: Desk) -> None:
    await post.ask("a", at=AT)
    await post.ask("b", at=AT)
    await post.rows("UPDATE timebell.jobs SET payload = '{}'")
    await post.run_to(AT)
    assert [await post.status("a"), await post.status("b")] == ["pending", "pending"]
    assert len(await post.rows("SELECT FROM timebell.dead_jobs")) == 2
    await post.cancel("a")
    await post.ask("b", at=AT + HOUR)
    await post.run_to(AT + HOUR)
    assert [await post.status("a"), await post.status("b")] == ["cancelled", "done"]
    assert await post.rows("SELECT FROM timebell.dead_jobs") == []
    assert post.counted(CANCELLED) == 1


async def test_what_somebody_ended_by_another_door_is_cancelled(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=HOURLY", dtstart=AT)
    await post.ask("b", at=AT)
    rows = {row["id"]: row for row in await post.rows()}
    async with post.bell.transaction() as tx:
        await post.bell.schedules.end(tx, rows["a"]["schedule_id"])
        await post.bell.cancel(tx, id=rows["b"]["job_id"])
    assert [await post.status("a"), await post.status("b")] == ["cancelled", "cancelled"]
    await post.cancel("a", "b")
    assert post.counted(CANCELLED) == 0


async def test_what_waits_for_the_broker_can_be_cancelled(post: Desk) -> None:
    await post.ask("a", at=AT)
    await post.ask("b", rrule="FREQ=HOURLY;COUNT=1", dtstart=AT)
    post.server.block()
    await post.run_to(AT + timedelta(minutes=10))
    async with post.bell.transaction() as tx:
        answers = await post.scheduler.cancel_many(tx, ["a", "b"])
    assert [one.answer for one in answers] == ["cancelled", "cancelled"]
    post.server.unblock()
    await post.run_to(AT + HOUR)
    assert post.dues() == []


@pytest.mark.req("S-4.1")
async def test_what_a_blocked_broker_has_not_read_is_never_published_after_a_cancel(post: Desk) -> None:
    """It was on its way as the broker was blocked, so it would be read once that is over."""
    await post.ask("a", at=AT)
    post.clock.move_to(AT)
    publish = post.broker.publish

    async def blocked(messages: list[Message], heard: Heard) -> object:
        post.server.block()
        return await publish(messages, heard)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(post.broker, "publish", blocked)
        patch.setattr(local, "PUBLISH_SECONDS", 0.01)
        await post.harness.run_due()
    assert (await post.status("a"), post.dues()) == ("pending", [])
    async with post.bell.transaction() as tx:
        (answer,) = await post.scheduler.cancel_many(tx, ["a"])
    assert answer.answer == "cancelled"
    post.server.unblock()
    await is_there(post)
    await post.run_to(AT + HOUR)
    assert (await post.status("a"), post.dues()) == ("cancelled", [])


async def test_two_who_cancel_the_same_unknown_name_at_once(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database) as post:
        async with post.bell.transaction() as first:
            await post.scheduler.cancel_many(first, ["a"])

            async def second() -> None:
                async with post.bell.transaction() as tx:
                    await post.scheduler.cancel_many(tx, ["a"])

            other = asyncio.create_task(second())
            for _ in range(1_000):
                if await post.rows("SELECT FROM pg_locks WHERE NOT granted"):
                    break
        with pytest.raises(RevisionConflict):
            await other
        await post.cancel("a")
        assert len(await post.rows()) == 1
