"""What a tenant's requests cost to list, beside one that has many more, and beside one with the same ids."""

from __future__ import annotations

import asyncpg
import pytest

from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import open_sandbox, pass_time
from tests.web.support import OTHER, Site
from tests.web.twins import Change, twin_of
from timebell.apps.scheduler import with_broker
from timebell.apps.scheduler.routes import ROUTES
from timebell.apps.scheduler.topology import topology
from timebell.brokers.local import LocalBroker
from timebell.testing.database import TestDatabase

JOBS = "/api/scheduler/jobs"
ONE = f"{JOBS}/{{id}}"
# One of each that the small tenant has, so that each is the one that is read.
IDS = ["once-1", "fired-1", "cancelled-1", "daily-1", "over-1"]
FIRST_AT = "2027-03-01T09:00:01Z"
_MARK = "UPDATE scheduler.requests SET fired_count = 77, payload = '\"of the twin\"' WHERE tenant = 'a-twin'"


async def furnish(site: Site, broker: LocalBroker) -> None:
    """Some that are to come, some that have fired, some that were cancelled, and tombstones."""
    await broker.open(topology("timebell.due"))
    for number in range(3):
        for body in (
            {"id": f"once-{number}", "at": "2031-01-01T00:00:00Z", "payload": {"n": number}},
            {"id": f"fired-{number}", "at": FIRST_AT},
            {"id": f"cancelled-{number}", "at": "2031-01-01T00:00:00Z"},
            {"id": f"daily-{number}", "rrule": "FREQ=DAILY", "dtstart": FIRST_AT},
            {"id": f"over-{number}", "rrule": "FREQ=MINUTELY;COUNT=2", "dtstart": FIRST_AT},
        ):
            response = await site.post(JOBS, body, key=OTHER)
            assert response.status_code == 201, response.text
    await pass_time(site, "PT3H")
    for number in range(3):
        response = await site.ask("DELETE", f"{JOBS}/cancelled-{number}", key=OTHER)
        assert response.status_code == 200, response.text
        assert (await site.ask("DELETE", f"{JOBS}/early-{number}", key=OTHER)).status_code == 404
    rows = (await site.get(JOBS, key=OTHER)).json()["data"]
    statuses = {row["id"]: row["status"] for row in rows}
    assert [statuses[id] for id in IDS] == ["pending", "done", "cancelled", "pending", "done"]
    assert len(rows) == 15


async def test_no_read_looks_at_the_rows_of_others(
    scheduler_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = LocalBroker()
    async with open_sandbox(scheduler_database, apps=(with_broker(broker),)) as site:
        await furnish(site, broker)
        await settle_neighbours(scheduler_database)
        large = await large_tables(scheduler_database)
        assert (
            min(large[name] for name in ("requests", "jobs", "schedules", "job_log")) > NEIGHBOUR_ROWS * 0.9
        )
        for id in IDS:
            reading = Reading(site, monkeypatch, paths={ONE: {"id": id}}, values={}, actor="")
            await reading.all(ROUTES)
            assert reading.too_far == []
            assert reading.count > 10


async def test_what_recurs_often_is_not_looked_at_as_a_whole(
    scheduler_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the wall a join may lose its index, and each of these has many hundred occurrences to come."""
    broker = LocalBroker()
    async with open_sandbox(scheduler_database, apps=(with_broker(broker),)) as site:
        await broker.open(topology("timebell.due"))
        for number in range(3):
            body = {"id": f"hourly-{number}", "rrule": "FREQ=HOURLY", "dtstart": FIRST_AT}
            assert (await site.post(JOBS, body, key=OTHER)).status_code == 201
        await pass_time(site, "PT3H")
        await _as_admin(scheduler_database, "ANALYZE")
        reading = Reading(site, monkeypatch, paths={ONE: {"id": "hourly-1"}}, values={}, actor="")
        await reading.all(ROUTES)
        row = (await site.get(f"{JOBS}/hourly-1", key=OTHER)).json()
        assert (row["fire_count"], row["next_run_at"]) == (3, "2027-03-01T12:00:01Z")
    assert reading.too_far == []


async def test_a_twin_is_neither_seen_nor_changed(scheduler_database: TestDatabase) -> None:
    broker = LocalBroker()
    async with (
        open_sandbox(scheduler_database, apps=(with_broker(broker),), has_wall=False) as site,
        twin_of(site, scheduler_database) as twin,
    ):
        await furnish(site, broker)
        asked = {"paths": {ONE: {"id": "daily-1"}}, "values": {}, "actor": ""}
        before = await twin.answers(ROUTES, **asked)  # type: ignore[arg-type]
        assert await twin.come() >= {"requests", "agendas"}
        # Its times would be told apart.
        await _as_admin(scheduler_database, _MARK)
        after = await twin.answers(ROUTES, **asked)  # type: ignore[arg-type]
        assert {name: answer for name, answer in after.items() if answer != before[name]} == {}
        changes: list[Change] = [
            ("POST", JOBS, {"id": "once-1", "at": "2032-01-01T00:00:00Z"}, None),
            ("POST", JOBS, {"id": "daily-1", "rrule": "FREQ=WEEKLY"}, None),
            ("POST", JOBS, {"id": "once-2", "rrule": "FREQ=DAILY"}, None),
            ("POST", JOBS, {"id": "new", "at": FIRST_AT}, None),
            ("DELETE", f"{JOBS}/once-0", None, None),
            ("DELETE", f"{JOBS}/daily-0", None, None),
            ("DELETE", f"{JOBS}/cancelled-0", None, None),
        ]
        await twin.is_left_alone_by(changes)


async def _as_admin(database: TestDatabase, statement: str) -> None:
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await admin.execute(statement)
    finally:
        await admin.close(timeout=10)
