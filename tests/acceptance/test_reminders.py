"""The scenario of the source over HTTP alone, in a sandbox: a weekly task across the change of the clocks in March. And
a node that is stopped while it reminds."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import pytest
import pytest_asyncio

from tests.acceptance.conftest import Work
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import Process, clean_environment, free_port
from tests.apps.databases import template_for
from tests.apps.reminders.support import desk
from timebell.apps.reminders import APP
from timebell.testing.database import DatabaseFactory, TestDatabase

KEY = "tb_test_0123456789abcdef"
BERLIN = ZoneInfo("Europe/Berlin")
HOURS = (48, 24, 6, 3)


class Server:
    """A sandbox, called as a client of the person does."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.person: str | None = None

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.process.port}{path}"
        request = urllib.request.Request(url, data=data, method=method)
        request.add_header("authorization", f"Bearer {KEY}")
        request.add_header("content-type", "application/json")
        if self.person is not None:
            request.add_header("timebell-actor", self.person)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                text = reply.read()
                return reply.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def good(self, method: str, path: str, body: Any = None) -> Any:
        status, content = self.call(method, path, body)
        assert status in (200, 201, 204), content
        return content

    def all(self, path: str) -> list[dict[str, Any]]:
        """Every page of a list."""
        found: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(100):
            page = self.good("GET", f"{path}{'&' if '?' in path else '?'}limit=100{cursor}")
            found += page["data"]
            if not page["has_more"]:
                return found
            cursor = f"&cursor={page['next_cursor']}"
        raise AssertionError("a list without an end")

    def told(self) -> list[tuple[int, datetime]]:
        return [
            (line["payload"]["offset_minutes"], datetime.fromisoformat(line["due_at"]))
            for line in self.all("/api/notifications")
        ]

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self.good("GET", "/v1/clock")["now"])


@pytest.fixture
def server(place: Path, processes: list[Process]) -> Server:
    port = free_port()
    started = Process(
        place / "sandbox",
        *("up", "--sandbox", "--start", "2026-03-01T00:00:00Z", "--port", port, "--data", place / "data"),
        port=port,
        environment=clean_environment(TIMEBELL_API_KEY=KEY, TMPDIR=str(place)),
    )
    processes.append(started)
    started.wait_ready()
    return Server(started)


def owed(first: datetime, weeks: int, until: datetime) -> list[tuple[int, datetime]]:
    """What the person is told until an instant, from the wall clock of the place alone."""
    fridays = [(first + timedelta(weeks=n)).replace(tzinfo=BERLIN).astimezone(UTC) for n in range(weeks)]
    dues = [(hours * 60, friday - timedelta(hours=hours)) for friday in fridays for hours in HOURS]
    return [due for due in dues if due[1] <= until]


@pytest.mark.req("R-7.3", "R-6.2", "R-6.3")
def test_a_weekly_task_across_the_change_of_the_clocks(server: Server) -> None:
    server.person = server.good("POST", "/v1/recipients", {"name": "Ada", "timezone": "Europe/Berlin"})["id"]
    made = server.good(
        "POST",
        "/api/schedules",
        {
            "kind": "task",
            "title": "Submit report",
            "tz": "Europe/Berlin",
            "start_local": "2026-03-06T17:00:00",
            "rrule": "FREQ=WEEKLY",
            "muted_offsets_min": [720],
        },
    )
    path = f"/api/schedules/{made['id']}"
    server.good("POST", "/v1/clock/advance", {"by": "PT1344H"})
    assert server.told() == owed(datetime(2026, 3, 6, 17), 12, server.now)
    assert len(server.told()) == 32

    changed = server.good("PATCH", path, {"start_local": "2026-03-06T18:30:00"})
    assert changed["rev"] == 2
    assert changed["diff"]["added"]
    server.good("POST", "/v1/clock/advance", {"by": "PT336H"})
    told = server.told()
    assert told[32:] == [
        due
        for due in owed(datetime(2026, 3, 6, 18, 30), 12, server.now)
        if due[1] > told[31][1] + timedelta(days=1)
    ]
    assert max(Counter(told).values()) == 1
    tasks = server.all("/api/tasks?visible=all")
    ahead = {one["id"]: one["occurs_at"] for one in server.all(f"{path}/occurrences")}
    to_come = [task for task in tasks if datetime.fromisoformat(task["due_at"]) >= server.now]
    assert {task["occurrence_id"]: task["due_at"] for task in to_come} == ahead
    assert len(to_come) == len(ahead)

    assert server.call("DELETE", path) == (204, None)
    assert server.good("GET", path)["active"] is False
    server.good("POST", "/v1/clock/advance", {"by": "PT1344H"})
    assert server.told() == told


