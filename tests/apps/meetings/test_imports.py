"""Calendars that people have elsewhere: what they say counts when something is accepted or suggested."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
import pytest_asyncio

from tests.apps.meetings.support import DAY, HOUR, NOW, START, Json, Office, done, slot
from tests.contract.providers.http_server import HttpServer, Request, Response
from tests.web.support import problem
from timebell.apps.meetings import downloading, imports
from timebell.providers.safe_http import Reach
from timebell.rules.ics_reading import ReadCalendar

PATH = "/api/calendar-import"
SIX_HOURS = timedelta(hours=6)

pytestmark = pytest.mark.req("M-7.4")


def ics(*events: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *events, "END:VCALENDAR", ""])


def event(start: datetime = START, length: str = "PT1H", *more: str, uid: str = "1") -> str:
    lines = ["BEGIN:VEVENT", f"UID:{uid}", f"DTSTART:{start:%Y%m%dT%H%M%SZ}", f"DURATION:{length}"]
    return "\r\n".join([*lines, "SUMMARY:My secret dentist", *more, "END:VEVENT"])


async def imported(office: Office, text: str, **given: Any) -> Json:
    return done(await office.ask(office.cleo, "POST", PATH, {"ics": text, **given}), 201)


async def busy(office: Office) -> list[tuple[datetime, datetime]]:
    rows = await office.rows(
        "SELECT lower(during) AS start_at, upper(during) AS end_at FROM meetings.imported_busy ORDER BY during"
    )
    return [(row["start_at"], row["end_at"]) for row in rows]


@pytest.mark.req("M-7.3")
async def test_what_a_calendar_says_is_in_the_way(office: Office) -> None:
    made = await imported(office, ics(event(START + HOUR / 2)), name="Work")
    assert (made["status"], made["name"], made["entry_count"], made["busy_count"]) == ("read", "Work", 1, 1)
    meeting = await office.propose(proposed_slots=[slot(), slot(START - HOUR / 2)])
    refused = problem(
        await office.transit(office.bob, meeting["id"], "accept", {"slot": slot()}), 409, "slot_conflict"
    )
    assert refused["next_free"]
    # Touching ends are no conflict.
    await office.accept(meeting["id"], at=START - HOUR / 2)


async def test_a_file_may_be_sent_as_it_is(office: Office) -> None:
    response = await office.ask(
        office.cleo,
        "POST",
        PATH,
        content=ics(event()).encode(),
        headers={"content-type": "text/calendar; charset=utf-8"},
    )
    made = done(response, 201)
    assert (made["status"], made["name"], made["host"]) == ("read", "upload", None)
    assert await busy(office) == [(START, START + HOUR)]


async def test_a_large_calendar_is_taken_and_one_that_is_too_large_is_not(office: Office) -> None:
    """Larger than other bodies may be."""
    large = ics(*(event(START + number * HOUR, uid=str(number)) for number in range(0, 6_000, 2)))
    assert 262_144 < len(large) < 1_000_000
    headers = {"content-type": "text/calendar"}
    response = await office.ask(office.cleo, "POST", PATH, content=large.encode(), headers=headers)
    assert done(response, 201)["busy_count"] == 3_000
    for size, status, code in ((1_000_001, 422, "invalid_input"), (2_000_001, 413, "body_too_large")):
        content = b"BEGIN:VCALENDAR".ljust(size)
        problem(await office.ask(office.cleo, "POST", PATH, content=content, headers=headers), status, code)


async def test_a_file_that_is_no_calendar(office: Office) -> None:
    for media_type, content, status, code in (
        ("text/calendar", b"BEGIN:VCALENDAR\xff", 400, "malformed_text"),
        ("text/calendar", b"BEGIN:VCALENDAR\0", 400, "malformed_text"),
        ("text/calendar", b"", 422, "invalid_input"),
        ("text/calendar", b"{}", 422, "invalid_input"),
        ("text/plain", ics().encode(), 415, "unsupported_media_type"),
    ):
        headers = {"content-type": media_type}
        response = await office.ask(office.cleo, "POST", PATH, content=content, headers=headers)
        problem(response, status, code)


async def test_only_the_times_are_kept(office: Office) -> None:
    await imported(office, ics(event()))
    stored = await office.value("SELECT row_to_json(i)::text FROM meetings.calendar_imports i")
    assert "dentist" not in stored
    assert "2027-03-05T09:00:00" in stored


async def test_a_floating_time_is_on_the_persons_own_clock(office: Office) -> None:
    async with office.bench.bell.transaction() as tx:
        await office.notify.recipients.change(tx, office.cleo, timezone="America/New_York")
    text = ics("BEGIN:VEVENT\r\nUID:1\r\nDTSTART:20270315T090000\r\nDURATION:PT1H\r\nEND:VEVENT")
    await imported(office, text)
    # New York has put its clocks forward by then, and Berlin has not.
    assert await busy(office) == [
        (datetime(2027, 3, 15, 13, tzinfo=UTC), datetime(2027, 3, 15, 14, tzinfo=UTC))
    ]


async def test_an_upload_is_looked_at_again_as_time_goes_on(office: Office) -> None:
    made = await imported(office, ics(event(START, "PT1H", "RRULE:FREQ=MONTHLY")))
    assert made["busy_count"] == 12
    last = (await busy(office))[-1]
    await office.bench.advance(32 * DAY)
    assert (await busy(office))[-1] > last
    again = done(await office.ask(office.cleo, "GET", f"{PATH}/{made['id']}"))
    assert again["read_at"] == made["read_at"], "what was uploaded was read once"
    assert again["busy_until"] > made["busy_until"]


async def test_it_is_its_owners_alone_and_can_be_taken_away(office: Office) -> None:
    made = await imported(office, ics(event()))
    path = f"{PATH}/{made['id']}"
    assert [one["id"] for one in await office.data(PATH, office.cleo)] == [made["id"]]
    assert await office.data(PATH, office.ada) == []
    for method in ("GET", "DELETE"):
        problem(await office.ask(office.ada, method, path), 404, "not_found")
    assert (await office.ask(office.cleo, "DELETE", path)).status_code == 204
    problem(await office.ask(office.cleo, "DELETE", path), 404, "not_found")
    assert await busy(office) == []
    assert await office.value("SELECT count(*) FROM timebell.jobs WHERE kind = 'meetings.read_calendar'") == 0
    await office.accepted()


async def test_who_is_erased_leaves_no_calendar(office: Office) -> None:
    await imported(office, ics(event()))
    await office.ask(office.cleo, "POST", "/api/calendar-feed")
    async with office.bench.bell.transaction() as tx:
        await office.notify.recipients.erase(tx, office.cleo)
    # For a moment the surface may still remember who it was.
    for given in ({"ics": ics(event())}, {"url": "https://example.org/a.ics"}):
        problem(await office.ask(office.cleo, "POST", PATH, given), 404, "not_found")
    for table in ("calendar_imports", "imported_busy", "calendar_feeds"):
        assert await office.value(f"SELECT count(*) FROM meetings.{table}") == 0
    assert await office.value("SELECT count(*) FROM timebell.jobs WHERE kind = 'meetings.read_calendar'") == 0


REFUSED: list[tuple[Json, str]] = [
    ({}, ""),
    ({"ics": ics(), "url": "https://example.org/a.ics"}, ""),
    ({"ics": "<!doctype html>"}, "/ics"),
    ({"url": "http://example.org/a.ics"}, "/url"),
    ({"url": "https://user:secret@example.org/a.ics"}, "/url"),
    ({"url": "https://example.org:22/a.ics"}, "/url"),
    ({"url": "https://127.0.0.1/a.ics"}, "/url"),
    ({"url": "https://169.254.169.254/latest/meta-data"}, "/url"),
    ({"url": "https://[::ffff:10.0.0.1]/a.ics"}, "/url"),
    ({"url": "https://localhost/a.ics"}, "/url"),
    ({"url": "file:///etc/passwd"}, "/url"),
    ({"name": " ", "ics": ics()}, "/name"),
]


async def test_what_is_refused(office: Office) -> None:
    for body, pointer in REFUSED:
        response = await office.ask(office.cleo, "POST", PATH, body)
        assert response.status_code == 422, response.text
        assert pointer in [error["pointer"] for error in response.json()["errors"]]
    assert await office.value("SELECT count(*) FROM meetings.calendar_imports") == 0


async def test_nobody_imports_without_end(office: Office) -> None:
    for number in range(20):
        await imported(office, ics(), name=str(number))
    problem(await office.ask(office.cleo, "POST", PATH, {"ics": ics()}), 409, "too_many_calendars")
    done(await office.ask(office.bob, "POST", PATH, {"ics": ics()}), 201)


async def test_calendars_that_take_long_to_read_hold_up_nobody(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a file is read no transaction is open, and some at a time are read for one tenant."""
    has_begun, may_end, readers = threading.Event(), threading.Event(), list[str]()

    def read_slowly(text: str, **_: Any) -> ReadCalendar:
        readers.append(text)
        has_begun.set()
        assert may_end.wait(60)
        return ReadCalendar(entries=())

    monkeypatch.setattr(imports, "read_calendar", read_slowly)
    uploads = [
        asyncio.ensure_future(office.ask(office.cleo, "POST", PATH, {"ics": ics()})) for _ in range(12)
    ]
    try:
        while sum(upload.done() for upload in uploads) < 8:
            await asyncio.wait_for(
                asyncio.wait([one for one in uploads if not one.done()], return_when="FIRST_COMPLETED"), 30
            )
        assert await asyncio.wait_for(office.data(PATH, office.bob), 30) == []
        assert not await office.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        )
        assert await asyncio.to_thread(has_begun.wait, 30)
        assert len(readers) == 1
    finally:
        may_end.set()
    answers = await asyncio.gather(*uploads)
    assert sorted(answer.status_code for answer in answers) == [201] * 4 + [429] * 8
    refused = next(answer for answer in answers if answer.status_code == 429)
    problem(refused, 429, "too_many_at_once")
    assert refused.headers["retry-after"] == "1"


