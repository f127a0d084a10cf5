"""What recurs: each occurrence is published at its time, and after an outage as its misfire says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.apps.scheduler.support import DAY, HOUR, NOW, SECOND, Desk, desk
from timebell.testing.database import TestDatabase


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def hours(post: Desk) -> list[str]:
    return [due["scheduled_for"][11:16] for due in post.dues()]


@pytest.mark.req("S-3.1")
async def test_it_is_due_at_its_first_occurrence(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database, now=at("2025-07-10T10:00")) as post:
        await post.ask("a", rrule="FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0")
        one = await post.get("a")
        assert (one.status, one.upcoming_at, one.fired_count) == ("pending", at("2025-07-11T09:00"), 0)


@pytest.mark.req("S-3.2", "S-3.3")
async def test_it_fires_as_often_as_it_says_and_is_done(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=DAILY;COUNT=3", payload={"n": 1})
    (before,) = await post.rows()
    for count in (1, 2):
        await post.run_to(NOW + (count - 1) * DAY)
        one = await post.get("a")
        assert (one.status, one.upcoming_at, one.fired_count) == ("pending", NOW + count * DAY, count)
    await post.run_to(NOW + 2 * DAY)
    one = await post.get("a")
    assert (one.status, one.upcoming_at, one.fired_count) == ("done", None, 3)
    await post.run_to(NOW + 5 * DAY)
    assert [(due["scheduled_for"][:13], due["occurrence"]) for due in post.dues()] == [
        ("2025-07-10T08", "2025-07-10T08:00:00"),
        ("2025-07-11T08", "2025-07-11T08:00:00"),
        ("2025-07-12T08", "2025-07-12T08:00:00"),
    ]
    (row,) = await post.rows()
    assert (row["number"], row["id"]) == (before["number"], "a")
    assert await post.status("a") == "done"


@asynccontextmanager
async def held(post: Desk, id: str) -> AsyncIterator[None]:
    """Another transaction has the row of a request for as long as the block lasts."""
    connection = await asyncpg.connect(post.database.admin_url, timeout=10)
    try:
        async with connection.transaction():
            await connection.execute("SELECT FROM scheduler.requests WHERE id = $1 FOR UPDATE", id)
            yield
    finally:
        await connection.close(timeout=10)


async def test_nobody_is_counted_later_because_of_a_row_that_somebody_holds(post: Desk) -> None:
    """What is held is counted when it is not any more, and its job does not wait for that for ever."""
    for id in ("a", "b"):
        await post.ask(id, rrule="FREQ=DAILY")
    async with held(post, "a"):
        async with asyncio.timeout(30):
            await post.harness.run_due()
        assert [(await post.get(id)).fired_count for id in ("a", "b")] == [0, 1]
        assert sorted(id for id, _ in post.fired()) == ["a", "b"]
    async with asyncio.timeout(30):
        while (await post.get("a")).fired_count != 1:
            pass
    await post.run_to(NOW + DAY)
    assert [(await post.get(id)).fired_count for id in ("a", "b")] == [2, 2]


@pytest.mark.req("S-3.2")
async def test_one_that_has_no_end_goes_on(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=HOURLY", misfire="fire_all")
    post.clock.move(999 * HOUR)
    await post.harness.run_due()
    one = await post.get("a")
    assert (one.status, one.fired_count, one.upcoming_at) == (
        "pending",
        1_000,
        NOW + 1_000 * HOUR,
    )
    assert len(set(post.fired())) == len(post.fired()) == 1_000
    assert len(await post.rows()) == 1


@pytest.mark.req("S-3.2")
@pytest.mark.parametrize("weeks", [1, 6])
async def test_the_last_of_some_is_the_end_of_it(post: Desk, weeks: int) -> None:
    """Also beyond the horizon, which the last one comes within only when it is due soon."""
    await post.ask("a", rrule=f"FREQ=WEEKLY;COUNT={weeks + 1}")
    await post.run_to(NOW + weeks * 7 * DAY - HOUR)
    assert await post.status("a") == "pending"
    await post.run_to(NOW + weeks * 7 * DAY)
    one = await post.get("a")
    assert (one.status, one.fired_count) == ("done", weeks + 1)


@pytest.mark.req("S-3.2")
@pytest.mark.parametrize("weeks", [1, 6])
async def test_an_end_that_is_no_occurrence_is_one(post: Desk, weeks: int) -> None:
    """Beyond the horizon nobody can tell for a while which occurrence is the last."""
    last = NOW + weeks * 7 * DAY
    await post.ask("a", rrule=f"FREQ=WEEKLY;UNTIL={last + HOUR:%Y%m%dT%H%M%SZ}")
    await post.run_to(last - HOUR)
    assert await post.status("a") == "pending"
    await post.run_to(last + (HOUR if weeks > 4 else timedelta(0)))
    one = await post.get("a")
    assert (one.status, one.fired_count) == ("done", weeks + 1)


async def test_a_second_is_the_least_that_is_left_between_two(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=SECONDLY;COUNT=3")
    await post.ask("b", rrule="every PT0.5S")
    (letter,) = post.letters()
    assert letter.headers["timebell-reason"] == "bad_rule"
    await post.run_to(NOW + 2 * SECOND)
    assert [due["scheduled_for"][14:19] for due in post.dues()] == ["00:00", "00:01", "00:02"]


async def test_without_a_start_none_lies_before_the_request(scheduler_database: TestDatabase) -> None:
    """Recurrences know whole seconds, and a request comes at any instant."""
    async with desk(scheduler_database, now=NOW + timedelta(microseconds=1)) as post:
        await post.ask("a", rrule="FREQ=MINUTELY;COUNT=1")
        one = await post.get("a")
        assert (one.start_at, one.upcoming_at) == (NOW + SECOND, NOW + SECOND)
        await post.run_to(NOW + SECOND)
        assert await post.status("a") == "done"


OUTAGE = [("fire_once", ["13:00"]), ("fire_all", ["09:00", "10:00", "11:00", "12:00", "13:00"]), ("skip", [])]


@pytest.mark.req("S-3.4")
@pytest.mark.parametrize(("misfire", "late"), OUTAGE)
async def test_after_an_outage_of_those_who_publish(post: Desk, misfire: str, late: list[str]) -> None:
    """Nobody runs for five hours: neither those who plan nor those who publish."""
    await post.ask("a", rrule="FREQ=HOURLY", misfire=misfire)
    await post.run_to(NOW)
    post.clock.move(5 * HOUR + timedelta(minutes=30))
    await post.harness.run_due()
    assert hours(post) == ["08:00", *late]
    assert (await post.get("a")).upcoming_at == NOW + 6 * HOUR
    await post.run_to(NOW + 6 * HOUR)
    assert hours(post) == ["08:00", *late, "14:00"]


@pytest.mark.req("S-3.4")
@pytest.mark.parametrize(("misfire", "late"), OUTAGE)
async def test_after_an_outage_of_the_broker(post: Desk, misfire: str, late: list[str]) -> None:
    await post.ask("a", rrule="FREQ=HOURLY", misfire=misfire)
    await post.run_to(NOW)
    post.server.block()
    await post.run_to(NOW + 5 * HOUR + timedelta(minutes=30))
    assert hours(post) == ["08:00"]
    assert await post.status("a") == "pending"
    post.server.unblock()
    await post.run_to(NOW + 6 * HOUR)
    assert hours(post) == ["08:00", *late, "14:00"]


@pytest.mark.req("S-3.4")
async def test_after_months_the_newest_is_still_fired(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=WEEKLY;COUNT=3")
    post.clock.move(120 * DAY)
    await post.harness.run_due()
    assert [due["scheduled_for"][:10] for due in post.dues()] == ["2025-07-24"]
    assert await post.status("a") == "done"


@pytest.mark.req("S-3.5")
async def test_rules_are_read_on_the_clock_of_a_place(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database, now=at("2026-03-27T12:00")) as post:
        await post.ask(
            "a",
            rrule="FREQ=DAILY",
            tz="Europe/Berlin",
            dtstart="2026-03-28T09:00:00+01:00",
        )
        await post.run_to(at("2026-03-30T12:00"))
        assert [due["scheduled_for"][:16] for due in post.dues()] == [
            "2026-03-28T08:00",
            "2026-03-29T07:00",
            "2026-03-30T07:00",
        ]
        assert [due["occurrence"] for due in post.dues()][1] == "2026-03-29T09:00:00"
        assert (await post.get("a")).start_at == at("2026-03-28T08:00")


async def test_the_two_passes_of_a_fold_have_names_of_their_own(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database, now=at("2026-10-25T00:00")) as post:
        await post.ask("a", rrule="every PT1H", tz="Europe/Berlin", dtstart="2026-10-25T00:30:00Z")
        await post.run_to(at("2026-10-25T02:30"))
        names = [due["occurrence"] for due in post.dues()]
        assert names == ["2026-10-25T02:30:00", "2026-10-25T02:30:00~2", "2026-10-25T03:30:00"]


async def test_a_start_in_the_past_is_where_it_counts_from(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=HOURLY;COUNT=3", dtstart=NOW - HOUR)
    assert (await post.get("a")).upcoming_at == NOW
    await post.run_to(NOW + DAY)
    assert hours(post) == ["08:00", "09:00"]
    assert await post.status("a") == "done"