COUNT = 300
# What a stop may take, and how often it may be tried where others keep the machine busy.
STOP_SECONDS = 5.0
TRIES = 3
# Whoever writes into this inbox waits for us.
HOLD = "INSERT INTO timebell_notify.inbox_ends (tenant, recipient_id, last_seq) VALUES ('default', $1, 0)"
COUNTS = """
SELECT (SELECT count(*) FROM timebell_notify.inbox WHERE recipient_id = $1),
    (SELECT count(*) FROM (
        SELECT id FROM timebell_notify.inbox WHERE recipient_id = $1 UNION
        SELECT id FROM timebell.jobs WHERE payload->>'schedule_id' = $2::text
    ) AS each),
    (SELECT count(*) FROM timebell.jobs WHERE started_by IS NOT NULL),
    (SELECT count(*) FROM timebell.nodes)
"""
IS_PLANNED = "SELECT coalesce(plan_at > now(), true) FROM timebell.schedules WHERE id = $1"
IS_HELD = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))"


@pytest_asyncio.fixture
async def database(timebell_server: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    made = await timebell_server.create(template=await template_for(timebell_server, APP))
    yield made
    await timebell_server.drop(made)


async def owe(database: TestDatabase, admin: asyncpg.Connection) -> tuple[UUID, UUID]:
    """Reminders of one person that are all due, of a schedule that is to be planned on. The node that wrote them is
    gone."""
    tomorrow = datetime.now().replace(microsecond=0) + timedelta(days=1)
    async with desk(database, now=datetime.now(UTC)) as ada:
        made = await ada.create(
            kind="reminder", recurrence=f"FREQ=MINUTELY;COUNT={COUNT}", start_local=tomorrow, offsets=(0,)
        )
    await admin.execute(
        "UPDATE timebell.jobs SET run_at = now(), due_at = now() WHERE kind = 'notify.deliver'"
    )
    await admin.execute("UPDATE timebell.schedules SET plan_at = now() WHERE id = $1", made.schedule.id)
    return ada.person, made.schedule.id


async def stop_while_it_reminds(database: TestDatabase, admin: asyncpg.Connection, work: Work) -> float:
    """How long it takes a node that has planned and is telling to go, once it is asked to."""
    person, schedule_id = await owe(database, admin)
    holder = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute(HOLD, person)
        pid = holder.get_server_pid()
        node = await asyncio.to_thread(
            work,
            DATABASE_URL=database.url,
            TIMEBELL_APPS="timebell.apps.reminders",
            TIMEBELL_PLAN_SECONDS="1",
        )

        async def is_under_way() -> Any:
            return await admin.fetchval(IS_PLANNED, schedule_id) and await admin.fetchval(IS_HELD, pid)

        await until(is_under_way, 30, "a plan and a reminder that is being told")
        begun = time.monotonic()
        node.signal()
        await transaction.rollback()
        assert await asyncio.to_thread(node.wait) == 0, node.words
        seconds = time.monotonic() - begun
    finally:
        await holder.close(timeout=10)
    (counts,) = await admin.fetch(COUNTS, person, str(schedule_id))
    told, told_or_owed, begun_count, node_count = counts
    assert 0 < told < COUNT, "what was being told is finished, and nothing else is begun"
    assert (told_or_owed, begun_count, node_count) == (COUNT, 0, 0)
    return seconds


@pytest.mark.req("R-9.1")
async def test_a_node_that_is_stopped_finishes_what_it_tells_and_gives_back_the_rest(
    database: TestDatabase, work: Work
) -> None:
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        for _ in range(TRIES):
            seconds = await stop_while_it_reminds(database, admin, work)
            if seconds < STOP_SECONDS:
                break
        assert seconds < STOP_SECONDS
        # Whoever comes next tells the rest, each once.
        async with desk(database, now=datetime.now(UTC) + timedelta(minutes=1)) as later:
            await later.harness.run_due()
        occurrences = [
            row["id"]
            for row in await admin.fetch("SELECT payload->>'occurrence_id' AS id FROM timebell_notify.inbox")
        ]
        assert len(occurrences) % COUNT == 0
        assert len({*occurrences}) == len(occurrences) > 0
        assert await admin.fetchval("SELECT count(*) FROM timebell.jobs WHERE kind = 'notify.deliver'") == 0
    finally:
        await admin.close(timeout=10)
