"""Nobody is in two places at once: what is accepted, held or imported, and who wins where several want the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx2
import pytest

from tests.apps.meetings.support import DAY, HOUR, MINUTE, START, Json, Office, done, open_office, slot
from tests.web.support import problem
from timebell.testing.database import TestDatabase

OVERLAPS = """
    SELECT count(*) FROM meetings.busy a JOIN meetings.busy b ON a.recipient_id = b.recipient_id
    WHERE a.during && b.during AND a.meeting_id <> b.meeting_id
"""


async def proposed(
    office: Office, *people: UUID, at: datetime = START, length: timedelta = HOUR, by: UUID | None = None
) -> str:
    """The id of a meeting that Ada, or somebody else, asks some people for."""
    made = await office.propose(by, participants=people, proposed_slots=[slot(at, length)])
    return str(made["id"])


async def accept(
    office: Office, id: str, person: UUID, at: datetime = START, length: timedelta = HOUR
) -> httpx2.Response:
    return await office.transit(person, id, "accept", {"slot": slot(at, length)})


def conflict(response: httpx2.Response) -> list[Json]:
    found: list[Json] = problem(response, 409, "slot_conflict")["next_free"]
    return found


async def taken(office: Office, id: str | None = None) -> list[tuple[UUID, str]]:
    rows = await office.rows(
        "SELECT recipient_id, kind FROM meetings.busy WHERE $1::uuid IS NULL OR meeting_id = $1 ORDER BY 1, 2",
        id,
    )
    return [tuple(row) for row in rows]


@pytest.mark.req("M-7.3")
async def test_touching_ends_do_not_conflict_and_a_minute_does(office: Office) -> None:
    first = await proposed(office, office.bob)
    done(await accept(office, first, office.bob))
    after = await proposed(office, office.bob, at=START + HOUR, by=office.cleo)
    done(await accept(office, after, office.bob, START + HOUR))
    before = await proposed(office, office.bob, at=START - HOUR, by=office.dan)
    done(await accept(office, before, office.bob, START - HOUR))
    late = START + 2 * HOUR - MINUTE
    overlapping = await proposed(office, office.bob, at=late, by=office.dan)
    written = await office.effects()
    free = conflict(await accept(office, overlapping, office.bob, late))
    assert await office.effects() == written
    assert (await office.get(overlapping, office.dan))["status"] == "pending"
    assert free[0] == {"start": "2027-03-05T11:00:00Z", "end": "2027-03-05T12:00:00Z"}


@pytest.mark.req("M-7.3")
async def test_it_is_enough_that_any_participant_is_taken(office: Office) -> None:
    """Bob accepts, and could; but Cleo, who is asked too, is with Dan."""
    theirs = await proposed(office, office.dan, by=office.cleo)
    done(await accept(office, theirs, office.dan))
    ours = await proposed(office, office.bob, office.cleo)
    conflict(await accept(office, ours, office.bob))
    without_cleo = await proposed(office, office.bob)
    done(await accept(office, without_cleo, office.bob))


@pytest.mark.req("M-7.3")
async def test_the_next_free_slots_suit_everybody_and_can_be_accepted(office: Office) -> None:
    done(
        await accept(office, await proposed(office, office.bob, length=2 * HOUR), office.bob, length=2 * HOUR)
    )
    hours = {"day_of_week": 5, "start_time": "09:30", "end_time": "13:15", "timezone": "UTC"}
    done(await office.ask(office.cleo, "POST", "/api/availability", hours), 201)
    id = await proposed(office, office.bob, office.cleo)
    free = conflict(await accept(office, id, office.bob))
    week_later = START + 7 * DAY + 30 * MINUTE
    expected = [START + 2 * HOUR, START + 3 * HOUR, *(week_later + number * HOUR for number in range(3))]
    assert [one["start"] for one in free] == [
        instant.isoformat().replace("+00:00", "Z") for instant in expected
    ]
    child = await office.reschedule(id, expected[0])
    done(await accept(office, child["id"], office.ada, expected[0]))


@pytest.mark.req("M-7.3")
async def test_who_leaves_is_free_and_who_comes_must_be(office: Office) -> None:
    id = await proposed(office, office.bob, office.cleo)
    done(await accept(office, id, office.bob))
    assert await taken(office) == sorted(
        (person, "meeting") for person in (office.ada, office.bob, office.cleo)
    )
    done(await office.ask(office.ada, "DELETE", f"/api/meetings/{id}/participants/{office.cleo}"))
    other = await proposed(office, office.cleo, by=office.dan)
    done(await accept(office, other, office.cleo))
    assert await taken(office, id) == sorted((person, "meeting") for person in (office.ada, office.bob))
    for person in (office.cleo, office.dan):
        body = {"participant_id": str(person)}
        conflict(await office.ask(office.ada, "POST", f"/api/meetings/{id}/participants", body))
    assert (await office.get(id))["participants"] == sorted(map(str, (office.ada, office.bob)))


@pytest.mark.req("M-7.3")
@pytest.mark.parametrize("verb", ["cancel", "complete", "reschedule"])
async def test_what_is_over_takes_nobodys_time(office: Office, verb: str) -> None:
    id = await proposed(office, office.bob)
    done(await accept(office, id, office.bob))
    other = await proposed(office, office.bob, by=office.cleo)
    conflict(await accept(office, other, office.bob))
    body: Any = {"proposed_slots": [slot(START + DAY)]} if verb == "reschedule" else {}
    done(await office.transit(office.bob, id, verb, None if verb == "complete" else body))
    assert await taken(office, id) == []
    done(await accept(office, other, office.bob))


@pytest.mark.req("M-7.4")
async def test_what_an_imported_calendar_says_conflicts(office: Office) -> None:
    await office.rows(
        "INSERT INTO meetings.imported_busy (tenant, recipient_id, import_id, during)"
        " VALUES ('default', $1, gen_random_uuid(), tstzrange($2, $3))",
        office.cleo,
        START + 30 * MINUTE,
        START + 31 * MINUTE,
    )
    id = await proposed(office, office.bob, office.cleo)
    free = conflict(await accept(office, id, office.bob))
    assert free[0]["start"] == "2027-03-05T09:35:00Z"
    done(await accept(office, await proposed(office, office.bob), office.bob))


@pytest.mark.req("M-7.3")
async def test_the_database_itself_takes_no_two_rows_that_overlap(office: Office) -> None:
    id = await proposed(office, office.bob)
    done(await accept(office, id, office.bob))
    again = (
        "INSERT INTO meetings.busy (tenant, number, recipient_id, during, kind, meeting_id)"
        " SELECT tenant, number, recipient_id, tstzrange($1, $2), kind, meeting_id FROM meetings.busy"
        " WHERE recipient_id = $3 LIMIT 1"
    )
    with pytest.raises(asyncpg.ExclusionViolationError):
        await office.rows(again, START + 59 * MINUTE, START + 2 * HOUR, office.bob)
    await office.rows(again, START + HOUR, START + 2 * HOUR, office.bob)


class Intruder:
    """Somebody who takes the time of a person past all locks, just before a statement."""

    def __init__(self) -> None:
        self.database: TestDatabase | None = None
        self.person: UUID | None = None

    async def before(self, name: str) -> None:
        if name != "take" or self.database is None:
            return
        connection = await asyncpg.connect(self.database.admin_url, timeout=10)
        try:
            # Without the keys to other tables, for which this would have to wait.
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(
                "INSERT INTO meetings.busy (tenant, number, recipient_id, during, kind, meeting_id)"
                " SELECT tenant, number, recipient_id, tstzrange($1, $2), 'meeting', $4 FROM meetings.people"
                " WHERE recipient_id = $3",
                START,
                START + HOUR,
                self.person,
                uuid4(),
            )
        finally:
            await connection.close(timeout=10)
        self.database = None

    async def after(self, name: str) -> None:
        pass


@pytest.mark.req("M-7.3")
async def test_the_constraint_has_the_last_word(meetings_database: TestDatabase) -> None:
    intruder = Intruder()
    async with open_office(meetings_database, gate=intruder) as office:
        id = await proposed(office, office.bob, office.cleo)
        # There is a number for each since they were asked once.
        done(
            await accept(
                office, await proposed(office, office.cleo, at=START + DAY), office.cleo, START + DAY
            )
        )
        before = await office.effects()
        intruder.database, intruder.person = meetings_database, office.cleo
        free = conflict(await accept(office, id, office.bob))
        assert free[0]["start"] == "2027-03-05T10:00:00Z"
        after = await office.effects()
        assert {**after, "busy": []} == {**before, "busy": []}
        assert len(after["busy"]) == len(before["busy"]) + 1


class Pause:
    """Stops the first who has freed a meeting's time, until somebody else wants to lock the same people."""

    def __init__(self) -> None:
        self.is_freed = asyncio.Event()
        self.is_wanted = asyncio.Event()

    async def before(self, name: str) -> None:
        if name == "lock_people" and self.is_freed.is_set():
            self.is_wanted.set()

    async def after(self, name: str) -> None:
        if name == "free_meeting" and not self.is_freed.is_set():
            self.is_freed.set()
            async with asyncio.timeout(10):
                await self.is_wanted.wait()


