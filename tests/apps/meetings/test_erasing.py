"""A person who is erased: nothing of theirs is left, and the others go on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.apps.meetings.support import DAY, HOUR, START, Office, slot


async def erase(office: Office, person: UUID) -> None:
    response = await office.site.ask("DELETE", f"/v1/recipients/{person}", key="admin")
    assert response.status_code in (200, 204), response.text


async def names_in(office: Office, person: UUID) -> dict[str, int]:
    """In how many rows of each table the person is."""
    found = {}
    for table in ("meeting_participants", "people", "busy"):
        found[table] = await office.value(
            f"SELECT count(*) FROM meetings.{table} WHERE recipient_id = $1", person
        )
    found["jobs"] = await office.value(
        "SELECT count(*) FROM timebell.jobs WHERE payload->>'recipient' = $1", str(person)
    )
    return {table: count for table, count in found.items() if count}


async def test_a_participant_who_is_erased_leaves_what_was_to_come(office: Office) -> None:
    row = await office.accepted()
    pending = await office.propose(proposed_slots=[slot(START + DAY)])
    past = await office.propose()
    await office.transit(office.bob, past["id"], "deny", {})
    await erase(office, office.cleo)
    assert await names_in(office, office.cleo) == {}
    for id in (row["id"], pending["id"], past["id"]):
        assert (await office.get(id))["participants"] == sorted([str(office.ada), str(office.bob)])
    assert (await office.get(row["id"]))["status"] == "accepted"
    assert len(await office.reminders(row["id"], "pending")) == 6
    await office.bench.advance(to=START + HOUR)
    assert await office.told("meeting_reminder") == {"Ada": 3, "Bob": 3}
    assert (await office.get(row["id"]))["status"] == "completed"


async def test_what_an_erased_person_asked_for_is_cancelled(office: Office) -> None:
    row = await office.accepted()
    await erase(office, office.ada)
    assert await names_in(office, office.ada) == {}
    found = await office.get(row["id"], office.bob)
    assert (found["status"], found["participants"]) == (
        "cancelled",
        sorted([str(office.bob), str(office.cleo)]),
    )
    await office.bench.advance(to=START + HOUR)
    assert await office.told("meeting_cancelled") == {"Bob": 1, "Cleo": 1}
    assert await office.told("meeting_reminder") == {}


async def test_nobody_is_told_of_what_was_never_answered_and_is_over(office: Office) -> None:
    row = await office.propose(proposed_slots=[slot(), slot(START - DAY)])
    office.clock.move_to(START + HOUR)
    await erase(office, office.ada)
    assert (await office.get(row["id"], office.bob))["status"] == "cancelled"
    await office.bench.run_due()
    assert await office.told("meeting_cancelled") == {}


async def test_a_meeting_for_two_does_not_take_place_with_one(office: Office) -> None:
    row = await office.accepted(participants=[office.bob])
    await erase(office, office.bob)
    assert (await office.get(row["id"]))["status"] == "cancelled"
    await erase(office, office.ada)
    (left,) = await office.rows("SELECT title, description, location FROM meetings.meeting_requests")
    assert tuple(left) == ("", "", None), "nobody is left whom it concerns"


async def test_everything_that_is_kept_about_a_person_is_exported(office: Office) -> None:
    mine = await office.accepted(title="Mine")
    await office.propose(office.cleo, participants=[office.dan], title="Not mine")
    document: dict[str, list[dict[str, Any]]] = {}
    cursor: str | None = None
    for _ in range(20):
        params = {"limit": 1, **({} if cursor is None else {"cursor": cursor})}
        page = (await office.site.get(f"/v1/recipients/{office.bob}/export", params=params)).json()
        for section, lines in page["document"].items():
            if section != "recipient":
                document.setdefault(section, []).extend(lines)
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [*document] == ["notifications", "inbox", "meetings"]
    (line,) = document["meetings"]
    assert (line["id"], line["title"], line["is"]) == (mine["id"], "Mine", "meeting")
    (event,) = line["events"]
    assert event["to_status"] == "accepted"
