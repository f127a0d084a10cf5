"""What a person's schedules and tasks cost to list, beside a tenant that has many more."""

from __future__ import annotations

import pytest

from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import open_sandbox, pass_time
from tests.web.support import OTHER
from timebell.apps.reminders import APP
from timebell.apps.reminders.routes import ROUTES
from timebell.testing.database import TestDatabase


async def test_no_read_looks_at_the_rows_of_others(
    reminders_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sandbox(reminders_database, apps=(APP,)) as site:
        person = (await site.post("/v1/recipients", {"name": "Ada"}, key=OTHER)).json()["id"]
        known = {}
        for route in ROUTES:
            if route.method == "POST" and route.path in ("/api/schedules", "/api/tasks"):
                for _ in range(3):
                    response = await site.post(route.path, dict(route.example or {}), key=OTHER, actor=person)
                    assert response.status_code == 201, response.text
                known[route.path] = response.json()["id"]
        await pass_time(site, "P8D")
        await settle_neighbours(reminders_database)
        large = await large_tables(reminders_database)
        assert min(large["tasks"], large["task_links"], large["occurrences"]) > NEIGHBOUR_ROWS * 0.9
        paths = {
            route.path: {"id": known[f"/api/{route.path.split('/')[2]}"]}
            for route in ROUTES
            if "{id}" in route.path
        }
        values = {"since": "2027-03-01T00:00:00Z", "before": "2028-03-01T00:00:00Z"}
        reading = Reading(site, monkeypatch, paths=paths, values=values, actor=person)
        await reading.all(ROUTES)
    assert reading.too_far == []
    assert reading.count > 40
