"""What a person's meetings and calendars cost to list, beside a tenant that has many more."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.apps.meetings.support import DAY, slot
from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import START, open_sandbox, pass_time
from tests.web.support import OTHER, Site
from timebell.apps.meetings import APP
from timebell.testing.database import TestDatabase
from timebell.web.serving import routes_of

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//EN
BEGIN:VEVENT
UID:1
DTSTAMP:20270101T000000Z
DTSTART:20270401T100000Z
DTEND:20270401T110000Z
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n")


async def furnish(site: Site) -> dict[str, str]:
    """Meetings that were accepted, moved and held, hours and a calendar, of Ada and Bob."""
    numbers = itertools.count()

    async def made(person: str | None, path: str, body: Any) -> Any:
        once = {"idempotency-key": f"key-{next(numbers)}"}
        response = await site.post(path, body, key=OTHER, actor=person, headers=once)
        assert response.is_success, f"{path}: {response.text}"
        return response.json()

    ada, bob = [(await made(None, "/v1/recipients", {"name": name}))["id"] for name in ("Ada", "Bob")]
    meeting = {"title": "Review", "participants": [bob], "timezone": "UTC"}
    for day in range(2, 5):
        asked = {**meeting, "proposed_slots": [slot(START + day * DAY)]}
        first = await made(ada, "/api/meetings", asked)
        await made(bob, f"/api/meetings/{first['id']}/accept", {"slot": asked["proposed_slots"][0]})
    moved = await made(
        bob,
        f"/api/meetings/{first['id']}/reschedule",
        {"proposed_slots": [slot(START + 9 * DAY), slot(START + 10 * DAY)]},
    )
    await made(bob, f"/api/meetings/{moved['id']}/holds", {"slot": slot(START + 9 * DAY)})
    hours = {"day_of_week": 1, "start_time": "09:00", "end_time": "17:00", "timezone": "UTC"}
    block = await made(ada, "/api/availability", hours)
    calendar = await made(ada, "/api/calendar-import", {"name": "Mine", "ics": ICS})
    await pass_time(site, "P3D")
    return {
        "ada": ada,
        "bob": bob,
        "meetings": moved["id"],
        "availability": block["id"],
        "calendar-import": calendar["id"],
    }


async def test_no_read_looks_at_the_rows_of_others(
    meetings_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = routes_of(APP)
    async with open_sandbox(meetings_database, apps=(APP,)) as site:
        ids = await furnish(site)
        await settle_neighbours(meetings_database)
        large = await large_tables(meetings_database)
        for table in (
            "meeting_requests",
            "meeting_participants",
            "meeting_status_events",
            "busy",
            "calendar_imports",
        ):
            assert large[table] > NEIGHBOUR_ROWS * 0.9, table
        paths = {
            route.path: {"id": ids[route.path.split("/")[2]]} for route in routes if "{id}" in route.path
        }
        values = {"from": "2027-03-01T00:00:00Z", "to": "2028-03-01T00:00:00Z", "person": ids["bob"]}
        reading = Reading(site, monkeypatch, paths=paths, values=values, actor=ids["ada"])
        await reading.all(routes)
    assert reading.too_far == []
    assert reading.count > 60
