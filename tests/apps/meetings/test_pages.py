"""`/r/{token}`: a proposal is answered from a mail, without a script and without logging in."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx2
import pytest
import pytest_asyncio

from tests.apps.meetings.calendar_support import PAGE, answer_path, mails, open_post
from tests.apps.meetings.support import DAY, HOUR, START, Office, done, slot
from tests.log_lines import kept_lines
from tests.web.support import problem
from timebell.apps.meetings import pages
from timebell.testing.database import TestDatabase

FORM = {"content-type": "application/x-www-form-urlencoded"}

pytestmark = pytest.mark.req("M-6.3")


@pytest_asyncio.fixture
async def office(meetings_database: TestDatabase) -> AsyncIterator[Office]:
    async with open_post(meetings_database) as opened:
        yield opened


async def show(office: Office, path: str, **headers: str) -> httpx2.Response:
    return await office.site.ask("GET", path, key=None, headers={**PAGE, **headers})


async def send(office: Office, path: str, **form: str) -> httpx2.Response:
    return await office.site.ask(
        "POST", path, key=None, headers={**PAGE, **FORM}, content=urlencode(form).encode()
    )


def choices(page: httpx2.Response) -> list[str]:
    """The times that can be chosen, as a browser would send them."""
    found = re.findall(r'<input type="radio" name="slot" value="([^"]*)" required>', page.text)
    return [unescape(one) for one in found]


async def proposed(office: Office, person: UUID | None = None) -> tuple[str, str]:
    """The id of a meeting, and where the link leads that somebody got."""
    meeting = await office.propose(
        title="Review <b>", location="Room 1", proposed_slots=[slot(), slot(START + DAY)]
    )
    return meeting["id"], await answer_path(office, person or office.cleo)


async def test_the_page_shows_and_the_button_accepts(office: Office) -> None:
    id, path = await proposed(office)
    before = await office.effects()
    page = await show(office, path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "Review &lt;b&gt;" in page.text
    assert "<b>" not in page.text
    assert "Friday, March 5, 2027, 9:00\u202fAM – 10:00\u202fAM" in page.text
    assert "Ada proposes a meeting. Times are in UTC." in page.text
    assert "Where: Room 1" in page.text
    assert not re.search(r"<script|https?://", page.text)
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["cache-control"] == "no-store"
    for _ in range(3):
        await show(office, path)
    assert await office.effects() == before, "robots follow every link in a mail"

    answered = await send(office, path, answer="accept", slot=choices(page)[1])
    assert (answered.status_code, "You accepted" in answered.text) == (200, True)
    meeting = await office.get(id)
    assert meeting["status"] == "accepted"
    assert meeting["accepted_slot"]["start"] == "2027-03-06T09:00:00Z"
    events = await office.data(f"/api/meetings/{id}/events")
    assert events[0]["actor"] == f"recipient:{office.cleo}"


async def test_it_is_declined_with_a_reason(office: Office) -> None:
    id, path = await proposed(office)
    answered = await send(office, path, answer="deny", reason="On holiday\0")
    assert (answered.status_code, "You declined" in answered.text) == (200, True)
    assert (await office.get(id))["status"] == "denied"
    assert (await office.data(f"/api/meetings/{id}/events"))[0]["reason"] == "On holiday"
    await office.bench.run_due()
    assert await office.told("meeting_denied") == {"Ada": 1}


async def test_it_speaks_the_readers_language_and_shows_the_readers_clock(office: Office) -> None:
    _, path = await proposed(office, office.bob)
    page = await show(office, path)
    assert '<html lang="de">' in page.text
    assert "Freitag, 5. März 2027, 14:30 – 15:30" in page.text
    assert "Zeiten in Asia/Kolkata" in page.text
    answered = await send(office, path, answer="accept", slot=choices(page)[0])
    assert "Sie haben angenommen. Der Termin ist am Freitag, 5. März 2027, 14:30 – 15:30" in answered.text


@pytest.mark.parametrize(
    ("verb", "person", "body", "said"),
    [
        ("accept", "Bob", {"slot": slot()}, "It was accepted already. The meeting is on Friday, March 5"),
        ("deny", "Bob", {}, "It was declined already"),
        ("cancel", "Ada", {}, "It was cancelled"),
        (
            "reschedule",
            "Bob",
            {"proposed_slots": [slot(START + 2 * DAY)]},
            "Other times were proposed instead",
        ),
    ],
)
async def test_a_link_that_was_used_says_what_became_of_it(
    office: Office, verb: str, person: str, body: dict[str, object], said: str
) -> None:
    id, path = await proposed(office)
    done(await office.transit(office.people[person], id, verb, body))
    before = await office.effects()
    page = await show(office, path)
    assert (page.status_code, said in page.text) == (200, True)
    assert "<form" not in page.text
    for form in ({"answer": "deny"}, {"answer": "accept", "slot": f"{slot()['start']}/{slot()['end']}"}):
        again = await send(office, path, **form)
        assert (again.status_code, said in again.text) == (409, True)
    assert await office.effects() == before


async def test_answering_twice_is_answered_once(office: Office) -> None:
    _, path = await proposed(office)
    page = await show(office, path)
    first = await send(office, path, answer="accept", slot=choices(page)[0])
    second = await send(office, path, answer="accept", slot=choices(page)[0])
    assert (first.status_code, second.status_code) == (200, 409)
    assert "accepted already" in second.text


async def test_what_is_not_free_any_more_can_be_chosen_anew(office: Office) -> None:
    _, path = await proposed(office)
    other = await office.propose(participants=[office.dan])
    await office.accept(other["id"], person=office.dan)
    page = await show(office, path)
    refused = await send(office, path, answer="accept", slot=choices(page)[0])
    assert (refused.status_code, "not free any more" in refused.text) == (409, True)
    answered = await send(office, path, answer="accept", slot=choices(refused)[1])
    assert answered.status_code == 200, answered.text


EMPTY: list[dict[str, str]] = [
    {},
    {"answer": "accept"},
    {"answer": "accept", "slot": "now"},
    {"answer": "accept", "slot": "2027-03-05T09:00:00/2027-03-05T10:00:00"},
    {"answer": "accept", "slot": "2027-03-05T11:00:00+00:00/2027-03-05T12:00:00+00:00"},
    {"answer": "maybe", "slot": f"{slot()['start']}/{slot()['end']}"},
]


async def test_a_form_that_says_nothing_does_nothing(office: Office) -> None:
    id, path = await proposed(office)
    for form in EMPTY:
        answered = await send(office, path, **form)
        assert answered.status_code == 422
        assert len(choices(answered)) == 2
        plain = await office.site.ask("POST", path, key=None, content=urlencode(form).encode(), headers=FORM)
        problem(plain, 422, "invalid_input")
    assert (await office.get(id))["status"] == "pending"


async def test_times_that_have_passed_cannot_be_chosen_and_in_the_end_the_link_expires(
    office: Office,
) -> None:
    _, path = await proposed(office)
    await office.bench.advance(to=START + HOUR)
    page = await show(office, path)
    assert len(choices(page)) == 1
    assert "(past)" in page.text
    await office.bench.advance(to=START + DAY)
    for response in (await show(office, path), await send(office, path, answer="deny")):
        assert response.status_code == 410
        assert "This link has expired" in response.text
        assert "Review" not in response.text
    problem(await office.site.get(path, key=None), 410, "link_expired")


async def test_a_link_is_one_persons_and_cannot_be_made_up(office: Office) -> None:
    id, path = await proposed(office)
    bobs = await answer_path(office, office.bob)
    body, signature = path.rsplit("/", 1)[1].split(".")
    other = bobs.rsplit("/", 1)[1].split(".")[0]
    for wrong in ("x", body, f"{other}.{signature}", f"{body}.{signature}x", "x" * 2_000):
        for response in (await show(office, f"/r/{wrong}"), await send(office, f"/r/{wrong}", answer="deny")):
            assert response.status_code == 404
            assert "This link does not work" in response.text
        problem(await office.site.get(f"/r/{wrong}", key=None), 404, "not_found")
    german = await show(office, "/r/x", **{"accept-language": "de-AT,de;q=0.9"})
    assert "Dieser Link geht nicht" in german.text
    assert (await office.get(id))["status"] == "pending"


async def test_who_takes_no_part_any_more_has_no_link(office: Office) -> None:
    id, path = await proposed(office)
    await office.ask(office.ada, "DELETE", f"/api/meetings/{id}/participants/{office.cleo}")
    assert (await show(office, path)).status_code == 404
    assert (await send(office, path, answer="deny")).status_code == 404
    bobs = await answer_path(office, office.bob)
    async with office.bench.bell.transaction() as tx:
        await office.notify.recipients.erase(tx, office.bob)
    assert (await show(office, bobs)).status_code == 404


async def test_a_form_has_an_end(office: Office) -> None:
    _, path = await proposed(office)
    assert (await send(office, path, answer="deny", reason="x" * 20_000)).status_code == 413


async def test_where_nothing_leaves_the_link_leads_to_the_server_itself(
    meetings_database: TestDatabase,
) -> None:
    async with open_post(meetings_database, public_url=None) as demo:
        await demo.propose()
        (mail,) = await mails(demo, demo.bob)
    assert "http://127.0.0.1:8080/r/" in mail["body"]


@pytest.mark.parametrize(
    "settings",
    [{"demo": False}, {"database_url": "postgresql://bell.test/bell"}],
    ids=["leaves", "may leave"],
)
async def test_what_leaves_has_no_link_unless_it_is_known_where_to(
    meetings_database: TestDatabase, settings: dict[str, Any]
) -> None:
    async with open_post(meetings_database, public_url=None, **settings) as office:
        await office.propose()
        (mail,) = await mails(office, office.bob)
    assert "/r/" not in mail["body"]


async def test_a_link_is_not_in_the_log_where_it_fails(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = await proposed(office)

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(pages, "_shown", fail)
    with kept_lines() as lines:
        assert (await show(office, path)).status_code == 500
    [line] = [line for line in lines if line["log_level"] == "error"]
    assert line["route"] == "/r/{token}"
    assert path not in str(lines)
