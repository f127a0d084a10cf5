"""Requests that are taken in: once for each name, whatever comes again, late or at the same time."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import orjson
import pytest

from tests.apps.scheduler.support import DAY, HOUR, NOW, Desk, desk, message, take_in
from tests.log_lines import kept_lines
from timebell.apps.scheduler.models import Poison, ScheduleRequest
from timebell.apps.scheduler.service import QUEUED
from timebell.brokers import Heard, Message
from timebell.brokers.local_server import Fate
from timebell.errors import InvalidInput, NotFound, RevisionConflict
from timebell.testing.database import TestDatabase

AT = NOW + HOUR


def once(id: str, at: datetime = AT, payload: str | None = None) -> ScheduleRequest:
    return ScheduleRequest(id=id, due_at=at, payload=payload)


def again(id: str, recurrence: str = "FREQ=HOURLY") -> ScheduleRequest:
    return ScheduleRequest(id=id, recurrence=recurrence)


async def answers(post: Desk, *requests: ScheduleRequest) -> list[str]:
    async with post.bell.transaction() as tx:
        taken = await post.scheduler.request_many(tx, requests)
    post.scheduler.tell("default", taken)
    return [one.reason if isinstance(one, Poison) else one.answer for one in taken]


async def job_count(post: Desk) -> int:
    (row,) = await post.rows("SELECT count(*) AS count FROM timebell.jobs WHERE kind = 'scheduler.fire'")
    return int(row["count"])


@pytest.mark.req("S-1.1")
async def test_a_message_goes_in_and_one_comes_out(post: Desk) -> None:
    await post.send(
        message("ScheduleRequest", "once", at=AT),
        message("ScheduleRequest", "again", rrule="FREQ=HOURLY;COUNT=2"),
        message("ScheduleRequest", "never", at=AT),
        message("ScheduleCancel", "never"),
    )
    await post.run_to(NOW + DAY)
    assert sorted(post.fired()) == [
        ("again", "2025-07-10T08:00:00.000000Z"),
        ("again", "2025-07-10T09:00:00.000000Z"),
        ("once", "2025-07-10T09:00:00.000000Z"),
    ]


@pytest.mark.req("S-1.2")
async def test_what_a_message_brought_goes_out_with_it(post: Desk) -> None:
    sent = message("ScheduleRequest", "a", at=AT, payload={"to": ["x", 1.5, None], "n": 2**53}, unknown=1)
    await post.send(
        Message(
            exchange=sent.exchange,
            routing_key=sent.routing_key,
            body=sent.body,
            correlation_id="c" * 240,
            headers={"x": 1},
        )
    )
    await post.run_to(AT)
    (due,) = post.server.messages("timebell.due")
    assert orjson.loads(due.body)["payload"] == {"to": ["x", 1.5, None], "n": 2**53}
    assert due.correlation_id == "c" * 240
    (row,) = await post.rows()
    assert row["number"].version == 7


@pytest.mark.req("S-1.4")
async def test_the_same_request_five_times_is_one(post: Desk) -> None:
    await post.send(*[message("ScheduleRequest", "a", at=AT, payload={"n": 1})] * 3)
    for _ in range(2):
        await post.ask("a", payload={"n": 1.0}, at="2025-07-10T11:00:00+02:00")
    assert len(await post.rows()) == await job_count(post) == post.counted(QUEUED) == 1
    await post.run_to(AT + HOUR)
    assert len(post.fired()) == 1
    await post.ask("a", at=AT, payload={"n": 1})
    assert await post.status("a") == "done"
    assert post.counted(QUEUED) == 1


@pytest.mark.req("S-1.4")
async def test_a_recurrence_that_comes_again_is_the_same_whenever_it_comes(post: Desk) -> None:
    """It starts when it was first asked for."""
    await post.ask("a", rrule="FREQ=DAILY")
    begun = await post.get("a")
    post.clock.move(timedelta(seconds=90))
    await post.ask("a", rrule="FREQ=DAILY", tz="UTC", misfire="fire_once")
    assert await post.get("a") == begun
    (row,) = await post.rows("SELECT count(*) AS count FROM timebell.schedules")
    assert row["count"] == 1
    await post.ask("a", rrule="FREQ=DAILY", dtstart="2025-07-10T07:30:00Z")
    assert (await post.get("a")).upcoming_at == datetime.fromisoformat("2025-07-11T07:30:00Z")


@pytest.mark.req("S-1.4")
async def test_another_timing_takes_the_place_of_the_one_before(post: Desk) -> None:
    await post.ask("a", at=AT)
    (before,) = await post.rows()
    post.clock.move(timedelta(minutes=1))
    await post.ask("a", at=AT + HOUR, payload="other")
    (row,) = await post.rows()
    assert [row[name] for name in ("number", "created_at")] == [before["number"], before["created_at"]]
    await post.run_to(AT + 2 * HOUR)
    assert post.fired() == [("a", "2025-07-10T10:00:00.000000Z")]
    assert post.dues()[0]["payload"] == "other"
    assert post.counted(QUEUED) == 1


@pytest.mark.req("S-1.4")
@pytest.mark.parametrize("status", ["done", "cancelled"])
async def test_what_came_to_its_end_is_not_begun_again(post: Desk, status: str) -> None:
    await post.ask("a", at=AT)
    if status == "cancelled":
        await post.cancel("a")
    await post.run_to(AT)
    fired = post.fired()
    await post.ask("a", at=AT + HOUR)
    await post.ask("a", rrule="FREQ=HOURLY")
    await post.run_to(AT + DAY)
    assert post.fired() == fired
    assert await post.status("a") == status
    assert post.counted(QUEUED) == 1


@pytest.mark.req("S-1.4")
async def test_a_recurrence_that_came_to_its_end_is_not_begun_again(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=HOURLY;COUNT=1")
    await post.run_to(NOW)
    await post.ask("a", rrule="FREQ=HOURLY;COUNT=2")
    await post.ask("a", at=AT)
    await post.run_to(AT + DAY)
    assert len(post.fired()) == 1
    assert await post.status("a") == "done"


@pytest.mark.req("S-1.4")
async def test_once_becomes_again_and_again_becomes_once(post: Desk) -> None:
    await post.ask("a", at=AT)
    await post.ask("a", rrule="FREQ=HOURLY")
    assert await job_count(post) > 100
    await post.ask("a", rrule="FREQ=MINUTELY;COUNT=2")
    await post.ask("a", at=AT, misfire="skip")
    assert await job_count(post) == 1
    (row,) = await post.rows()
    assert (row["recurrence"], row["schedule_id"], row["misfire"]) == (None, None, None)
    assert await post.rows("SELECT FROM timebell.schedules") == []
    await post.run_to(AT + DAY)
    assert post.fired() == [("a", "2025-07-10T09:00:00.000000Z")]


async def test_another_payload_alone_leaves_the_job(post: Desk) -> None:
    await post.ask("a", at=AT, payload=1)
    await post.ask("b", rrule="FREQ=HOURLY", payload=1)
    before = await post.rows("SELECT id, version FROM timebell.jobs ORDER BY id")
    await post.ask("a", at=AT, payload=2)
    await post.ask("b", rrule="FREQ=HOURLY", payload=2)
    assert await post.rows("SELECT id, version FROM timebell.jobs ORDER BY id") == before
    await post.run_to(AT)
    assert [due["payload"] for due in post.dues()] == [2, 2, 2]
    assert (await post.get("b")).start_at == NOW


async def test_in_one_batch_the_order_counts(post: Desk) -> None:
    taken = await answers(
        post,
        once("a"),
        once("b"),
        once("a"),
        once("a", payload="1"),
        once("a", AT + HOUR, payload="1"),
        again("a"),
        again("a", "FREQ=HOURLY;UNTIL=20240101T000000Z"),
        once("b", AT + HOUR),
        again("c"),
        once("c"),
        once("c", AT),
    )
    assert taken == [
        *("queued", "queued", "same", "replaced", "replaced", "replaced", "bad_rule", "replaced"),
        *("queued", "replaced", "same"),
    ]
    assert (await post.get("a")).recurrence == "FREQ=HOURLY"
    assert [row["id"] for row in await post.rows()] == ["a", "b", "c"]
    (row,) = await post.rows("SELECT count(*) AS count FROM timebell.schedules")
    assert row["count"] == 1
    assert post.counted(QUEUED) == 3


async def test_a_batch_of_known_ones_in_which_the_order_counts(post: Desk) -> None:
    await answers(post, once("a"), again("b"), once("c", payload='{"x":1}'))
    taken = await answers(
        post,
        once("a", AT + HOUR),
        once("a", AT),
        once("a"),
        again("b", "FREQ=DAILY"),
        again("b"),
        once("c", payload='{"x":1.0}'),
        once("c", payload='{"x":2}'),
        once("c", payload='{"x":1}'),
    )
    assert taken == [
        *("replaced", "replaced", "same"),
        *("replaced", "replaced"),
        *("same", "replaced", "replaced"),
    ]
    await post.run_to(AT)
    assert ("a", "2025-07-10T09:00:00.000000Z") in post.fired()
    assert (await post.get("b")).recurrence == "FREQ=HOURLY"


@pytest.mark.parametrize(
    "rule",
    ["FREQ=DAILY;UNTIL=20240101T000000Z", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=DAILY;COUNT=99999"],
)
async def test_a_rule_that_cannot_be_is_poison_and_the_others_go_on(post: Desk, rule: str) -> None:
    assert await answers(post, once("a"), again("b", rule), again("c")) == ["queued", "bad_rule", "queued"]
    assert [row["id"] for row in await post.rows()] == ["a", "c"]


async def test_a_refused_rule_leaves_what_was_there(post: Desk) -> None:
    await answers(post, once("a"), again("b"))
    bad = "FREQ=DAILY;UNTIL=20240101T000000Z"
    assert await answers(post, again("a", bad), again("b", bad)) == ["bad_rule", "bad_rule"]
    await post.run_to(AT)
    assert len(post.fired()) == 3


@pytest.mark.req("S-1.4")
async def test_what_comes_too_late_is_ignored_and_logged(post: Desk) -> None:
    await answers(post, once("a"))
    await post.run_to(AT)
    with kept_lines() as lines:
        assert await answers(post, once("a", AT + HOUR)) == ["ignored"]
    told = [line for line in lines if line["event"] == "requests were ignored"]
    assert [(line["tenant"], line["id"], line["reason"]) for line in told] == [("default", "a", "it is done")]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_is_being_published_is_not_replaced(
    post: Desk, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Nothing is made for what came too late, not even a schedule; and what is published then is not harmed by it."""
    await post.ask("a", at=AT)
    publishing, go_on = asyncio.Event(), asyncio.Event()
    publish = post.broker.publish

    async def held(messages: list[Message], heard: Heard) -> object:
        publishing.set()
        await go_on.wait()
        return await publish(messages, heard)

    monkeypatch.setattr(post.broker, "publish", held)
    running = asyncio.create_task(post.run_to(AT))
    async with asyncio.timeout(10):
        await publishing.wait()
        assert await answers(post, again("a")) == ["ignored"]
        assert await answers(post, once("a", AT + HOUR)) == ["ignored"]
        if is_lost:
            post.server.fate = lambda one: Fate(sort="lose")
        go_on.set()
        await running
        assert len(post.dues()) == (not is_lost)
        post.server.fate = lambda one: Fate()
        await post.run_to(AT + timedelta(minutes=1))
    assert len(post.dues()) == 1
    assert await post.status("a") == "done"
    assert await post.rows("SELECT FROM timebell.schedules") == []
    assert await job_count(post) == 0


