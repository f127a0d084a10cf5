"""A person's meetings as a calendar, at an address that cannot be guessed and can be exchanged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from tests.apps.meetings.calendar_support import parsed
from tests.apps.meetings.support import DAY, HOUR, START, Office, done
from tests.web.support import OTHER, problem

pytestmark = pytest.mark.req("M-7.4")


async def path_of(office: Office, person: UUID | None = None, name: str = "url") -> str:
    feed = done(await office.ask(person or office.ada, "GET", "/api/calendar-feed"))
    return urlsplit(feed[name]).path


async def shown(office: Office, path: str) -> list[Any]:
    response = await office.site.get(path, key=None)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/calendar")
    return parsed(response.text)[1]


async def test_it_has_what_takes_place(office: Office) -> None:
    path = await path_of(office)
    await office.propose(title="Only proposed")
    meeting = await office.accepted(title="Review; the long one", location="Room 1")
    (entry,) = await shown(office, path)
    assert (entry.start, entry.end) == (START, START + HOUR)
    assert str(entry["SUMMARY"]) == "Review; the long one"
    assert str(entry["UID"]) == f"{meeting['id']}@timebell"
    assert str(entry["TRANSP"]) == "OPAQUE"
    first = await office.site.get(path, key=None)
    assert (await office.site.get(path, key=None)).text == first.text


async def test_what_is_rescheduled_disappears_and_comes_back_as_the_same_entry(office: Office) -> None:
    path = await path_of(office, office.cleo)
    meeting = await office.accepted()
    (before,) = await shown(office, path)
    child = await office.reschedule(meeting["id"], START + DAY)
    assert await shown(office, path) == []
    await office.accept(child["id"], person=office.ada, at=START + DAY)
    (entry,) = await shown(office, path)
    assert entry["UID"] == before["UID"]
    assert int(entry["SEQUENCE"]) > int(before["SEQUENCE"])
    assert entry.start == START + DAY
    done(await office.transit(office.ada, child["id"], "cancel", {}))
    assert await shown(office, path) == []


async def test_what_is_past_stays_for_a_month(office: Office) -> None:
    path = await path_of(office)
    await office.accepted()
    await office.bench.advance(to=START + HOUR + timedelta(seconds=1))
    assert len(await shown(office, path)) == 1
    await office.bench.advance(31 * DAY)
    assert await shown(office, path) == []


async def test_the_hours_in_which_somebody_may_be_met_are_there_for_who_wants_them(office: Office) -> None:
    block = {"day_of_week": 1, "start_time": "09:00", "end_time": "12:00", "timezone": "Europe/Berlin"}
    done(await office.ask(office.ada, "POST", "/api/availability", block), 201)
    assert await shown(office, await path_of(office)) == []
    entries = await shown(office, await path_of(office, name="availability_url"))
    assert len(entries) == 8
    assert {str(entry["TRANSP"]) for entry in entries} == {"TRANSPARENT"}
    starts = [entry.start for entry in entries]
    # The clocks of Berlin are put forward on the 28th.
    assert starts[0] == datetime(2027, 3, 1, 8, tzinfo=UTC)
    assert starts[4] == datetime(2027, 3, 29, 7, tzinfo=UTC)
    assert await shown(office, await path_of(office, office.bob, name="availability_url")) == []


async def test_an_address_is_one_persons_and_cannot_be_made_up(office: Office) -> None:
    await office.accepted()
    path = await path_of(office)
    other = await path_of(office, office.dan)
    assert await shown(office, other) == []
    body, signature = path.removesuffix(".ics").rsplit("/", 1)[1].split(".")
    dans = other.rsplit("/", 1)[1].split(".")[0]
    for wrong in (
        "x.ics",
        f"{body}.ics",
        f"{dans}.{signature}.ics",
        f"{body}.{signature}",
        "%00.ics",
        "x" * 2_000,
    ):
        problem(await office.site.get(f"/feeds/meetings/{wrong}", key=None), 404, "not_found")


async def test_an_address_that_others_know_is_exchanged(office: Office) -> None:
    await office.accepted()
    old = await path_of(office)
    renewed = done(await office.ask(office.ada, "POST", "/api/calendar-feed"))
    problem(await office.site.get(old, key=None), 404, "not_found")
    new = urlsplit(renewed["url"]).path
    assert new == await path_of(office)
    assert len(await shown(office, new)) == 1
    assert len(await shown(office, await path_of(office, office.bob))) == 1, "his is as it was"


async def test_who_is_erased_has_no_calendar(office: Office) -> None:
    path = await path_of(office)
    async with office.bench.bell.transaction() as tx:
        await office.notify.recipients.erase(tx, office.ada)
    problem(await office.site.get(path, key=None), 404, "not_found")


async def test_it_is_the_calendar_of_one_tenant(office: Office) -> None:
    """The address names the tenant, and what is read is behind that tenant's wall."""
    await office.accepted()
    eve = (await office.site.post("/v1/recipients", {"name": "Eve"}, key=OTHER)).json()["id"]
    feed = done(await office.site.get("/api/calendar-feed", key=OTHER, actor=eve))
    assert await shown(office, urlsplit(feed["url"]).path) == []