class Feed:
    """A calendar somewhere else, behind a real server."""

    def __init__(self) -> None:
        self.response = Response(body=ics(event()).encode())
        self.requests: list[Request] = []
        self.server = HttpServer(self._answer)

    def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response

    @property
    def url(self) -> str:
        return f"{self.server.url}/secret/basic.ics?token=1"


@pytest_asyncio.fixture
async def feed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Feed]:
    made = Feed()
    await made.server.open()
    reach = Reach(
        ports=frozenset({made.server.port}),
        networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")),
        is_plain_allowed=True,
    )
    monkeypatch.setattr(downloading, "REACH", reach)
    yield made
    await made.server.close()


async def followed(office: Office, feed: Feed) -> Json:
    made = done(await office.ask(office.cleo, "POST", PATH, {"url": feed.url}), 201)
    assert (made["status"], made["host"], made["name"]) == ("waiting", "localhost", "localhost")
    await office.bench.run_due()
    return made


async def read(office: Office, made: Json) -> Json:
    return done(await office.ask(office.cleo, "GET", f"{PATH}/{made['id']}"))


async def test_a_calendar_elsewhere_is_read_at_once_and_again(office: Office, feed: Feed) -> None:
    made = await followed(office, feed)
    found = await read(office, made)
    assert (found["status"], found["busy_count"], found["read_at"]) == (
        "read",
        1,
        NOW.isoformat().replace("+00:00", "Z"),
    )
    assert "secret" not in str(found), "its address is as good as a password"
    assert feed.requests[0].path == "/secret/basic.ics"
    feed.response = Response(body=ics(event(START + DAY)).encode())
    await office.bench.advance(SIX_HOURS)
    assert len(feed.requests) == 2
    assert await busy(office) == [(START + DAY, START + DAY + HOUR)]
    await office.ask(office.cleo, "DELETE", f"{PATH}/{made['id']}")
    await office.bench.advance(DAY)
    assert len(feed.requests) == 2


