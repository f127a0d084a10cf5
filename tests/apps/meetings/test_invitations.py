"""Mails about meetings are invitations: calendars follow every change, and a lineage is one entry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from email import message_from_bytes, policy
from uuid import UUID

import orjson
import pytest
import pytest_asyncio

from tests.apps.meetings.calendar_support import Program, invitations, mails, open_post, parsed
from tests.apps.meetings.support import DAY, HOUR, START, Office, done
from tests.contract.providers.mail_server import mail_server
from timebell.apps.meetings.invitations import invitation
from timebell.apps.meetings.models import Meeting, Slot
from timebell.config import Settings
from timebell.notify import Address, Recipient
from timebell.providers.smtp import Smtp, SmtpServer
from timebell.testing.database import TestDatabase


@pytest_asyncio.fixture
async def office(meetings_database: TestDatabase) -> AsyncIterator[Office]:
    async with open_post(meetings_database) as opened:
        yield opened


async def test_what_was_accepted_is_entered_for_all(office: Office) -> None:
    meeting = await office.propose(location="Room 1", description="Bring the figures.")
    assert await invitations(office, office.bob) == [], "nothing is settled yet"
    await office.accept(meeting["id"])
    (text,) = await invitations(office, office.cleo)
    assert await invitations(office, office.ada) == [text]
    method, (event,) = parsed(text)
    assert method == "REQUEST"
    assert (event.start, event.end) == (START, START + HOUR)
    assert str(event["UID"]) == f"{meeting['id']}@timebell"
    assert str(event["STATUS"]) == "CONFIRMED"
    assert str(event["SUMMARY"]) == "Review"
    assert str(event["LOCATION"]) == "Room 1"
    assert str(event["DESCRIPTION"]) == "Bring the figures."
    assert str(event["ORGANIZER"]) == "mailto:ada@example.org"
    people = ["ada@example.org", "bob@example.org", "cleo@example.org"]
    assert sorted(str(one) for one in event["ATTENDEE"]) == [f"mailto:{mail}" for mail in people]
    assert {one.params["PARTSTAT"] for one in event["ATTENDEE"]} == {"ACCEPTED"}


@pytest.mark.req("M-1.3")
async def test_a_meeting_that_was_moved_three_times_is_one_entry(office: Office) -> None:
    """And whoever moves it, it stays the same person's meeting."""
    meeting = await office.accepted()
    root, organizer = meeting["id"], "mailto:ada@example.org"
    for round in range(1, 4):
        start = START + round * DAY
        mover, other = (office.bob, office.ada) if round % 2 else (office.ada, office.bob)
        child = await office.reschedule(meeting["id"], start, person=mover)
        meeting = await office.accept(child["id"], person=other, at=start)
    taken = await invitations(office, office.cleo)
    assert len({str(parsed(text)[1][0]["SEQUENCE"]) for text in taken}) == len(taken) == 7
    # Mails overtake each other, so the order in which they come must not matter.
    for messages in (taken, taken[::-1], [*taken[1::2], *taken[::2]]):
        program = Program()
        for text in messages:
            program.take(text)
        assert list(program.entries) == [f"{root}@timebell"]
        (entry,) = program.entries.values()
        assert entry.start == START + 3 * DAY
        assert str(entry["ORGANIZER"]) == organizer
    lineage = await office.data(f"/api/meetings/{root}/lineage")
    assert len(lineage) == 4


async def test_what_does_not_take_place_is_taken_out(office: Office) -> None:
    meeting = await office.accepted()
    done(await office.transit(office.ada, meeting["id"], "cancel", {"reason": "ill"}))
    taken = await invitations(office, office.bob)
    program = Program()
    program.take(taken[0])
    assert len(program.entries) == 1
    program.take(taken[1])
    assert not program.entries
    _, (event,) = parsed(taken[1])
    assert str(event["STATUS"]) == "CANCELLED"
    assert str(event["ATTENDEE"]) == "mailto:bob@example.org", "each hears of their own entry"


async def test_what_was_in_no_calendar_is_not_taken_out_of_one(office: Office) -> None:
    for verb in ("deny", "cancel"):
        meeting = await office.propose()
        done(await office.transit(office.bob, meeting["id"], verb, {}))
    meeting = await office.propose()
    await office.reschedule(meeting["id"], START + DAY)
    for person in (office.ada, office.bob, office.cleo):
        assert await invitations(office, person) == []