async def test_two_who_take_the_same_name_at_once_make_one(post: Desk) -> None:
    """The second sees what the first has made; nothing of what it had begun stays."""
    async with post.bell.transaction() as first:
        await post.scheduler.request_many(first, [once("a")])
        second = asyncio.create_task(answers(post, once("b"), again("c"), once("a")))
        for _ in range(1_000):
            if await post.rows("SELECT FROM pg_locks WHERE NOT granted"):
                break
    with pytest.raises(RevisionConflict):
        await second
    assert await answers(post, once("b"), again("c"), once("a")) == ["queued", "queued", "same"]
    assert await job_count(post) == 2 + len(await post.rows("SELECT FROM timebell.occurrences"))


async def test_intakes_that_take_the_same_names_at_once_make_each_once(
    scheduler_database: TestDatabase,
) -> None:
    async with desk(scheduler_database) as one, desk(scheduler_database) as two:
        for post in (one, two):
            await post.post(*[message("ScheduleRequest", f"{number}", at=AT) for number in range(200)])
        async with asyncio.timeout(60):
            await asyncio.gather(*[take_in(post.bell, post.broker) for post in (one, two)])
        assert len(await one.rows()) == await job_count(one) == 200
        assert one.counted(QUEUED) + two.counted(QUEUED) == 200


