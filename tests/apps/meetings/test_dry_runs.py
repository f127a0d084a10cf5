"""What a change would mean is answered before it is made, and what it meant afterwards: who is reminded, and when."""

from __future__ import annotations

from typing import Any

from tests.apps.meetings.support import DAY, HOUR, MINUTE, START, Json, Office, done, slot
from tests.web.support import problem

DRY = {"dry_run": "true"}
# Kept aside: a dry run makes ids and times of its own.
MADE = ("id", "created_at", "updated_at")


def without_made(row: Json) -> Json:
    return {name: value for name, value in row.items() if name not in MADE}


def counted(row: Json) -> dict[str, int]:
    return {name: len(changes) for name, changes in row["diff"].items() if changes}


async def tried(
    office: Office, person: Any, method: str, path: str, json: Any = None, status: int = 200
) -> Json:
    """The answer to a dry run, which leaves everything as it was."""
    before = await office.effects()
    row = done(await office.ask(person, method, path, json, params=DRY), status)
    assert await office.effects() == before
    return row


async def test_a_dry_run_answers_as_the_change_itself_and_keeps_nothing(office: Office) -> None:
    """Through the life of a meeting, each change is tried first."""
    new = {
        "title": "Review",
        "participants": [str(office.bob)],
        "timezone": "Europe/Berlin",
        "proposed_slots": [slot()],
    }
    dry = await tried(office, office.ada, "POST", "/api/meetings", new, 201)
    made = done(await office.ask(office.ada, "POST", "/api/meetings", new), 201)
    assert without_made(dry) == without_made(made)
    path = f"/api/meetings/{made['id']}"
    held = await tried(office, office.ada, "POST", f"{path}/holds", {"slot": slot()}, 201)
    assert held["slot"] == {"start": "2027-03-05T09:00:00Z", "end": "2027-03-05T10:00:00Z"}
    steps: list[tuple[Any, str, str, Any, dict[str, int]]] = [
        (office.bob, "POST", "accept", {"slot": slot()}, {"added": 6}),
        (office.ada, "POST", "participants", {"participant_id": str(office.cleo)}, {"kept": 6, "added": 3}),
        (office.ada, "DELETE", f"participants/{office.cleo}", None, {"kept": 6, "withdrawn": 3}),
        (office.bob, "POST", "reschedule", {"proposed_slots": [slot(START + DAY)]}, {"withdrawn": 6}),
    ]
    for person, method, verb, body, diff in steps:
        dry = await tried(office, person, method, f"{path}/{verb}", body)
        made = done(await office.ask(person, method, f"{path}/{verb}", body))
        assert without_made(dry) == without_made(made), verb
        assert counted(made) == diff, verb
    path = f"/api/meetings/{made['id']}"
    for verb in ("deny", "cancel"):
        assert counted(await tried(office, office.ada, "POST", f"{path}/{verb}", {})) == {}


async def test_the_difference_names_who_is_reminded_when(office: Office) -> None:
    start = START.replace(day=2, hour=7)
    row = await office.propose(participants=[office.bob], proposed_slots=[slot(start)])
    body = {"slot": slot(start)}
    dry = await tried(office, office.bob, "POST", f"/api/meetings/{row['id']}/accept", body)
    told = {
        (type, person, at)
        for person in (str(office.ada), str(office.bob))
        for type, at in (("1h_before", start - HOUR), ("15m_before", start - 15 * MINUTE))
    }
    assert {
        (one["reminder_type"], one["recipient_id"], office.clock.now.fromisoformat(one["scheduled_at"]))
        for one in dry["diff"]["added"]
    } == told
    assert {one["reminder_type"] for one in dry["diff"]["skipped"]} == {"24h_before"}
    await office.accept(row["id"], at=start)
    kept = {(one["reminder_type"], one["recipient_id"]) for one in await office.reminders(row["id"])}
    assert kept == {(type, person) for type, person, _ in told}


async def test_a_dry_run_is_refused_as_the_change_would_be(office: Office) -> None:
    row = await office.accepted()
    other = await office.propose(office.cleo, participants=[office.bob])
    before = await office.effects()
    accept = f"/api/meetings/{other['id']}/accept"
    taken = await office.ask(office.bob, "POST", accept, {"slot": slot()}, params=DRY)
    assert problem(taken, 409, "slot_conflict")["next_free"]
    deny = await office.ask(office.bob, "POST", f"/api/meetings/{row['id']}/deny", {}, params=DRY)
    problem(deny, 409, "meeting_status")
    assert await office.effects() == before
    settings = await office.site.ask("PATCH", "/api/meeting-settings?dry_run=true", json={}, key="admin")
    problem(settings, 422, "invalid_input")
