"""`timebell.client` for messages that are to be published, as they are served; and what receivers know them by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, get_type_hints

import asyncpg
import psycopg
import pytest

from tests.apps.scheduler.support import DAY, DUE_QUEUE, HOUR, NOW, Desk, desk
from tests.apps.scheduler.test_routes import STRANGE_IDS
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from tests.web.support import Site, open_site
from tests.web.test_client import client_of, required_of, schema_of
from timebell.apps.scheduler import with_broker
from timebell.brokers import Message
from timebell.brokers.local_server import ARRIVES, Fate
from timebell.client import Refused
from timebell.client.dedupe import Due, dedupe
from timebell.client.scheduler import NewScheduledJob, ScheduledJob
from timebell.testing.database import TestDatabase

PAGE = list(blocks((ROOT / "docs" / "reference" / "client.md").read_text(encoding="utf-8")))
[TABLE] = [block.code for block in PAGE if block.language == "sql"]
OCCURRENCES = [NOW + HOUR + day * DAY for day in range(3)]
ASYNCPG, PSYCOPG = [block.code for block in PAGE if "def receive" in block.code]


@asynccontextmanager
async def opened(database: TestDatabase) -> AsyncIterator[tuple[Site, Desk]]:
    async with (
        desk(database) as post,
        open_site(database, apps=(with_broker(post.broker),), clock=post.clock) as site,
    ):
        yield site, post


async def test_a_job_from_the_asking_to_the_end(scheduler_database: TestDatabase) -> None:
    async with opened(scheduler_database) as (site, post), client_of(site, is_forgetful=True) as client:
        made = await client.scheduler.request("a/b", at=NOW + HOUR, payload={"n": 7})
        assert (made.id, made.status, made.next_run_at) == ("a/b", "pending", NOW + HOUR)
        later = await client.scheduler.request("a/b", at=NOW + 2 * HOUR, payload={"n": 7})
        assert later.next_run_at == NOW + 2 * HOUR
        again = await client.scheduler.request(
            "r", rrule="FREQ=DAILY", dtstart=NOW + HOUR, tz="Europe/Berlin"
        )
        assert again.misfire == "fire_once"
        await post.run_to(NOW + 3 * HOUR)
        assert (await client.scheduler.get("a/b")).status == "done"
        assert [job.id async for job in client.scheduler.list()] == ["a/b", "r"]
        assert [job.id async for job in client.scheduler.list(status="pending")] == ["r"]
        cancelled = await client.scheduler.cancel("r")
        assert cancelled is not None
        assert (cancelled.status, cancelled.fire_count) == ("cancelled", 1)
        assert await client.scheduler.cancel("nobodys") is None
        with pytest.raises(Refused, match="409 job_done") as refused:
            await client.scheduler.cancel("a/b")
        assert refused.value.content["job"]["status"] == "done"
        with pytest.raises(Refused, match="409 job_cancelled"):
            await client.scheduler.request("nobodys", at=NOW)
        with pytest.raises(Refused, match="404"):
            await client.scheduler.get("nobodys")
    assert post.counted("jobs_queued") == 0
    assert site.surface.bell.tallies.counted["jobs_queued"][()] == 2


async def test_ids_of_every_kind(scheduler_database: TestDatabase) -> None:
    async with opened(scheduler_database) as (site, _), client_of(site) as client:
        for id in STRANGE_IDS:
            assert (await client.scheduler.request(id, at=NOW + HOUR)).id == id
            assert (await client.scheduler.get(id)).id == id
            cancelled = await client.scheduler.cancel(id)
            assert cancelled is not None
            assert cancelled.id == id


async def test_the_records_are_what_is_served(scheduler_database: TestDatabase) -> None:
    async with open_site(scheduler_database, apps=(with_broker(None),)) as site:
        document = (await site.get("/openapi.json", key=None)).json()
    jobs, one = document["paths"]["/api/scheduler/jobs"], document["paths"]["/api/scheduler/jobs/{id}"]
    for part in (
        jobs["post"]["responses"]["201"],
        jobs["post"]["responses"]["200"],
        one["get"]["responses"]["200"],
    ):
        assert set(ScheduledJob.model_fields) == set(schema_of(document, part)["properties"])
    body = schema_of(document, jobs["post"]["requestBody"])
    assert set(get_type_hints(NewScheduledJob)) == set(body["properties"])
    assert required_of(NewScheduledJob) == set(body["required"])
    [id] = [each for each in one["delete"]["parameters"] if each["name"] == "id"]
    assert id["schema"].get("format") is None
    assert jobs["post"]["responses"]["201"]["links"].keys() == {"get_scheduled_job", "cancel_scheduled_job"}


async def sent(database: TestDatabase) -> Sequence[bytes]:
    """Three occurrences, of which the second came to the broker twice: its first confirm was lost."""
    async with desk(database) as post:
        published = 0

        def fate(message: Message) -> Fate:
            nonlocal published
            published += 1
            return Fate(sort="lose_confirm") if published == 2 else ARRIVES

        await post.ask("daily", rrule="FREQ=DAILY;COUNT=3", dtstart=NOW + HOUR, payload={"n": 7})
        post.server.fate = fate
        await post.run_to(NOW + 3 * DAY)
        return [one.body for one in post.server.messages(DUE_QUEUE)]


def receiver_of(code: str) -> Any:
    names: dict[str, Any] = {"dedupe": dedupe}
    exec(code, names)
    return names["receive"]


@pytest.mark.req("S-5.2")
async def test_a_receiver_marks_in_the_transaction_of_its_effect(scheduler_database: TestDatabase) -> None:
    """Four messages for three occurrences; where the effect fails, the mark is gone with it."""
    messages = await sent(scheduler_database)
    assert len(messages) == 4
    receive = receiver_of(ASYNCPG)
    connection = await asyncpg.connect(scheduler_database.admin_url, timeout=10)

    async def effect(connection: Any, due: Due) -> None:
        await connection.execute("INSERT INTO effects VALUES ($1)", due.scheduled_for)

    async def failing(connection: Any, due: Due) -> None:
        await effect(connection, due)
        raise RuntimeError("its effect failed")

    try:
        await connection.execute(f"{TABLE}; CREATE TABLE effects (at timestamptz)")
        with pytest.raises(RuntimeError, match="its effect failed"):
            await receive(connection, messages[1], failing)
        for body in messages:
            await receive(connection, body, effect)
        found = await connection.fetch("SELECT at FROM effects ORDER BY 1")
    finally:
        await connection.close(timeout=10)
    assert [row["at"] for row in found] == OCCURRENCES


async def test_a_receiver_that_does_not_await_does_the_same(scheduler_database: TestDatabase) -> None:
    messages = await sent(scheduler_database)
    receive = receiver_of(PSYCOPG)
    passed: list[Due] = []

    def receive_all() -> None:
        with psycopg.connect(scheduler_database.admin_url, connect_timeout=10) as connection:
            connection.execute(TABLE.encode())
            for body in messages:
                receive(connection, body, lambda _, due: passed.append(due))

    await asyncio.to_thread(receive_all)
    assert [due.scheduled_for for due in passed] == OCCURRENCES
    assert {due.payload["n"] for due in passed} == {7}
    assert len({due.occurrence for due in passed}) == 3
