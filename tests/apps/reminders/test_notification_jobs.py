"""`notification_jobs`: what is owed, sent and taken back, under the names of the source."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.apps.reminders.support import DAY, HOUR, WEEK, Desk, desk
from timebell.notify import Unavailable
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

LOCAL = datetime(2026, 3, 6, 17, 0)
COLUMNS = {
    "id": "uuid",
    "user_id": "uuid",
    "schedule_id": "uuid",
    "occurrence_id": "uuid",
    "offset_minutes": "integer",
    "planned_send_at": "timestamp with time zone",
    "sent_at": "timestamp with time zone",
    "canceled_at": "timestamp with time zone",
    "payload": "jsonb",
}
# The schedule of somebody else, with an occurrence and a job of it.
COPY = """
WITH s AS (
    INSERT INTO timebell.schedules
    SELECT (jsonb_populate_record(
        f, jsonb_build_object('id', gen_random_uuid(), 'tenant', $1::text, 'owner', $2::text))).*
    FROM timebell.schedules f WHERE f.tenant = 'default'
    RETURNING id
), o AS (
    INSERT INTO timebell.occurrences
    SELECT (jsonb_populate_record(
        f, jsonb_build_object('id', gen_random_uuid(), 'tenant', $1::text, 'schedule_id', s.id))).*
    FROM timebell.occurrences f, s WHERE f.tenant = 'default'
    RETURNING id
)
INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, step, payload)
SELECT gen_random_uuid(), $1, j.queue, j.kind, 'occurrence:' || o.id, j.run_at, j.due_at, j.step, j.payload
FROM (SELECT * FROM timebell.jobs WHERE step = 'before-720' LIMIT 1) j, o
"""


async def lines(ada: Desk) -> list[dict[str, Any]]:
    rows = await ada.rows(
        "SELECT * FROM reminders.notification_jobs ORDER BY planned_send_at, offset_minutes"
    )
    return [dict(row) for row in rows]


async def states(ada: Desk) -> dict[int, str]:
    """By offset, of the only occurrence."""
    return {line["offset_minutes"]: state(line) for line in await lines(ada)}


def state(line: dict[str, Any]) -> str:
    assert line["sent_at"] is None or line["canceled_at"] is None, line
    return "sent" if line["sent_at"] else "canceled" if line["canceled_at"] else "owed"


async def agrees(ada: Desk) -> Counter[str]:
    """One line for an occurrence and an offset, never both sent and canceled; owed is what the kernel owes, and sent is
    what stands in the inbox."""
    found = await lines(ada)
    pairs = [(line["occurrence_id"], line["offset_minutes"]) for line in found]
    assert len(pairs) == len(set(pairs))
    owed = [(line["offset_minutes"], line["planned_send_at"]) for line in found if state(line) == "owed"]
    assert sorted(owed) == sorted(await ada.jobs())
    inbox = {line.id: line.due_at for line in await ada.inbox()}
    sent = {line["id"]: line["planned_send_at"] for line in found if state(line) == "sent"}
    assert sent.items() <= inbox.items()
    assert {line["user_id"] for line in found} <= {ada.person}
    return Counter(state(line) for line in found)


@pytest.mark.req("R-2.4")
async def test_it_has_the_columns_of_the_source(ada: Desk) -> None:
    rows = await ada.rows(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'reminders' AND table_name = 'notification_jobs'"
    )
    assert {row["column_name"]: row["data_type"] for row in rows}.items() >= COLUMNS.items()
    made = await ada.create()
    first = (await lines(ada))[0]
    (occurrence,) = await ada.occurrences(made.schedule.id)
    assert (first["user_id"], first["schedule_id"]) == (ada.person, made.schedule.id)
    assert (first["occurrence_id"], first["offset_minutes"]) == (occurrence.id, 2880)
    assert first["planned_send_at"] == occurrence.occurs_at - 48 * HOUR
    assert '"Submit report"' in first["payload"]


@pytest.mark.req("R-2.4")
async def test_each_offset_is_one_line_with_one_end(ada: Desk) -> None:
    made = await ada.create()
    assert await states(ada) == dict.fromkeys((2880, 1440, 720, 360, 180), "owed")
    await ada.harness.advance(to=datetime.fromisoformat("2026-03-05T16:00:00Z"))
    await ada.edit(made.schedule.id, muted=(720,))
    told = {2880: "sent", 1440: "sent"}
    assert await states(ada) == {**told, 720: "canceled", 360: "owed", 180: "owed"}
    muted = (await lines(ada))[2]
    assert (muted["canceled_at"], muted["sent_at"]) == (ada.clock.now, None)
    await ada.edit(made.schedule.id, muted=())
    assert await states(ada) == {**told, 720: "owed", 360: "owed", 180: "owed"}
    await ada.complete((await ada.list())[0].id)
    await ada.harness.advance(2 * DAY)
    assert await states(ada) == {**told, **dict.fromkeys((720, 360, 180), "canceled")}
    assert [line["sent_at"] for line in await lines(ada)][:2] == [
        line["planned_send_at"] for line in await lines(ada)
    ][:2]


@pytest.mark.req("R-2.4")
async def test_whatever_is_edited_it_says_what_is_owed_and_what_was_told(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY", offsets=(1440, 60, 0))
    id = made.schedule.id
    assert await agrees(ada) == {"owed": 27}
    await ada.harness.advance(to=datetime.fromisoformat("2026-03-06T16:00:00Z"))
    assert (await agrees(ada))["sent"] == 3
    await ada.edit(id, muted=(60,))
    assert (await agrees(ada))["canceled"] > 0
    await ada.move(id, LOCAL + WEEK, LOCAL + WEEK + HOUR)
    await agrees(ada)
    await ada.harness.advance(WEEK)
    await ada.edit(id, muted=())
    await ada.skip(id, LOCAL + 2 * WEEK)
    await agrees(ada)
    await ada.harness.advance(to=datetime.fromisoformat("2026-03-27T15:30:00Z"))
    # It was told an hour before, and is to take place a day later.
    await ada.move(id, LOCAL + 3 * WEEK, LOCAL + 3 * WEEK + DAY)
    await agrees(ada)
    await ada.end(id)
    ended = await agrees(ada)
    assert ended["owed"] == 0
    assert ended["sent"] >= 5


@pytest.mark.req("R-2.4", "X-R1")
async def test_it_is_sent_once_it_is_in_the_inbox_though_a_mail_is_still_tried(
    reminders_database: TestDatabase,
) -> None:
    provider = RecordingProvider()
    provider.answer(Unavailable(reason="busy"))
    async with desk(reminders_database, [provider], email="ada@example.com") as ada:
        await ada.create(kind="reminder", offsets=(0,))
        at = datetime.fromisoformat("2026-03-06T16:00:00Z")
        await ada.harness.advance(to=at)
        (line,) = await lines(ada)
        assert (line["planned_send_at"], line["sent_at"], line["canceled_at"]) == (at, at, None)
        assert len(await ada.jobs()) == 1, "the mail is owed"
        await ada.harness.advance(HOUR)
        assert [line["sent_at"] for line in await lines(ada)] == [at]
        assert await ada.jobs() == []


@pytest.mark.req("R-2.4")
async def test_nobody_sees_more_of_it_than_of_what_it_shows(ada: Desk) -> None:
    """Neither is it broken by schedules of others whose owner looks like one of this app."""
    await ada.create()
    for tenant, owner in (("other", f"reminders:{UUID(int=7)}"), ("default", "reminders:nobody")):
        await ada.rows(COPY, tenant, owner)
    connections = [
        await asyncpg.connect(url, timeout=10) for url in (ada.database.api_url, ada.database.read_url)
    ]
    api, reader = connections
    count = "SELECT count(*) FROM reminders.notification_jobs"
    try:
        assert await reader.fetchval(count) == 6
        for tenant, seen in (("default", 5), ("other", 1), ("", 0)):
            async with api.transaction():
                await api.execute("SELECT set_config('timebell.tenant', $1, true)", tenant)
                assert await api.fetchval(count) == seen, tenant
    finally:
        for connection in connections:
            await connection.close(timeout=10)
