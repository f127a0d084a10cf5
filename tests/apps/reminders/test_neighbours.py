"""What a person's schedules and tasks cost to list, beside a tenant that has many more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import open_sandbox, pass_time
from tests.web.support import OTHER, Site
from tests.web.twins import Change, twin_of
from timebell.apps.reminders import APP
from timebell.apps.reminders.routes import ROUTES
from timebell.testing.database import TestDatabase

VALUES = {"since": "2027-03-01T00:00:00Z", "before": "2028-03-01T00:00:00Z"}


async def furnish(site: Site) -> tuple[str, dict[str, str]]:
    """A person with schedules and tasks; answers with the last of each by its path."""
    person = (await site.post("/v1/recipients", {"name": "Ada"}, key=OTHER)).json()["id"]
    known = {}
    for route in ROUTES:
        if route.method == "POST" and route.path in ("/api/schedules", "/api/tasks"):
            for _ in range(3):
                response = await site.post(route.path, dict(route.example or {}), key=OTHER, actor=person)
                assert response.status_code == 201, response.text
            known[route.path] = response.json()["id"]
    await pass_time(site, "P8D")
    return person, known


def paths_of(known: Mapping[str, str]) -> dict[str, dict[str, object]]:
    return {
        route.path: {"id": known[f"/api/{route.path.split('/')[2]}"]}
        for route in ROUTES
        if "{id}" in route.path
    }


async def test_no_read_looks_at_the_rows_of_others(
    reminders_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sandbox(reminders_database, apps=(APP,)) as site:
        person, known = await furnish(site)
        await settle_neighbours(reminders_database)
        large = await large_tables(reminders_database)
        assert min(large["tasks"], large["task_links"], large["occurrences"]) > NEIGHBOUR_ROWS * 0.9
        reading = Reading(site, monkeypatch, paths=paths_of(known), values=VALUES, actor=person)
        await reading.all(ROUTES)
    assert reading.too_far == []
    assert reading.count > 40


async def test_a_twin_is_neither_seen_nor_changed(reminders_database: TestDatabase) -> None:
    async with (
        open_sandbox(reminders_database, apps=(APP,), has_wall=False) as site,
        twin_of(site, reminders_database) as twin,
    ):
        person, known = await furnish(site)
        paths = paths_of(known)
        before = await twin.answers(ROUTES, paths=paths, values=VALUES, actor=person)
        assert await twin.come() >= {"tasks", "task_links", "notifications", "agendas"}
        after = await twin.answers(ROUTES, paths=paths, values=VALUES, actor=person)
        assert {name: answer for name, answer in after.items() if answer != before[name]} == {}
        schedule = f"/api/schedules/{known['/api/schedules']}"
        task = f"/api/tasks/{known['/api/tasks']}"
        changes: list[Change] = [
            ("POST", f"{task}/complete", None, person),
            ("PATCH", f"{schedule}/occurrences/2027-03-19T17:00:00", {"skip": True}, person),
            ("PATCH", schedule, {"start_local": "2027-03-05T18:00:00", "title": "Report"}, person),
            ("POST", "/api/schedule-feed", None, person),
            ("POST", "/v1/clock/advance", {"by": "P9D"}, None),
            ("DELETE", schedule, None, person),
            ("DELETE", f"/v1/recipients/{person}", None, None),
            ("POST", "/v1/clock/advance", {"by": "PT1M"}, None),
        ]
        await twin.is_left_alone_by(changes)