UNREADABLE: list[tuple[Response, str]] = [
    (Response(status=404), "gone"),
    (Response(status=500), "refused"),
    (Response(status=302, headers={"Location": "http://169.254.169.254/"}), "redirected"),
    (Response(body=b"<html>please log in</html>"), "not_a_calendar"),
    (Response(body=b"BEGIN:VCALENDAR\r\n" + b"X:\xff" * 400_000), "too_large"),
    (Response(body=b"BEGIN:VCALENDAR\r\n" + b"BEGIN:VEVENT\r\nEND:VEVENT\r\n" * 5_001), "too_large"),
    (Response(body=b"BEGIN:VCALENDAR\r\n" + b" " * 4_000_001), "too_large"),
]


async def test_what_cannot_be_read_says_why_and_what_was_read_before_holds(
    office: Office, feed: Feed
) -> None:
    made = await followed(office, feed)
    for response, reason in UNREADABLE:
        feed.response = response
        await office.bench.advance(7 * DAY)
        found = await read(office, made)
        assert (found["status"], found["reason"], found["busy_count"]) == ("failed", reason, 1)
        assert await busy(office) == [(START, START + HOUR)]
    feed.response = Response(body=ics().encode())
    await office.bench.advance(7 * DAY)
    found = await read(office, made)
    assert (found["status"], found["reason"], found["busy_count"]) == ("read", None, 0)


async def test_what_fails_is_asked_less_and_less_often(office: Office, feed: Feed) -> None:
    await followed(office, feed)
    feed.response = Response(status=404)
    asked: list[int] = []
    for hour in range(6, 28 * 24, 6):
        await office.bench.advance(SIX_HOURS)
        if len(feed.requests) > len(asked) + 1:
            asked.append(hour)
    assert asked == [6, 12, 24, 48, 96, 192, 360, 528]


async def test_a_name_that_leads_inside_is_not_called(
    office: Office, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was right when it was given may lead elsewhere by now; that is seen when it is called."""
    made = done(await office.ask(office.cleo, "POST", PATH, {"url": feed.url}), 201)
    reach = Reach(ports=frozenset({feed.server.port}), is_plain_allowed=True)
    monkeypatch.setattr(downloading, "REACH", reach)
    await office.bench.run_due()
    found = await read(office, made)
    assert (found["status"], found["reason"]) == ("failed", "unsafe_url")
    assert feed.server.connections == 0
