"""What a person's meetings and calendars cost to list, beside a tenant that has many more."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from tests.apps.meetings.support import DAY, slot
from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import START, open_sandbox, pass_time
from tests.web.support import OTHER, Site
from tests.web.twins import Change, twin_of
from timebell.apps.meetings import APP
from timebell.testing.database import TestDatabase
from timebell.web.server.serving import routes_of

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

    ada, bob, cleo = [
        (await made(None, "/v1/recipients", {"name": name}))["id"] for name in ("Ada", "Bob", "Cleo")
    ]
    meeting = {"title": "Review", "participants": [bob], "timezone": "UTC"}
    known = []
    for day in range(2, 5):
        asked = {**meeting, "proposed_slots": [slot(START + day * DAY)]}
        first = await made(ada, "/api/meetings", asked)
        await made(bob, f"/api/meetings/{first['id']}/accept", {"slot": asked["proposed_slots"][0]})
        known.append(first["id"])
    moved = await made(
        bob,
        f"/api/meetings/{first['id']}/reschedule",
        {"proposed_slots": [slot(START + 9 * DAY), slot(START + 10 * DAY)]},
    )
    await made(bob, f"/api/meetings/{moved['id']}/holds", {"slot": slot(START + 9 * DAY)})
    hours = {"day_of_week": 4, "start_time": "09:00", "end_time": "17:00", "timezone": "UTC"}
    block = await made(ada, "/api/availability", hours)
    calendar = await made(ada, "/api/calendar-import", {"name": "Mine", "ics": ICS})
    await pass_time(site, "P3D")
    return {
        "ada": ada,
        "bob": bob,
        "cleo": cleo,
        "accepted": known[1],
        "meetings": moved["id"],
        "availability": block["id"],
        "calendar-import": calendar["id"],
    }


def asked_with(ids: Mapping[str, str]) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    """What the path of each read names, and what each parameter is asked with."""
    paths: dict[str, dict[str, object]] = {
        route.path: {"id": ids[route.path.split("/")[2]]} for route in routes_of(APP) if "{id}" in route.path
    }
    return paths, {"from": "2027-03-01T00:00:00Z", "to": "2028-03-01T00:00:00Z", "person": ids["bob"]}


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
        paths, values = asked_with(ids)
        reading = Reading(site, monkeypatch, paths=paths, values=values, actor=ids["ada"])
        await reading.all(routes)
    assert reading.too_far == []
    assert reading.count > 60


def changes_of(ids: Mapping[str, str]) -> list[Change]:
    """What people do with a meeting that was rescheduled, with another, and with their hours and calendars."""
    ada, bob = ids["ada"], ids["bob"]
    meeting, other = f"/api/meetings/{ids['meetings']}", f"/api/meetings/{ids['accepted']}"
    hours = f"/api/availability/{ids['availability']}"
    first, second = slot(START + 9 * DAY), slot(START + 10 * DAY)
    return [
        ("DELETE", f"{meeting}/holds", None, bob),
        ("POST", f"{meeting}/holds", {"slot": second}, ada),
        ("POST", f"{meeting}/participants", {"participant_id": ids["cleo"]}, bob),
        ("POST", f"{meeting}/accept", {"slot": first}, ada),
        ("DELETE", f"{meeting}/participants/{ids['cleo']}", None, bob),
        ("POST", f"{meeting}/reschedule", {"proposed_slots": [second]}, ada),
        ("POST", f"{other}/cancel", {"reason": "Settled"}, bob),
        ("PATCH", hours, {"end_time": "13:00"}, ada),
        ("DELETE", hours, None, ada),
        ("POST", "/api/calendar-feed", None, ada),
        ("POST", "/v1/clock/advance", {"by": "P12D"}, None),
        ("DELETE", f"/api/calendar-import/{ids['calendar-import']}", None, ada),
        ("PATCH", "/api/meeting-settings", {"reminder_offsets_min": [60]}, None),
        ("DELETE", f"/v1/recipients/{ada}", None, None),
        ("POST", "/v1/clock/advance", {"by": "PT1M"}, None),
    ]


async def test_a_twin_is_neither_seen_nor_changed(meetings_database: TestDatabase) -> None:
    async with (
        open_sandbox(meetings_database, apps=(APP,), has_wall=False) as site,
        twin_of(site, meetings_database) as twin,
    ):
        ids = await furnish(site)
        paths, values = asked_with(ids)

        async def seen() -> dict[str, Any]:
            answers = await twin.answers(routes_of(APP), paths=paths, values=values, actor=ids["ada"])
            suggested = {}
            # A day with a meeting of Bob's, and one with an entry in Ada's calendar.
            for person, day in (("bob", "2027-03-04"), ("ada", "2027-04-01")):
                window = {"start": f"{day}T12:00:00Z", "end": f"{day}T17:00:00Z"}
                wish = {"participants": [ids[person]], "duration": "PT1H", "window": window}
                free = await site.post("/api/meetings/suggest", wish, key=OTHER, actor=ids[person])
                suggested[day] = free.json()
            return {**answers, **suggested}

        before = await seen()
        assert await twin.come() >= {"meeting_requests", "busy", "imported_busy", "meeting_status_events"}
        after = await seen()
        assert {name: answer for name, answer in after.items() if answer != before[name]} == {}
        await twin.is_left_alone_by(changes_of(ids))
