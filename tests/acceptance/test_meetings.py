"""Meetings over HTTP alone, in a sandbox: a fortnight of three people in which the clocks of one of them change."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.apps.meetings.calendar_support import Program
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT

KEY = "tb_test_0123456789abcdef"
BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# The Monday before the clocks of Berlin change, on the 29th.
MONDAY = datetime(2026, 3, 23, 8, tzinfo=UTC)
BEFORE = {"24h_before": DAY, "1h_before": HOUR, "15m_before": 15 * MINUTE}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    content: Any
    is_replay: bool


class Office:
    """A sandbox, called as clients of Ada, Bob and Cleo do."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._keys = count(1)
        places = {"ada": ("Europe/Berlin", "en"), "bob": ("Asia/Kolkata", "de"), "cleo": ("UTC", "en")}
        self.people: dict[str, str] = {}
        for name, (timezone, language) in places.items():
            about = {"name": name, "email": f"{name}@example.org", "timezone": timezone, "language": language}
            self.people[name] = self.good(None, "POST", "/v1/recipients", about)["id"]

    def call(
        self, person: str | None, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> Reply:
        """As a person, with a key of its own where something may change; an empty one is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._process.port}{path}", data=data, method=method
        )
        request.add_header("authorization", f"Bearer {KEY}")
        request.add_header("content-type", "application/json")
        if person is not None:
            request.add_header("timebell-actor", self.people[person])
        if method != "GET" and key != "":
            request.add_header("idempotency-key", key or f"key-{next(self._keys)}")
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                is_replay = reply.headers["idempotent-replayed"] == "true"
                return Reply(status=reply.status, content=json.load(reply), is_replay=is_replay)
        except urllib.error.HTTPError as error:
            with error:
                return Reply(status=error.code, content=json.load(error), is_replay=False)

    def good(self, person: str | None, method: str, path: str, body: Any = None, **options: Any) -> Any:
        reply = self.call(person, method, path, body, **options)
        assert reply.status in (200, 201), reply.content
        return reply.content

    def data(self, person: str | None, path: str) -> list[Json]:
        page = self.good(person, "GET", f"{path}{'&' if '?' in path else '?'}limit=500")
        assert not page["has_more"]
        found: list[Json] = page["data"]
        return found

    def propose(self, *starts: datetime, person: str = "ada") -> Json:
        """An hour for all three, at one of these times."""
        body = {
            "title": "Review",
            "participants": [id for name, id in self.people.items() if name != person],
            "timezone": "Europe/Berlin",
            "proposed_slots": [slot(start) for start in starts],
        }
        row: Json = self.good(person, "POST", "/api/meetings", body)
        assert row["status"] == "pending"
        return row

    def accept(self, id: str, start: datetime, person: str = "bob", **options: Any) -> Json:
        row: Json = self.good(person, "POST", f"/api/meetings/{id}/accept", {"slot": slot(start)}, **options)
        assert (row["status"], row["accepted_slot"]) == ("accepted", slot(start))
        return row

    def status(self, id: str) -> str:
        return str(self.good("ada", "GET", f"/api/meetings/{id}")["status"])

    def story(self, id: str) -> list[str]:
        return [event["to_status"] for event in self.data("ada", f"/api/meetings/{id}/events")]

    def owed(self, id: str, status: str = "pending") -> Counter[tuple[str, datetime]]:
        """How many are reminded, of what and when."""
        return Counter(
            (one["reminder_type"], datetime.fromisoformat(one["scheduled_at"]))
            for one in self.data("ada", f"/api/meetings/{id}/reminders")
            if one["status"] == status
        )

    def reminded(self, person: str, id: str) -> list[tuple[str, datetime]]:
        """What the inbox of a person has, in its order; and the mails are of the same instants."""
        lines = [
            (line["payload"]["reminder_type"], datetime.fromisoformat(line["due_at"]))
            for line in self.data(person, "/api/notifications")
            if line["type"] == "meeting_reminder" and line["payload"]["meeting_id"] == id
        ]
        sent = {datetime.fromisoformat(mail["at"]) for mail in self.mails(person, "meetings.reminder")}
        assert sent >= {due_at for _, due_at in lines}
        return lines

    def told(self, type: str, id: str) -> dict[str, int]:
        """How often each person was told that about a meeting."""
        lines = {name: self.data(name, "/api/notifications") for name in self.people}
        counts = {
            name: sum(line["type"] == type and line["payload"]["meeting_id"] == id for line in found)
            for name, found in lines.items()
        }
        return {name: number for name, number in counts.items() if number}

    def mails(self, person: str, *templates: str) -> list[Json]:
        found = self.data(None, f"/v1/outbox?channel=email&recipient_id={self.people[person]}")
        return [mail for mail in found if not templates or mail["template"] in templates]

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self.good(None, "GET", "/v1/clock")["now"])

    def until(self, instant: datetime) -> Json:
        passed: Json = self.good(None, "POST", "/v1/clock/advance", {"to": instant.isoformat()})
        assert passed["failed"] == 0
        return passed


def slot(start: datetime) -> dict[str, str]:
    return {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in (("start", start), ("end", start + HOUR))}


def dues(start: datetime, *types: str) -> list[tuple[str, datetime]]:
    return [(type, start - BEFORE[type]) for type in types or BEFORE]


def sandbox(place: Path, processes: list[Process], start: datetime) -> Process:
    port = free_port()
    started = Process(
        place / "sandbox",
        *("up", "--sandbox", "--start", start.isoformat(), "--port", port, "--data", place / "data"),
        port=port,
        environment=clean_environment(TIMEBELL_API_KEY=KEY, TMPDIR=str(place)),
    )
    processes.append(started)
    started.wait_ready()
    return started


@pytest.fixture
def office(place: Path, processes: list[Process]) -> Office:
    return Office(sandbox(place, processes, MONDAY))


@pytest.mark.req(
    "M-1.3", "M-1.6", "M-1.7", "M-2.2", "M-2.4", "M-2.5", "M-3.3", "M-4.3", "M-6.3", "M-7.3", "M-8.3"
)
def test_a_fortnight_of_meetings(office: Office) -> None:
    _across_the_change_of_the_clocks(office)
    _moved_three_times(office)
    _accepted_forty_minutes_before(office)
    _denied(office)
    _cancelled(office)
    _nowhere_twice(office)


def _across_the_change_of_the_clocks(office: Office) -> None:
    """On the Sunday of the change, at nine in Berlin: 24 hours before, clocks there showed eight."""
    start = datetime(2026, 3, 29, 9, tzinfo=BERLIN).astimezone(UTC)
    assert (start - DAY).astimezone(BERLIN).hour == 8
    meeting = office.propose(start, start + DAY)
    id, path = meeting["id"], f"/api/meetings/{meeting['id']}/accept"
    as_berlin = {"start": "2026-03-29T09:00:00+02:00", "end": "2026-03-29T10:00:00+02:00"}
    assert office.call("bob", "POST", path, {"slot": as_berlin}, key="").status == 400
    assert office.call("ada", "POST", path, {"slot": as_berlin}).content["code"] == "own_proposal"
    first = office.call("bob", "POST", path, {"slot": as_berlin}, key="once")
    again = office.call("bob", "POST", path, {"slot": as_berlin}, key="once")
    assert (first.status, first.is_replay) == (200, False)
    assert again == Reply(status=200, content=first.content, is_replay=True)
    assert office.call("bob", "POST", path, {"slot": as_berlin}).status == 409
    assert office.call("bob", "POST", path, {"slot": slot(start + DAY)}, key="once").status == 422
    assert office.owed(id) == dict.fromkeys(dues(start), 3)

    office.until(start - DAY - timedelta(seconds=1))
    assert office.told("meeting_accepted", id) == {"ada": 1, "bob": 1, "cleo": 1}
    assert office.told("meeting_reminder", id) == {}
    office.until(start - DAY)
    assert office.told("meeting_reminder", id) == {"ada": 1, "bob": 1, "cleo": 1}
    office.until(start)
    for person in office.people:
        assert office.reminded(person, id) == dues(start)
    assert office.owed(id, "sent") == dict.fromkeys(dues(start), 3)
    assert "9:00\u202fAM" in office.mails("ada", "meetings.reminder")[0]["body"]
    assert "12:30" in office.mails("bob", "meetings.reminder")[0]["body"]

    office.until(start + HOUR - timedelta(seconds=1))
    assert office.status(id) == "accepted"
    office.until(start + HOUR)
    assert office.story(id) == ["accepted", "completed"]
    assert office.call("ada", "POST", f"/api/meetings/{id}/cancel", {}).status == 409


def _moved_three_times(office: Office) -> None:
    """Four meetings, three hops, one entry in a calendar; and of the last alone is anybody reminded."""
    start = office.now + 3 * DAY
    meeting = office.propose(start)
    ids = [meeting["id"]]
    office.accept(ids[0], start)
    office.until(office.now)
    for number in range(1, 4):
        mover, other = ("bob", "ada") if number % 2 else ("ada", "bob")
        start += HOUR
        body = {"proposed_slots": [slot(start)], "reason": f"strike {number}"}
        child = office.good(mover, "POST", f"/api/meetings/{ids[-1]}/reschedule", body)
        assert (child["status"], child["parent_meeting_id"]) == ("pending", ids[-1])
        assert child["requester_id"] == office.people[mover]
        assert not office.owed(child["id"])
        ids.append(child["id"])
        office.until(office.now)
        office.accept(child["id"], start, person=other)
        office.until(office.now)
    for end in (ids[0], ids[-1]):
        lineage = office.data("cleo", f"/api/meetings/{end}/lineage")
        assert [(row["id"], row["status"]) for row in lineage] == [
            *((id, "rescheduled") for id in ids[:3]),
            (ids[3], "accepted"),
        ]
    hops = 0
    row = office.good("cleo", "GET", f"/api/meetings/{ids[-1]}")
    while row["parent_meeting_id"] is not None:
        row = office.good("cleo", "GET", f"/api/meetings/{row['parent_meeting_id']}")
        hops += 1
    assert (hops, row["id"]) == (3, ids[0])
    for id in ids[:3]:
        assert not office.owed(id)
        assert office.owed(id, "cancelled").total() == 9

    office.until(start + 2 * HOUR)
    program = Program()
    for mail in office.mails("cleo", "meetings.accepted", "meetings.rescheduled"):
        if mail["content"]["calendar"].find(f"UID:{ids[0]}") > 0:
            program.take(mail["content"]["calendar"])
    (entry,) = program.entries.values()
    assert (str(entry["UID"]), entry.start) == (f"{ids[0]}@timebell", start)
    for person in office.people:
        assert [office.reminded(person, id) for id in ids] == [[], [], [], dues(start)]
    assert [office.status(id) for id in ids] == ["rescheduled"] * 3 + ["completed"]


def _accepted_forty_minutes_before(office: Office) -> None:
    start = office.now + 3 * HOUR
    id = office.propose(start)["id"]
    office.until(start - 40 * MINUTE)
    office.accept(id, start)
    assert office.owed(id) == dict.fromkeys(dues(start, "15m_before"), 3)
    office.until(start - 15 * MINUTE - timedelta(seconds=1))
    assert office.told("meeting_reminder", id) == {}
    office.until(start + HOUR)
    for person in office.people:
        assert office.reminded(person, id) == dues(start, "15m_before")


def _denied(office: Office) -> None:
    start = office.now + 2 * DAY
    id = office.propose(start)["id"]
    office.good("cleo", "POST", f"/api/meetings/{id}/deny", {"reason": "on leave"})
    (event,) = office.data("ada", f"/api/meetings/{id}/events")
    assert (event["from_status"], event["to_status"], event["reason"]) == ("pending", "denied", "on leave")
    office.until(start)
    assert office.told("meeting_denied", id) == {"ada": 1}
    assert office.told("meeting_reminder", id) == {}


def _cancelled(office: Office) -> None:
    """Between the first reminder and the second, so that the others never come."""
    start = office.now + 2 * DAY
    id = office.propose(start)["id"]
    office.accept(id, start)
    office.until(start - 2 * HOUR)
    office.good("bob", "POST", f"/api/meetings/{id}/cancel", {"reason": "settled by mail"})
    assert office.owed(id, "sent") == dict.fromkeys(dues(start, "24h_before"), 3)
    assert office.owed(id, "cancelled") == dict.fromkeys(dues(start, "1h_before", "15m_before"), 3)
    office.until(start + 2 * HOUR)
    assert office.told("meeting_cancelled", id) == {"ada": 1, "bob": 1, "cleo": 1}
    assert office.told("meeting_reminder", id) == {"ada": 1, "bob": 1, "cleo": 1}
    assert office.story(id) == ["accepted", "cancelled"]


def _nowhere_twice(office: Office) -> None:
    start = office.now + 2 * DAY
    office.accept(office.propose(start)["id"], start)
    id = office.propose(start + HOUR, start + 30 * MINUTE)["id"]
    refused = office.call("bob", "POST", f"/api/meetings/{id}/accept", {"slot": slot(start + 30 * MINUTE)})
    assert (refused.status, refused.content["code"]) == (409, "slot_conflict")
    assert slot(start + HOUR) in refused.content["next_free"]
    assert office.story(id) == []
    office.accept(id, start + HOUR)


def test_the_page_works_when_pasted(place: Path, processes: list[Process]) -> None:
    process = sandbox(place, processes, datetime(2026, 3, 1, tzinfo=UTC))
    text = (ROOT / "docs" / "howto" / "meetings.md").read_text(encoding="utf-8")
    start, *rest = [block.code for block in blocks(text) if block.language == "sh"]
    assert f"TIMEBELL_API_KEY={KEY}" in start
    assert "--start 2026-03-01T00:00:00Z" in start
    script = "\n".join(rest).replace("127.0.0.1:8080", f"127.0.0.1:{process.port}")
    done = subprocess.run(
        ["/bin/sh", "-euc", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    people, *answers = done.stdout.splitlines()
    assert len(people.split()) == 2
    dry, accepted, owed, passed, inbox, outbox, _, moved, lineage, refused, settings = map(
        json.loads, answers
    )
    assert (len(dry["diff"]["added"]), dry["status"]) == (6, "accepted")
    assert accepted["accepted_slot"]["start"] == "2026-03-29T07:00:00Z"
    assert Counter(one["reminder_type"] for one in owed["data"]) == dict.fromkeys(BEFORE, 2)
    assert (passed["now"], passed["failed"]) == ("2026-03-29T07:00:00Z", 0)
    assert [line["type"] for line in inbox["data"]] == ["meeting_accepted", *["meeting_reminder"] * 3]
    assert [mail["template"].partition(".")[2] for mail in outbox["data"]] == [
        *("proposed", "accepted", "reminder", "reminder", "reminder"),
    ]
    assert moved["status"] == "accepted"
    assert [row["status"] for row in lineage["data"]] == ["rescheduled", "accepted"]
    assert (refused["status"], refused["code"], len(refused["next_free"])) == (409, "slot_conflict", 5)
    assert settings["reminder_offsets_min"] == [2880, 30]