async def test_who_comes_gets_the_entry_and_who_goes_loses_it(office: Office) -> None:
    meeting = await office.accepted(participants=[office.bob])
    path = f"/api/meetings/{meeting['id']}/participants"
    response = await office.ask(office.ada, "POST", path, {"participant_id": str(office.cleo)})
    assert response.status_code in (200, 201), response.text
    program = Program()
    (text,) = await invitations(office, office.cleo)
    program.take(text)
    assert len(program.entries) == 1
    response = await office.ask(office.ada, "DELETE", f"{path}/{office.cleo}")
    assert response.status_code in (200, 204), response.text
    program.take((await invitations(office, office.cleo))[1])
    assert not program.entries
    assert len(await invitations(office, office.bob)) == 1, "nothing has changed for him"


async def test_who_has_no_address_is_known_by_the_id(office: Office) -> None:
    await office.accepted(participants=[office.bob, office.dan])
    _, (event,) = parsed((await invitations(office, office.bob))[0])
    assert f"urn:uuid:{office.dan}" in [str(one) for one in event["ATTENDEE"]]


async def test_only_mails_carry_it(office: Office) -> None:
    await office.accepted()
    await office.bench.run_due()
    (line,) = [line for line in await office.inbox(office.cleo) if line.type == "meeting_accepted"]
    assert "calendar" not in line.payload


async def test_those_who_are_asked_get_a_link_and_whoever_asks_gets_none(office: Office) -> None:
    meeting = await office.propose()
    assert all("/r/" in mail["body"] for mail in await mails(office, office.bob))
    child = await office.reschedule(meeting["id"], START + DAY, person=office.bob)
    assert child["requester_id"] == str(office.bob)
    assert "/r/" in (await mails(office, office.ada))[-1]["body"]
    assert "/r/" not in (await mails(office, office.bob))[-1]["body"]


@pytest.mark.req("M-5.8", "M-2.6")
async def test_an_invitation_leaves_by_smtp(meetings_database: TestDatabase) -> None:
    async with mail_server() as server:
        place = SmtpServer(host="127.0.0.1", port=server.port, security="none", timeout=timedelta(seconds=5))
        provider = Smtp(place, sender="bell@example.org", sender_name="Timebell")
        try:
            async with open_post(meetings_database, [provider]) as office:
                meeting = await office.accepted()
                await office.bench.run_due()
        finally:
            await provider.close()
        parts = [
            part
            for mail in server.mails
            if mail.rcpt_tos == ["cleo@example.org"] and isinstance(mail.content, bytes)
            for part in message_from_bytes(mail.content, policy=policy.default).walk()
            if part.get_content_type() == "text/calendar"
        ]
    (part,) = parts
    assert part.get_param("method") == "REQUEST"
    _, (event,) = parsed(part.get_content())
    assert str(event["UID"]) == f"{meeting['id']}@timebell"


def test_the_largest_is_no_larger_than_a_payload_may_be() -> None:
    """Otherwise nobody could accept it."""
    ids = [UUID(int=number) for number in range(50)]
    mail = Address(kind="email", value=f"{'a' * 64}@{'b' * 185}.org")
    people = {id: Recipient(id=id, tenant="default", name="\U0001f514" * 200, addresses=[mail]) for id in ids}
    slot = Slot(START, START + HOUR)
    meeting = Meeting(
        tenant="default",
        id=ids[0],
        requester_id=ids[0],
        title="\U0001f514" * 200,
        description="\U0001f514" * 5_000,
        location="\U0001f514" * 500,
        timezone="UTC",
        proposed_slots=(slot,),
        accepted_slot=slot,
        status="accepted",
        parent_meeting_id=None,
        root_id=ids[0],
        sequence=1,
        revision=1,
        participants=tuple(ids),
        created_at=START,
        updated_at=START,
    )
    text = invitation(meeting, people, method="REQUEST", organizer=ids[0], attendees=ids)
    # The rest is for what else the notification says: 20 slots, the title and the place.
    assert len(orjson.dumps(text)) < Settings().payload_bytes_max - 8_000
