"""What becomes of meetings, as clients see it: each transition in each state, and what it writes and tells."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args
from uuid import UUID, uuid4

import orjson
import pytest

from tests.apps.meetings.support import DAY, HOUR, START, Json, Office, audited, done, open_office, slot
from tests.web.support import OTHER, problem
from timebell.apps.meetings.models import PARTICIPANTS_MAX, Status, Transition
from timebell.apps.meetings.rules import TO
from timebell.db.pool import Limits
from timebell.testing.database import TestDatabase

LEGAL = {
    "pending": {"accept", "deny", "reschedule", "cancel"},
    "accepted": {"reschedule", "cancel", "complete"},
}
BODIES: dict[str, Any] = {
    "accept": {"slot": slot()},
    "deny": {"reason": "On leave"},
    "reschedule": {"proposed_slots": [slot(START + DAY)], "reason": "Train strike"},
    "cancel": {"reason": "Settled by mail"},
    "complete": None,
}
WAYS: dict[Status, list[Transition]] = {
    "pending": [],
    "accepted": ["accept"],
    "denied": ["deny"],
    "rescheduled": ["reschedule"],
    "cancelled": ["cancel"],
    "completed": ["accept", "complete"],
}


async def brought_to(office: Office, status: Status) -> str:
    id: str = (await office.propose())["id"]
    for verb in WAYS[status]:
        done(await office.transit(office.bob, id, verb, BODIES[verb]))
    assert (await office.get(id))["status"] == status
    return id


def revision_of(effects: Json, id: str) -> int:
    revisions: dict[str, int] = {str(each): revision for each, _, revision, _ in effects["meetings"]}
    return revisions[id]


@pytest.mark.req("M-1.1", "M-6.1", "X-M17")
async def test_a_meeting_begins_pending_and_its_requester_takes_part(office: Office) -> None:
    given = {
        "location": "Room 4",
        "description": "All figures",
        "proposed_slots": [slot(), slot(START + DAY)],
    }
    response = await office.ask(
        office.ada,
        "POST",
        "/api/meetings",
        {"title": "Review", "participants": [str(office.bob)], "timezone": "Europe/Berlin", **given},
    )
    row = done(response, 201)
    assert (
        row | {"title": "Review", "status": "pending", "location": "Room 4", "description": "All figures"}
        == row
    )
    assert row["participants"] == sorted([str(office.ada), str(office.bob)])
    assert (row["requester_id"], row["accepted_slot"], row["parent_meeting_id"]) == (
        str(office.ada),
        None,
        None,
    )
    assert row["proposed_slots"][0] == {"start": "2027-03-05T09:00:00Z", "end": "2027-03-05T10:00:00Z"}
    assert response.headers["etag"] == '"rev-1"'
    assert await office.get(row["id"], office.bob) == row
    await office.bench.run_due()
    assert await office.told("meeting_proposed") == {"Bob": 1}


@pytest.mark.req("M-6.1", "M-6.2", "X-M17")
@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"timezone": "Mars/Base"}, "/timezone"),
        (
            {"proposed_slots": [{"start": "2026-03-29T02:30:00", "end": "2027-03-29T04:30:00Z"}]},
            "/proposed_slots",
        ),
        ({"proposed_slots": []}, "/proposed_slots"),
        ({"proposed_slots": [slot()] * 21}, "/proposed_slots"),
        ({"proposed_slots": [slot(length=-HOUR)]}, "/proposed_slots"),
        ({"proposed_slots": [slot(length=0 * HOUR)]}, "/proposed_slots"),
        ({"participants": []}, "/participants"),
        ({"participants": [str(uuid4())]}, "/participants"),
        ({"title": " "}, "/title"),
        ({"title": "x" * 201}, "/title"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_name(office: Office, given: Json, pointer: str) -> None:
    said = {
        "title": "Review",
        "participants": [str(office.bob)],
        "timezone": "UTC",
        "proposed_slots": [slot()],
    }
    refused = problem(
        await office.ask(office.ada, "POST", "/api/meetings", {**said, **given}), 422, _code(pointer)
    )
    assert refused["errors"][0]["pointer"].startswith(pointer)
    assert await office.data("/api/meetings") == []


def _code(pointer: str) -> str:
    return "unknown_timezone" if pointer == "/timezone" else "invalid_input"


@pytest.mark.req("M-6.1", "M-6.2")
async def test_an_instant_is_stored_whatever_offset_it_came_with(office: Office) -> None:
    row = await office.propose(
        proposed_slots=[{"start": "2027-03-29T02:30:00+05:30", "end": "2027-03-28T22:00:00-00:00"}]
    )
    assert row["proposed_slots"] == [{"start": "2027-03-28T21:00:00Z", "end": "2027-03-28T22:00:00Z"}]


STORED = """
SELECT extract(epoch FROM m.accepted_start)::bigint AS start, extract(epoch FROM m.accepted_end)::bigint AS end,
    (SELECT extract(epoch FROM (m.proposed_slots->0->>'start')::timestamptz)::bigint) AS proposed,
    (SELECT array_agg(DISTINCT extract(epoch FROM lower(b.during))::bigint) FROM meetings.busy b) AS busy,
    (SELECT array_agg(DISTINCT extract(epoch FROM j.due_at)::bigint ORDER BY extract(epoch FROM j.due_at)::bigint)
        FROM timebell.jobs j WHERE j.step LIKE '%before%') AS reminders
