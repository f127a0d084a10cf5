"""`/api/meetings/{id}/holds`: a slot that is kept free for some minutes, and by one person at a time."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from tests.apps.meetings.support import DAY, HOUR, MINUTE, NOW, SECOND, START, Json, Office, done, slot
from tests.apps.meetings.test_conflicts import OVERLAPS, accept, conflict, proposed, taken
from tests.web.support import problem


def path(id: str) -> str:
    return f"/api/meetings/{id}/holds"


async def ask_hold(
    office: Office, id: str, person: UUID, at: datetime = START, **given: Any
) -> httpx2.Response:
    return await office.ask(person, "POST", path(id), {"slot": slot(at), **given})


async def hold(office: Office, id: str, person: UUID, at: datetime = START, **given: Any) -> Json:
    return done(await ask_hold(office, id, person, at, **given), 201)


async def waiting(office: Office) -> list[datetime]:
    rows = await office.rows("SELECT due_at FROM timebell.jobs WHERE kind = 'meetings.release_hold'")
    return [row[0] for row in rows]


async def is_free(office: Office) -> bool:
    """Whether Bob is told that he could meet then."""
    wish = {"participants": [str(office.bob)], "duration": "PT1H", "window": slot()}
    return bool(done(await office.ask(office.bob, "POST", "/api/meetings/suggest", wish))["data"])


async def test_a_slot_is_held_for_ten_minutes_for_everybody(office: Office) -> None:
    id = await proposed(office, office.bob, office.cleo)
    row = await hold(office, id, office.bob)
    assert (row["meeting_id"], row["held_by"]) == (id, str(office.bob))
    assert row["slot"] == {"start": "2027-03-05T09:00:00Z", "end": "2027-03-05T10:00:00Z"}
    assert row["expires_at"] == (NOW + 10 * MINUTE).isoformat().replace("+00:00", "Z")
    for person in (office.ada, office.bob, office.cleo):
        assert await office.data(path(id), person) == [row]
    assert await taken(office) == sorted((person, "hold") for person in (office.ada, office.bob, office.cleo))
    assert await waiting(office) == [NOW + 10 * MINUTE]
    # Whoever has to do with any of them waits, and hears when there is time.
    for person, other in ((office.dan, office.cleo), (office.ada, office.dan), (office.bob, office.dan)):
        elsewhere = await proposed(office, other, by=person)
        assert conflict(await accept(office, elsewhere, other))[0]["start"] == "2027-03-05T10:00:00Z"
    wish = {"participants": [str(office.cleo)], "duration": 60, "window": slot(START, 3 * HOUR)}
    free = done(await office.ask(office.dan, "POST", "/api/meetings/suggest", wish))["data"]
    assert [one["start"][11:16] for one in free] == ["10:00", "11:00"]


async def test_it_ends_at_its_instant_and_not_before(office: Office) -> None:
    id = await proposed(office, office.bob)
    other = await proposed(office, office.bob, by=office.cleo)
    await hold(office, id, office.bob, minutes=30)
    office.clock.move(30 * MINUTE - SECOND)
    conflict(await accept(office, other, office.bob))
    assert len(await office.data(path(id))) == 1
    assert await is_free(office) is False
    # Nobody has removed it, and it does not count any more.
    office.clock.move(SECOND)
    assert await office.data(path(id)) == []
    assert await is_free(office) is True
    done(await accept(office, other, office.bob))
    assert await taken(office, id) == [(office.ada, "hold")]
    # A job does, for whom nobody needed the place of.
    await office.bench.run_due()
    assert await taken(office, id) == []
    assert await waiting(office) == []


async def test_its_holder_accepts_and_nobody_else(office: Office) -> None:
    id = await proposed(office, office.bob, office.cleo)
    await hold(office, id, office.bob)
    conflict(await accept(office, id, office.cleo))
    done(await accept(office, id, office.bob))
    people = (office.ada, office.bob, office.cleo)
    assert await taken(office) == sorted((person, "meeting") for person in people)
    assert await office.data(path(id)) == []
    assert await waiting(office) == []


async def test_what_the_requester_holds_is_for_whoever_accepts(office: Office) -> None:
    id = await proposed(office, office.bob, office.cleo)
    await hold(office, id, office.ada)
    other = await proposed(office, office.cleo, by=office.dan)
    conflict(await accept(office, other, office.cleo))
    conflict(await ask_hold(office, id, office.cleo))
    done(await accept(office, id, office.cleo))
    assert {kind for _, kind in await taken(office)} == {"meeting"}


async def test_a_hold_on_another_slot_of_the_meeting_is_in_nobodys_way(office: Office) -> None:
    later = START + 2 * HOUR
    meeting = await office.propose(proposed_slots=[slot(), slot(later)])
    await hold(office, meeting["id"], office.cleo)
    done(await accept(office, meeting["id"], office.bob, later))
    assert {kind for _, kind in await taken(office)} == {"meeting"}
    assert await waiting(office) == []


async def test_a_person_has_one_hold_on_a_meeting(office: Office) -> None:
    half = START + 30 * MINUTE
    meeting = await office.propose(proposed_slots=[slot(), slot(half)])
    id = meeting["id"]
    first = await hold(office, id, office.bob)
    office.clock.move(MINUTE)
    second = await hold(office, id, office.bob, half)
    assert second["id"] != first["id"]
    assert await office.data(path(id)) == [second]
    assert await waiting(office) == [NOW + 11 * MINUTE]
    # One that is refused leaves what there was.
    taken_by_dan = await proposed(office, office.dan, at=START - 30 * MINUTE, by=office.cleo)
    done(await accept(office, taken_by_dan, office.dan, START - 30 * MINUTE))
    conflict(await ask_hold(office, id, office.bob))
    assert await office.data(path(id)) == [second]


async def test_it_is_released_by_its_holder(office: Office) -> None:
    id = await proposed(office, office.bob, office.cleo)
    await hold(office, id, office.bob)
    assert (await office.ask(office.cleo, "DELETE", path(id))).status_code == 204
    assert len(await office.data(path(id))) == 1
    assert (await office.ask(office.bob, "DELETE", path(id))).status_code == 204
    assert await office.data(path(id)) == []
    assert (await taken(office), await waiting(office)) == ([], [])
    assert (await office.ask(office.bob, "DELETE", path(id))).status_code == 204
    await hold(office, id, office.cleo)
    names = await office.rows(
        "SELECT name FROM timebell.events WHERE subject = $1 ORDER BY id", f"meeting:{id}"
    )
    assert [row[0] for row in names][1:] == ["meeting.held", "meeting.hold_released", "meeting.held"]


@pytest.mark.parametrize("verb", ["deny", "cancel", "reschedule"])
async def test_it_ends_with_the_meeting(office: Office, verb: str) -> None:
    id = await proposed(office, office.bob)
    await hold(office, id, office.bob)
    body = {"proposed_slots": [slot()]} if verb == "reschedule" else {}
    done(await office.transit(office.bob, id, verb, body))
    assert (await taken(office), await waiting(office)) == ([], [])


async def test_it_ends_with_its_holder(office: Office) -> None:
    id = await proposed(office, office.bob, office.cleo)
    await hold(office, id, office.cleo)
    done(await office.ask(office.ada, "DELETE", f"/api/meetings/{id}/participants/{office.cleo}"))
    assert await taken(office) == []
    await office.bench.advance(11 * MINUTE)
    await hold(office, id, office.bob)
    async with office.bench.bell.transaction() as tx:
        await office.notify.recipients.erase(tx, office.bob)
    assert await taken(office) == []


async def test_what_is_refused(office: Office) -> None:
    id = await proposed(office, office.bob)
    problem(await ask_hold(office, str(uuid4()), office.bob), 404, "not_found")
    problem(await ask_hold(office, id, office.dan), 403, "not_a_participant")
    problem(await office.ask(office.dan, "GET", path(id)), 404, "not_found")
    problem(await office.ask(office.dan, "DELETE", path(id)), 403, "not_a_participant")
    response = await ask_hold(office, id, office.bob, START + MINUTE)
    assert problem(response, 422, "invalid_input")["errors"][0]["pointer"] == "/slot"
    for minutes in (0, 61):
        problem(await ask_hold(office, id, office.bob, minutes=minutes), 422, "invalid_input")
    office.clock.move_to(START)
    problem(await ask_hold(office, id, office.bob), 422, "invalid_input")
    done(await office.transit(office.bob, id, "deny", {}))
    problem(await ask_hold(office, id, office.bob), 409, "meeting_status")
    assert await taken(office) == []


async def race_of_holds(office: Office, rounds: int) -> None:
    """Four want the same slot of one meeting, and two more want somebody of it elsewhere: one gets it."""
    for number in range(rounds):
        at = START + number * DAY
        id = await proposed(office, office.bob, office.cleo, office.dan, at=at)
        other = await proposed(office, office.dan, at=at + 30 * MINUTE, by=office.cleo)
        people = [office.ada, office.bob, office.cleo, office.dan]
        answers = await asyncio.gather(
            *(ask_hold(office, id, person, at) for person in people),
            *(ask_hold(office, other, person, at + 30 * MINUTE) for person in people[2:]),
        )
        assert sorted(answer.status_code for answer in answers) == [201, *5 * [409]]
        for answer in answers:
            if answer.status_code == 409:
                conflict(answer)
    assert await office.value(OVERLAPS) == 0


async def test_of_those_who_want_to_hold_one_wins(office: Office) -> None:
    await race_of_holds(office, 5)


@pytest.mark.slow
async def test_of_those_who_want_to_hold_one_wins_however_often(office: Office) -> None:
    await race_of_holds(office, 100)


async def test_a_hold_that_ends_while_several_want_its_place(office: Office) -> None:
    """Whoever needs the place removes what has ended, as the job does at the same moment: nobody waits in a circle."""
    length = timedelta(minutes=1)
    for number in range(5):
        at = START + number * DAY
        held = await proposed(office, office.bob, office.cleo, office.dan, at=at)
        await hold(office, held, office.bob, at, minutes=1)
        ids = [
            await proposed(office, office.bob, at=at),
            await proposed(office, office.dan, at=at, by=office.cleo),
        ]
        office.clock.move(length)
        _, *answers = await asyncio.gather(
            office.bench.run_due(),
            accept(office, ids[0], office.bob, at),
            accept(office, ids[1], office.dan, at),
        )
        assert [answer.status_code for answer in answers] == [200, 200]
    assert {kind for _, kind in await taken(office)} == {"meeting"}
