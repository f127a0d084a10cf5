"""Somebody who is connected hears of a reminder when it is told, and finds the same in the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tests.web.notify_support import open_sandbox, pass_time, person
from tests.web.streams_support import Message, listening
from tests.web.support import Site
from timebell.apps.reminders import APP
from timebell.testing.database import TestDatabase
from timebell.web.streams.streams import Pace

STREAM = "/v1/inbox/stream"
REPORT = {
    "kind": "reminder",
    "title": "Submit report",
    "tz": "UTC",
    "start_local": "2027-03-02T09:00:00",
    "rrule": "FREQ=DAILY;COUNT=5",
    "notify_offsets_min": [60],
}


@pytest_asyncio.fixture
async def site(reminders_database: TestDatabase) -> AsyncIterator[Site]:
    async with open_sandbox(reminders_database, apps=(APP,)) as opened:
        opened.surface.streams.pace = Pace(look_seconds=0.02, check_seconds=0.0)
        yield opened
        opened.surface.stopping.set()


async def somebody(site: Site) -> UUID:
    id = UUID((await person(site))["id"])
    made = await site.post("/api/schedules", REPORT, actor=id)
    assert made.status_code == 201, made.text
    return id


async def inbox(site: Site, id: UUID, **query: str) -> list[dict[str, object]]:
    reply = await site.get("/v1/inbox", actor=id, params=query)
    assert reply.status_code == 200, reply.text
    lines: list[dict[str, object]] = reply.json()["data"]
    return sorted(lines, key=lambda line: str(line["due_at"]))


@pytest.mark.req("R-5.2")
async def test_whoever_is_connected_receives_what_is_put_into_the_inbox(site: Site) -> None:
    ada, bob = await somebody(site), UUID((await person(site, name="Bob"))["id"])
    async with listening(site, STREAM, actor=ada) as heard, listening(site, STREAM, actor=bob) as other:
        assert (await heard.next()).kind == (await other.next()).kind == "opening"
        await pass_time(site, "PT22H59M")
        assert await inbox(site, ada) == []
        await pass_time(site, "PT1M")
        (message,) = await heard.data(1)
        (line,) = await inbox(site, ada)
        assert message.data == line
        assert (line["title"], line["type"], line["due_at"]) == (
            "Submit report",
            "reminder",
            "2027-03-02T08:00:00Z",
        )
        assert isinstance(line["payload"], dict)
        assert line["payload"]["offset_minutes"] == 60
        assert {*line["payload"]} >= {"schedule_id", "occurrence_id"}
        await pass_time(site, "P1D")
        (second,) = await heard.data(1)
        assert [message.data, second.data] == await inbox(site, ada)
        assert await inbox(site, bob) == []
        assert all(each.kind == "beat" for each in queued(other.coming))


@pytest.mark.req("R-5.3", "R-7.3")
async def test_whoever_was_away_gets_what_came_meanwhile_and_nothing_twice(site: Site) -> None:
    """It counts as told, although nobody was there to hear it."""
    ada = await somebody(site)
    async with listening(site, STREAM, actor=ada) as heard:
        await pass_time(site, "PT23H")
        (first,) = await heard.data(1)
    await pass_time(site, "P3D")
    assert [each["status"] for each in await inbox(site, ada)] == ["unseen"] * 4
    assert first.id is not None
    async with listening(site, STREAM, actor=ada, headers={"last-event-id": first.id}) as heard:
        rest = await heard.data(3)
        await pass_time(site, "P1D")
        rest += await heard.data(1)
    assert [each.data for each in (first, *rest)] == await inbox(site, ada)


def queued(coming: asyncio.Queue[Message]) -> list[Message]:
    return [coming.get_nowait() for _ in range(coming.qsize())]
