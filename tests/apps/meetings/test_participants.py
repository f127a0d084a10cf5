"""Who takes part comes and goes, and what is owed follows."""

from __future__ import annotations

from uuid import UUID, uuid4

import httpx2

from tests.apps.meetings.support import DAY, START, Office, audited, done, slot
from tests.web.support import problem


async def add(office: Office, id: str, person: UUID, by: UUID | None = None) -> httpx2.Response:
    return await office.transit(by or office.bob, id, "participants", {"participant_id": str(person)})


async def remove(office: Office, id: str, person: UUID, by: UUID | None = None) -> httpx2.Response:
    return await office.ask(by or office.ada, "DELETE", f"/api/meetings/{id}/participants/{person}")


async def reminded(office: Office, id: str) -> set[str]:
    return {one["recipient_id"] for one in await office.reminders(id, "pending")}


async def test_who_is_added_is_told_and_reminded(office: Office) -> None:
    row = await office.accepted()
    response = await add(office, row["id"], office.dan)
    added = done(response)
    assert str(office.dan) in added["participants"]
    assert response.headers["etag"] == '"rev-3"'
    assert await audited(office, row["id"], "meeting.participant_added") == [f"recipient:{office.bob}"]
    assert len(await office.reminders(row["id"], "pending")) == 12
    await office.bench.advance(to=START)
    assert await office.told("meeting_added") == {"Dan": 1}
    assert await office.told("meeting_reminder") == {"Ada": 3, "Bob": 3, "Cleo": 3, "Dan": 3}


async def test_who_is_added_again_stays(office: Office) -> None:
    row = await office.accepted()
    before = await office.effects()
    done(await add(office, row["id"], office.cleo))
    assert await office.effects() == before


async def test_who_is_removed_is_told_and_not_reminded_any_more(office: Office) -> None:
    row = await office.accepted()
    response = await remove(office, row["id"], office.cleo)
    done(response)
    assert response.headers["etag"] == '"rev-3"'
    assert await audited(office, row["id"], "meeting.participant_removed") == [f"recipient:{office.ada}"]
    assert await reminded(office, row["id"]) == {str(office.ada), str(office.bob)}
    problem(await office.ask(office.cleo, "GET", f"/api/meetings/{row['id']}"), 404, "not_found")
    await office.bench.advance(to=START)
    assert await office.told("meeting_removed") == {"Cleo": 1}
    assert await office.told("meeting_reminder") == {"Ada": 3, "Bob": 3}


async def test_what_was_told_before_is_not_told_again(office: Office) -> None:
    row = await office.accepted()
    await office.bench.advance(to=START - DAY)
    done(await add(office, row["id"], office.dan))
    done(await remove(office, row["id"], office.dan))
    await office.bench.advance(to=START)
    assert await office.told("meeting_reminder") == {"Ada": 3, "Bob": 3, "Cleo": 3}


async def test_everybody_may_leave_and_the_requester_stays(office: Office) -> None:
    id = (await office.propose())["id"]
    problem(await remove(office, id, office.cleo, by=office.bob), 403, "not_a_participant")
    problem(await remove(office, id, office.ada), 409, "requester_stays")
    done(await remove(office, id, office.bob, by=office.bob))
    await office.bench.run_due()
    assert await office.told("meeting_removed") == {}
    problem(await add(office, id, office.dan, by=office.bob), 403, "not_a_participant")


async def test_people_change_while_something_may_still_come_of_it(office: Office) -> None:
    id = (await office.propose())["id"]
    problem(await add(office, id, uuid4()), 422, "invalid_input")
    done(await remove(office, id, office.dan))
    done(await office.transit(office.bob, id, "deny", {}))
    problem(await add(office, id, office.dan), 409, "meeting_status")
    problem(await remove(office, id, office.cleo), 409, "meeting_status")


async def test_who_was_added_may_accept(office: Office) -> None:
    id = (await office.propose(participants=[office.bob]))["id"]
    problem(await office.transit(office.dan, id, "accept", {"slot": slot()}), 403, "not_a_participant")
    done(await add(office, id, office.dan))
    await office.accept(id, office.dan)
    assert len(await office.reminders(id, "pending")) == 9
