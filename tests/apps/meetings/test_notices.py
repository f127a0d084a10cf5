"""What was put off is told only while it is so: nobody is asked for what was called off."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.apps.meetings.support import MINUTE, START, Office, done, open_office
from timebell.notify import Unavailable
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

NO = Unavailable(reason="out of order", error_class="transient")


async def go(office: Office, id: str, verb: str) -> None:
    """One of the verbs, which is `dan` for him to be added and `no dan` for him to be removed."""
    match verb:
        case "accept":
            await office.accept(id)
        case "reschedule":
            await office.reschedule(id, START + timedelta(days=1))
        case "dan":
            done(await office.transit(office.ada, id, "participants", {"participant_id": str(office.dan)}))
        case "no dan":
            path = f"/api/meetings/{id}/participants/{office.dan}"
            done(await office.ask(office.ada, "DELETE", path))
        case _:
            done(await office.transit(office.bob, id, verb, {}))


async def told(office: Office, person: UUID) -> list[str]:
    return sorted(line.type.removeprefix("meeting_") for line in await office.inbox(person))


@pytest.mark.req("M-2.6")
@pytest.mark.parametrize(
    ("before", "since", "cleo", "dan"),
    [
        ("", "accept", ["accepted"], []),
        ("", "accept, cancel", ["cancelled"], []),
        ("", "accept, reschedule", ["rescheduled"], []),
        ("", "dan, accept", ["accepted"], ["accepted", "added"]),
        ("", "dan, accept, no dan", ["accepted"], ["removed"]),
        ("dan", "no dan, dan", ["proposed"], ["added", "added"]),
        ("dan", "no dan, cancel", ["cancelled", "proposed"], ["added", "removed"]),
    ],
)
async def test_of_what_came_about_meanwhile_only_what_is_so_is_told(
    office: Office, before: str, since: str, cleo: list[str], dan: list[str]
) -> None:
    """Nothing is paid while it comes about, as where all nodes are down."""
    id = (await office.propose())["id"]
    for verb in filter(None, before.split(", ")):
        await go(office, id, verb)
        await office.bench.run_due()
    for verb in filter(None, since.split(", ")):
        await go(office, id, verb)
    await office.bench.run_due()
    assert (await told(office, office.cleo), await told(office, office.dan)) == (cleo, dan)


@pytest.mark.req("M-2.6")
async def test_a_mail_that_was_put_off_does_not_come_behind_the_one_that_calls_it_off(
    meetings_database: TestDatabase,
) -> None:
    mail = RecordingProvider(channels=["email"])
    people = {"Bob": {"email": "bob@example.org"}}
    async with open_office(meetings_database, [mail], people=people) as office:
        id = (await office.propose(participants=[office.bob]))["id"]
        mail.answer(NO)
        await office.bench.run_due()
        await go(office, id, "cancel")
        await office.bench.advance(10 * MINUTE)
        assert [parcel.content.subject for parcel in mail.parcels][1:] == ["Meeting cancelled: Review"]