FROM meetings.meeting_requests m
"""


@pytest.mark.req("M-6.1")
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"])
async def test_an_instant_is_stored_whatever_timezone_the_sessions_have(
    meetings_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """The slot begins as clocks in Berlin go forward, which they do on other days elsewhere."""
    ours = Limits.server_settings
    monkeypatch.setattr(Limits, "server_settings", lambda self: {**ours(self), "timezone": zone})
    begin, end = "2027-03-28T02:00:00+01:00", "2027-03-28T04:00:00+02:00"
    async with open_office(meetings_database) as office:
        async with office.bench.bell.transaction() as tx:
            assert await tx.connection.fetchval("SHOW timezone") == zone
        row = await office.accepted(proposed_slots=[{"start": begin, "end": end}])
        assert row["accepted_slot"] == {"start": "2027-03-28T01:00:00Z", "end": "2027-03-28T02:00:00Z"}
        assert (await office.get(row["id"]))["proposed_slots"] == [row["accepted_slot"]]
        at = int(datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp())
        (stored,) = await office.rows(STORED)
        assert dict(stored) == {
            "start": at,
            "end": at + 3600,
            "proposed": at,
            "busy": [at],
            "reminders": [at - 86_400, at - 3600, at - 900],
        }
        told = {one["scheduled_at"] for one in await office.reminders(row["id"])}
        assert told == {"2027-03-27T01:00:00Z", "2027-03-28T00:00:00Z", "2027-03-28T00:45:00Z"}
        around = {"from": "2027-03-28T01:59:59Z", "to": "2027-03-28T03:00:00Z"}
        assert [one["id"] for one in await office.data("/api/meetings", params=around)] == [row["id"]]
        later = {"from": "2027-03-28T02:00:00Z", "to": "2027-03-28T03:00:00Z"}
        assert await office.data("/api/meetings", params=later) == []


@pytest.mark.req("M-1.2", "M-4.1", "M-3.1", "X-M5")
@pytest.mark.parametrize("status", get_args(Status))
async def test_of_five_transitions_in_each_state_those_are_done_that_may_be(
    office: Office, status: Status
) -> None:
    """Seven of the thirty are done and audited, and raise the revision; the others are 409 and leave nothing behind."""
    for verb in get_args(Transition):
        id = await brought_to(office, status)
        before = await office.effects()
        response = await office.transit(office.bob, id, verb, BODIES[verb])
        if verb in LEGAL.get(status, ()):
            assert response.status_code == 200, response.text
            assert (await office.data(f"/api/meetings/{id}/events"))[-1]["from_status"] == status
            assert await audited(office, id, f"meeting.{TO[verb]}") == [f"recipient:{office.bob}"]
            assert revision_of(await office.effects(), id) == revision_of(before, id) + 1
        else:
            assert problem(response, 409, "meeting_status")["meeting_status"] == status
            assert await office.effects() == before
        # Others of these may be at the same time.
        await office.transit(office.bob, id, "cancel", {})


@pytest.mark.req("M-2.1", "X-M13")
@pytest.mark.parametrize("verb", get_args(Transition))
async def test_who_takes_no_part_is_refused_before_the_state_is_looked_at(office: Office, verb: str) -> None:
    id = await brought_to(office, "cancelled")
    before = await office.effects()
    problem(await office.transit(office.dan, id, verb, BODIES[verb]), 403, "not_a_participant")
    problem(await office.transit(office.dan, str(uuid4()), verb, BODIES[verb]), 404, "not_found")
    assert await office.effects() == before
    problem(await office.ask(office.dan, "GET", f"/api/meetings/{id}"), 404, "not_found")


@pytest.mark.req("M-2.1", "M-2.3", "M-2.6", "M-1.4")
async def test_accepting_tells_everybody_and_is_written_down(office: Office) -> None:
    meeting = await office.propose()
    row = await office.accept(meeting["id"])
    assert (row["status"], row["accepted_slot"]) == ("accepted", meeting["proposed_slots"][0])
    (event,) = await office.data(f"/api/meetings/{row['id']}/events")
    assert (event["from_status"], event["to_status"]) == ("pending", "accepted")
    assert (event["actor"], event["reason"]) == (f"recipient:{office.bob}", None)
    audit = await office.rows(
        "SELECT action, actor FROM meetings.audit_events WHERE meeting_id = $1 ORDER BY created_at, action",
        UUID(row["id"]),
    )
    assert [tuple(one) for one in audit] == [
        ("meeting.accepted", f"recipient:{office.bob}"),
        ("meeting.proposed", f"recipient:{office.ada}"),
    ]
    await office.bench.run_due()
    await office.bench.run_due()
    assert await office.told("meeting_accepted") == {"Ada": 1, "Bob": 1, "Cleo": 1}


@pytest.mark.req("M-2.1", "X-M13", "X-M18")
async def test_what_cannot_be_accepted(office: Office) -> None:
    id = (await office.propose(proposed_slots=[slot(), slot(START + DAY)]))["id"]
    before = await office.effects()
    problem(await office.transit(office.ada, id, "accept", {"slot": slot()}), 403, "own_proposal")
    for wrong in (slot(START + HOUR), slot(length=2 * HOUR), slot(length=-HOUR)):
        problem(await office.transit(office.bob, id, "accept", {"slot": wrong}), 422, "invalid_input")
    problem(await office.transit(office.bob, id, "accept", {}), 422, "invalid_input")
    office.clock.move_to(START)
    refused = problem(await office.transit(office.bob, id, "accept", {"slot": slot()}), 422, "invalid_input")
    assert "has begun" in refused["detail"]
    assert await office.effects() == before
    await office.accept(id, office.cleo, START + DAY)


@pytest.mark.req("M-2.1")
async def test_the_first_who_accepts_decides_for_all(office: Office) -> None:
    id = (await office.propose())["id"]
    await office.accept(id, office.cleo)
    problem(await office.transit(office.bob, id, "accept", {"slot": slot()}), 409, "meeting_status")


@pytest.mark.req("M-3.1", "M-3.2", "M-3.3")
async def test_denying_tells_the_requester_and_nobody_else(office: Office) -> None:
    id = (await office.propose(participants=[office.bob, office.cleo, office.dan]))["id"]
    row = done(await office.transit(office.cleo, id, "deny", {"reason": "On leave"}))
    assert row["status"] == "denied"
    (event,) = await office.data(f"/api/meetings/{id}/events")
    assert (event["to_status"], event["reason"]) == ("denied", "On leave")
    await office.bench.run_due()
    assert await office.told("meeting_denied") == {"Ada": 1}
    (line,) = [line for line in await office.inbox(office.ada) if line.type == "meeting_denied"]
    assert line.description == "Cleo denied the meeting. On leave"


@pytest.mark.req("M-3.4", "X-M2")
async def test_denying_withdraws_whatever_was_owed(office: Office) -> None:
    """Nothing is owed about a meeting that is pending, unless somebody put it there."""
    id = (await office.propose())["id"]
    template = await office.accepted(proposed_slots=[slot(START + DAY)])
    await office.rows(
        "UPDATE timebell.jobs SET subject = $1 WHERE subject = $2 AND step LIKE '%_before:%'",
        f"meeting:{id}",
        f"meeting:{template['id']}",
    )
    assert len(await office.reminders(id, "pending")) == 9
    done(await office.transit(office.bob, id, "deny", {}))
    assert len(await office.reminders(id, "cancelled")) == 9


@pytest.mark.req("M-4.2", "M-4.3", "M-4.4", "M-1.3", "X-M6")
async def test_rescheduling_puts_another_in_its_place(office: Office) -> None:
    old = await office.accepted(location="Room 4")
    child = await office.reschedule(old["id"], START + DAY, START + 2 * DAY, reason="Train strike")
    assert (child["status"], child["parent_meeting_id"]) == ("pending", old["id"])
    assert child["requester_id"] == str(office.bob)
    for name in ("participants", "timezone", "title", "location"):
        assert child[name] == old[name]
    assert len(child["proposed_slots"]) == 2
    assert (await office.get(old["id"]))["status"] == "rescheduled"
    assert len(await office.reminders(old["id"], "cancelled")) == 9
    assert await office.reminders(child["id"]) == []
    (event,) = await office.rows("SELECT * FROM meetings.meeting_reschedule_events")
    assert [str(event[name]) for name in ("original_meeting_id", "new_meeting_id", "reason")] == [
        old["id"],
        child["id"],
        "Train strike",
    ]
    assert orjson.loads(event["new_slots"]) == [slot(START + DAY), slot(START + 2 * DAY)]
    assert await office.value("SELECT count(*) FROM meetings.busy") == 0
    await office.bench.run_due()
    assert await office.told("meeting_rescheduled") == {"Ada": 1, "Bob": 1, "Cleo": 1}
    # Whoever rescheduled has proposed, and is answered by another.
    problem(
        await office.transit(office.bob, child["id"], "accept", {"slot": slot(START + DAY)}),
        403,
        "own_proposal",
    )
    await office.accept(child["id"], office.ada, START + DAY)
    assert len(await office.reminders(child["id"], "pending")) == 9


@pytest.mark.req("M-1.3", "M-1.4")
async def test_three_times_in_a_row_it_is_one_lineage(office: Office) -> None:
    rows = [await office.propose()]
    for days in (1, 2, 3):
        rows.append(await office.reschedule(rows[-1]["id"], START + days * DAY))
    ids = [row["id"] for row in rows]
    for end in (ids[0], ids[-1], ids[1]):
        lineage = await office.data(f"/api/meetings/{end}/lineage")
        assert [row["id"] for row in lineage] == ids
        assert [row["parent_meeting_id"] for row in lineage] == [None, *ids[:-1]]
        assert [row["status"] for row in lineage] == ["rescheduled"] * 3 + ["pending"]
    problem(await office.ask(office.dan, "GET", f"/api/meetings/{ids[0]}/lineage"), 404, "not_found")
    found = await office.rows("SELECT DISTINCT root_id FROM meetings.meeting_requests")
    assert [str(row["root_id"]) for row in found] == [ids[0]]
    sequences = await office.rows("SELECT sequence FROM meetings.meeting_requests ORDER BY id")
    assert [row["sequence"] for row in sequences] == [1, 2, 3, 3]


@pytest.mark.req("M-1.4")
async def test_each_meeting_has_its_own_history(office: Office) -> None:
    old = await office.accepted()
    child = await office.reschedule(old["id"], START + DAY)
    events = await office.data(f"/api/meetings/{old['id']}/events")
    assert [(one["from_status"], one["to_status"]) for one in events] == [
        ("pending", "accepted"),
        ("accepted", "rescheduled"),
    ]
    assert await office.data(f"/api/meetings/{child['id']}/events") == []


@pytest.mark.req("M-1.6", "X-M3")
async def test_cancelling_withdraws_reminders_and_tells_everybody_once(office: Office) -> None:
    row = await office.accepted(participants=[office.bob])
    assert len(await office.reminders(row["id"], "pending")) == 6
    cancelled = done(await office.transit(office.ada, row["id"], "cancel", {"reason": "Settled"}))
    assert cancelled["status"] == "cancelled"
    assert len(await office.reminders(row["id"], "cancelled")) == 6
    assert (await office.data(f"/api/meetings/{row['id']}/events"))[-1]["reason"] == "Settled"
    await office.bench.advance(7 * DAY)
    assert await office.told("meeting_cancelled") == {"Ada": 1, "Bob": 1}
    assert await office.told("meeting_reminder") == {}
    assert (await office.get(row["id"]))["status"] == "cancelled"


@pytest.mark.req("M-1.7", "X-M4")
async def test_a_meeting_is_completed_at_the_end_of_its_slot(office: Office) -> None:
    id = (await office.accepted())["id"]
    await office.bench.advance(to=START + HOUR)
    assert (await office.get(id))["status"] == "completed"
    event = (await office.data(f"/api/meetings/{id}/events"))[-1]
    assert (event["to_status"], event["actor"], event["created_at"]) == (
        "completed",
        "meetings",
        "2027-03-05T10:00:00Z",
    )
    await office.bench.advance(DAY)
    assert len(await office.data(f"/api/meetings/{id}/events")) == 2
    actions = await office.rows("SELECT action FROM meetings.audit_events WHERE action = 'meeting.completed'")
    assert len(actions) == 1


@pytest.mark.req("M-1.7")
async def test_a_meeting_may_be_completed_before_and_is_not_again(office: Office) -> None:
    id = (await office.accepted())["id"]
    done(await office.transit(office.cleo, id, "complete"))
    assert len(await office.reminders(id, "cancelled")) == 9
    await office.bench.advance(7 * DAY)
    assert len(await office.data(f"/api/meetings/{id}/events")) == 2
    assert await office.told("meeting_reminder") == {}


@pytest.mark.req("M-1.7")
async def test_what_was_rescheduled_is_never_completed(office: Office) -> None:
    id = (await office.accepted())["id"]
    await office.bench.advance(to=START)
    await office.reschedule(id, START + DAY)
    await office.bench.advance(to=START + HOUR)
    assert (await office.get(id))["status"] == "rescheduled"


async def test_a_revision_is_compared_where_one_is_named(office: Office) -> None:
    id = (await office.propose())["id"]
    stale = await office.transit(office.bob, id, "accept", {"slot": slot()}, headers={"if-match": '"rev-7"'})
    problem(stale, 412, "revision_conflict")
    accepted = await office.transit(
        office.bob, id, "accept", {"slot": slot()}, headers={"if-match": '"rev-1"'}
    )
    assert (done(accepted)["status"], accepted.headers["etag"]) == ("accepted", '"rev-2"')
    stale = await office.transit(office.bob, id, "cancel", {}, headers={"if-match": '"rev-1"'})
    problem(stale, 412, "revision_conflict")


async def test_lists_are_of_those_who_take_part_and_can_be_narrowed(office: Office) -> None:
    first = await office.accepted(participants=[office.bob])
    second = await office.propose(proposed_slots=[slot(START + 30 * DAY), slot(START + 60 * DAY)])
    third = await office.propose(
        office.cleo, participants=[office.bob], proposed_slots=[slot(START + 9 * DAY)]
    )

    async def ids(of: UUID, **params: Any) -> list[str]:
        return [row["id"] for row in await office.data("/api/meetings", of, params=params)]

    assert await ids(office.ada) == [first["id"], second["id"]]
    assert await ids(office.bob) == [first["id"], second["id"], third["id"]]
    assert await ids(office.bob, sort="-created_at") == [third["id"], second["id"], first["id"]]
    assert await ids(office.dan) == []
    assert await ids(office.bob, status="accepted") == [first["id"]]
    assert await ids(office.bob, person=str(office.cleo)) == [second["id"], third["id"]]
    assert await ids(office.bob, **{"from": (START + 5 * DAY).isoformat()}) == [second["id"], third["id"]]
    assert await ids(office.bob, to=(START + 20 * DAY).isoformat()) == [first["id"], third["id"]]
    at_its_end = {"from": (START + HOUR).isoformat(), "to": (START + 9 * DAY).isoformat()}
    assert await ids(office.bob, **at_its_end) == []
    page = done(await office.ask(office.bob, "GET", "/api/meetings", params={"limit": 2}))
    assert page["has_more"] is True
    rest = await ids(office.bob, cursor=page["next_cursor"])
    assert rest == [third["id"]]


async def test_another_tenant_sees_nothing_and_changes_nothing(office: Office) -> None:
    id = (await office.propose())["id"]
    there = done(await office.site.post("/v1/recipients", {"name": "Eve"}, key=OTHER), 201)["id"]
    headers = {"idempotency-key": "x"}
    refused = await office.site.post(
        f"/api/meetings/{id}/cancel", {}, key=OTHER, actor=there, headers=headers
    )
    problem(refused, 404, "not_found")
    problem(await office.site.get(f"/api/meetings/{id}", key=OTHER, actor=there), 404, "not_found")
    assert (await office.get(id))["status"] == "pending"


async def test_as_many_people_as_may_be(office: Office) -> None:
    async with office.bench.bell.transaction() as tx:
        many = [(await office.notify.recipients.add(tx, name=f"P{n}")).id for n in range(PARTICIPANTS_MAX)]
    body = {"title": "All", "timezone": "UTC", "proposed_slots": [slot()]}
    everybody = {**body, "participants": [str(each) for each in many]}
    problem(await office.ask(office.ada, "POST", "/api/meetings", everybody), 422, "invalid_input")
    row = await office.propose(participants=many[:-1])
    await office.accept(row["id"], many[0])
    assert len(await office.reminders(row["id"], "pending")) == 3 * PARTICIPANTS_MAX
    added = await office.transit(office.ada, row["id"], "participants", {"participant_id": str(many[-1])})
    problem(added, 409, "too_many_participants")
