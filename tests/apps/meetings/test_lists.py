"""What belongs to a meeting is listed as everything is: page by page, in order."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.apps.meetings.support import DAY, START, Json, Office, done, slot


async def _one_by_one(office: Office, path: str, person: UUID) -> list[Json]:
    found: list[Json] = []
    cursor: dict[str, str] = {}
    for _ in range(20):
        page = done(await office.ask(person, "GET", path, params={"limit": 1, **cursor}))
        found += page["data"]
        if not page["has_more"]:
            return found
        cursor = {"cursor": page["next_cursor"]}
    raise AssertionError("a list without an end")


@pytest.mark.req("M-1.4")
async def test_events_and_reminders_are_paged(office: Office) -> None:
    id = (await office.accepted())["id"]
    await office.reschedule(id, START + DAY)
    for part in ("events", "reminders"):
        path = f"/api/meetings/{id}/{part}"
        assert await _one_by_one(office, path, office.ada) == await office.data(path)
    events = await _one_by_one(office, f"/api/meetings/{id}/events", office.ada)
    assert [event["to_status"] for event in events] == ["accepted", "rescheduled"]


@pytest.mark.req("M-1.4")
async def test_events_are_in_the_order_in_which_they_happened(office: Office) -> None:
    """Also where a clock that ran behind wrote the second of them."""
    id = (await office.accepted())["id"]
    done(await office.transit(office.ada, id, "cancel", {}))
    await office.rows(
        "UPDATE meetings.meeting_status_events SET created_at = created_at - interval '1 day'"
        " WHERE to_status = 'cancelled'"
    )
    events = await office.data(f"/api/meetings/{id}/events")
    assert [event["to_status"] for event in events] == ["accepted", "cancelled"]


async def test_holds_are_paged(office: Office) -> None:
    times = [START, START + DAY]
    meeting = await office.propose(proposed_slots=[slot(at) for at in times])
    path = f"/api/meetings/{meeting['id']}/holds"
    for person, at in zip((office.bob, office.cleo), times, strict=True):
        done(await office.ask(person, "POST", path, {"slot": slot(at)}), 201)
    holds = await _one_by_one(office, path, office.ada)
    assert [hold["held_by"] for hold in holds] == [str(office.bob), str(office.cleo)]