async def test_each_tenant_has_its_own_names(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database, broker_trusts_tenant=True) as post:
        for tenant in (None, "acme", "beta"):
            await post.ask("a", at=AT, tenant=tenant)
        await post.cancel("a", tenant="acme")
        await post.run_to(AT)
        assert sorted(due["tenant"] for due in post.dues()) == ["beta", "default"]
        assert {one.routing_key for one in post.server.messages("timebell.due")} == {
            "schedule.due.beta",
            "schedule.due.default",
        }
        assert (await post.get("a", "acme")).status == "cancelled"


async def test_a_tenant_that_makes_no_key_is_refused(post: Desk) -> None:
    async with post.bell.transaction(tenant="ä" * 121) as tx:
        with pytest.raises(InvalidInput, match="tenant"):
            await post.scheduler.request_many(tx, [once("a")])


async def test_lists_go_on_where_they_ended(post: Desk) -> None:
    await answers(post, *[once(f"{number}") for number in range(7)])
    await post.cancel("1", "4", "unknown")
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        async with post.bell.transaction() as tx:
            page = await post.scheduler.list(tx, limit=3, cursor=cursor)
        seen += [one.id for one in page.lines]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"{number}" for number in range(7)]
    async with post.bell.transaction() as tx:
        page = await post.scheduler.list(tx, status="cancelled", limit=1, cursor=None)
        assert [one.id for one in page.lines] == ["1"]
        page = await post.scheduler.list(tx, status="cancelled", limit=5, cursor=page.next_cursor)
        assert [one.id for one in page.lines] == ["4"]
        assert page.next_cursor is None
        with pytest.raises(NotFound):
            await post.scheduler.get(tx, "unknown")


async def test_a_page_of_large_payloads_ends_early(post: Desk) -> None:
    large = orjson.dumps("x" * 120_000).decode()
    await answers(post, *[once(f"{number:02}", payload=large) for number in range(40)])
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        async with post.bell.transaction() as tx:
            page = await post.scheduler.list(tx, limit=40, cursor=cursor)
        assert 0 < len(page.lines) <= 17
        seen += [one.id for one in page.lines]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"{number:02}" for number in range(40)]


async def test_what_is_far_away_is_foreseen(post: Desk) -> None:
    await answers(
        post,
        ScheduleRequest(
            id="a",
            recurrence="FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24;BYHOUR=9;BYMINUTE=0",
            timezone="Europe/Berlin",
        ),
    )
    assert (await post.get("a")).upcoming_at == datetime.fromisoformat("2025-12-24T08:00:00Z")
    assert await job_count(post) == 0