async def test_what_is_just_given_up_is_waited_for(office: Office) -> None:
    first = await proposed(office, office.bob)
    done(await accept(office, first, office.bob))
    second = await proposed(office, office.bob, by=office.cleo)
    office.site.surface.bell.database.observer.gate = pause = Pause()
    cancelled = asyncio.ensure_future(office.transit(office.ada, first, "cancel", {}))
    await pause.is_freed.wait()
    done(await accept(office, second, office.bob))
    done(await cancelled)


async def at_once(*given: Any) -> Counter[int]:
    responses: Sequence[httpx2.Response] = await asyncio.gather(*given)
    return Counter(response.status_code for response in responses)


async def race_of_accepts(office: Office, rounds: int) -> None:
    """Two meetings, each with Bob, that overlap by half: one is accepted, the other hears when all are free."""
    for number in range(rounds):
        at = START + number * DAY
        later = at + 30 * MINUTE
        ids = [
            await proposed(office, office.bob, at=at),
            await proposed(office, office.bob, at=later, by=office.cleo),
        ]
        answers = await asyncio.gather(
            accept(office, ids[0], office.bob, at), accept(office, ids[1], office.bob, later)
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        (refused,) = [answer for answer in answers if answer.status_code == 409]
        assert len(conflict(refused)) == 5
    assert await office.value(OVERLAPS) == 0
    accepted = "SELECT count(*) FROM meetings.meeting_requests WHERE status = 'accepted'"
    assert await office.value(accepted) == rounds
    assert await office.value("SELECT count(*) FROM meetings.busy") == 2 * rounds


@pytest.mark.req("M-7.3")
async def test_of_accepts_that_overlap_one_wins(office: Office) -> None:
    await race_of_accepts(office, 10)


@pytest.mark.slow
@pytest.mark.req("M-7.3")
async def test_of_accepts_that_overlap_one_wins_however_often(office: Office) -> None:
    await race_of_accepts(office, 200)


async def test_nobody_waits_in_a_circle(office: Office) -> None:
    """Every three of four people meet, each group with a slot of its own, all accepted at once; and then moved."""
    groups = list(combinations([office.ada, office.bob, office.cleo, office.dan], 3))
    for turn in range(4):
        ids, calls = [], []
        for number, group in enumerate(groups):
            people = group[turn % 3 :] + group[: turn % 3]
            at = START + turn * DAY + number * HOUR
            ids.append(await proposed(office, *people[1:], at=at, by=people[0]))
            calls.append(accept(office, ids[-1], people[1], at))
        assert await at_once(*calls) == {200: len(groups)}
        ended = [office.transit(group[0], id, "cancel", {}) for group, id in zip(groups, ids, strict=True)]
        assert await at_once(*ended) == {200: len(groups)}
    assert await taken(office) == []
