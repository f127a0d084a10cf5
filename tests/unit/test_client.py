"""The client against a server that fails in every way: what is said again, how often, with which key, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
import orjson
import pytest

from timebell.client import Client, NoAnswer, ReadAnew, Refused
from timebell.client.people import InboxEntry
from timebell.clock import Chance, ManualClock
from timebell.errors import InvalidInput

PERSON = UUID("0198c9a4-7a5c-7d31-8a60-6f2f5c1f5b11")
MADE = {"id": str(PERSON), "created": True}

Reply = httpx2.Response | Exception


class Waits(ManualClock):
    """Writes down how long was waited."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Server:
    """Answers with what it was given, one after the other, and remembers what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[httpx2.Request] = []
        self.waits = Waits()

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def client(self, **options: Any) -> Client:
        return Client(
            "http://bell.test",
            "a-key",
            transport=httpx2.MockTransport(self),
            clock=self.waits,
            chance=Chance(1),
            **options,
        )

    def header(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.asked]


def said(status: int, content: Any = None, **headers: str) -> httpx2.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, content=b"" if content is None else orjson.dumps(content), headers=sent)


def refusal(status: int, code: str, **headers: str) -> httpx2.Response:
    content = {"code": code, "detail": "no", "errors": [], "correlation_id": "abc", "next_free": 7}
    return said(status, content, **headers)


@pytest.mark.parametrize(
    "failure",
    [
        httpx2.ConnectError("nobody there"),
        httpx2.ReadError("cut off"),
        httpx2.RemoteProtocolError("cut off"),
        httpx2.ReadTimeout("too slow"),
        TimeoutError(),
        said(500),
        said(502, "a proxy's words"),
        refusal(503, "unavailable"),
        refusal(429, "rate_limited"),
        refusal(409, "idempotency_key_in_use"),
    ],
)
async def test_what_gets_no_answer_is_said_again_with_the_same_key(failure: Reply) -> None:
    server = Server(failure, said(201, MADE))
    async with server.client() as client:
        made = await client.jobs.create("office.ring", payload={"n": 1})
    assert (made.id, made.created) == (PERSON, True)
    first, second = server.header("idempotency-key")
    assert first is not None
    assert first == second
    assert server.asked[0].content == server.asked[1].content
    assert len(server.waits.seconds) == 1


async def test_every_call_has_a_key_of_its_own_and_takes_one_that_is_given() -> None:
    server = Server(*[said(201, MADE)] * 3)
    async with server.client() as client:
        await client.jobs.create("office.ring")
        await client.jobs.create("office.ring")
        await client.jobs.create("office.ring", idempotency_key="mine")
    keys = server.header("idempotency-key")
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


@pytest.mark.parametrize(
    ("status", "code"), [(404, "not_found"), (409, "key_conflict"), (422, "invalid_input"), (401, "x")]
)
async def test_what_was_refused_is_not_said_again(status: int, code: str) -> None:
    server = Server(refusal(status, code))
    async with server.client() as client:
        with pytest.raises(Refused) as refused:
            await client.jobs.create("office.ring")
    error = refused.value
    assert (error.status, error.code, error.detail, error.correlation_id) == (status, code, "no", "abc")
    assert error.content["next_free"] == 7
    assert server.waits.seconds == []


async def test_it_gives_up_after_so_many_attempts_and_waits_longer_each_time() -> None:
    server = Server(*[httpx2.ConnectError("nobody there")] * 4)
    async with server.client(attempts=4) as client:
        with pytest.raises(NoAnswer, match=r"POST /v1/jobs was not answered in 4 attempts: nobody there"):
            await client.jobs.create("office.ring")
    assert len(server.asked) == 4
    first, second, third = server.waits.seconds
    assert 0.2 <= first < 0.25 < 0.4 <= second < 0.5 < 0.8 <= third < 1
    refusing = Server(*[refusal(503, "unavailable")] * 2)
    async with refusing.client(attempts=2) as client:
        with pytest.raises(Refused, match="503 unavailable"):
            await client.jobs.get(PERSON)


async def test_the_server_says_how_long_to_wait() -> None:
    server = Server(
        refusal(429, "rate_limited", retry_after="7"),
        refusal(503, "unavailable", retry_after="100000"),
        refusal(503, "unavailable", retry_after="Wed, 21 Oct 2026 07:28:00 GMT"),
        said(201, MADE),
    )
    async with server.client() as client:
        await client.jobs.create("office.ring")
    first, second, third = server.waits.seconds
    assert 7 <= first <= 9
    assert 60 <= second <= 75
    assert third < 1


@pytest.mark.parametrize(
    ("failure", "is_repeated"),
    [
        (httpx2.ConnectError("nobody there"), True),
        (refusal(429, "rate_limited"), True),
        (httpx2.ReadTimeout("too slow"), False),
        (refusal(503, "unavailable"), False),
    ],
)
async def test_an_advance_by_is_only_said_again_where_it_cannot_have_arrived(
    failure: Reply, is_repeated: bool
) -> None:
    report = {"now": "2026-03-01T01:00:00Z", "ran": 1, "sent": 0, "failed": 0}
    server = Server(failure, said(200, report))
    async with server.client() as client:
        if is_repeated:
            assert (await client.clock.advance(by=timedelta(hours=1))).ran == 1
        else:
            with pytest.raises((NoAnswer, Refused)):
                await client.clock.advance(by=timedelta(hours=1))
    again = Server(httpx2.ReadTimeout("too slow"), said(200, report))
    async with again.client() as client:
        moved = await client.clock.advance(to=datetime(2026, 3, 1, 1, tzinfo=UTC))
    assert moved.now == datetime(2026, 3, 1, 1, tzinfo=UTC)


async def test_an_advance_is_waited_for_as_long_as_it_says() -> None:
    report = {"now": "2026-03-01T01:00:00Z", "ran": 1, "sent": 0, "failed": 0}
    server = Server(*[said(200, report)] * 2)
    async with server.client(seconds=3.0) as client:
        await client.clock.advance(by=timedelta(days=365))
        await client.clock.now()
    patience = [request.extensions["timeout"]["read"] for request in server.asked]
    assert patience == [600.0, 3.0]


async def test_what_is_sent_and_how() -> None:
    server = Server(said(201, MADE), said(200, {"data": [], "next_cursor": None}), refusal(412, "x"))
    async with server.client() as client:
        await client.jobs.create(
            "office.ring",
            delay=timedelta(days=1, minutes=90),
            expires_at=datetime(2026, 3, 1, 1, tzinfo=UTC),
            payload={"id": PERSON},
        )
        assert [task async for task in client.person(PERSON).tasks.list(completed=False)] == []
        with pytest.raises(Refused):
            await client.schedules.change(
                PERSON, if_revision=7, start_local=datetime(2026, 3, 1, 9), owner=None
            )
    created, listed, changed = server.asked
    assert created.headers["authorization"] == "Bearer a-key"
    assert orjson.loads(created.content) == {
        "kind": "office.ring",
        "delay": "PT25H30M",
        "expires_at": "2026-03-01T01:00:00Z",
        "payload": {"id": str(PERSON)},
    }
    assert dict(listed.url.params) == {"visible": "now", "completed": "false"}
    assert listed.headers["timebell-actor"] == str(PERSON)
    assert "idempotency-key" not in listed.headers
    assert changed.headers["if-match"] == '"rev-7"'
    assert orjson.loads(changed.content) == {"start_local": "2026-03-01T09:00:00", "owner": None}


@pytest.mark.parametrize(
    ("given", "shown"),
    [(timedelta(0), "PT0S"), (timedelta(hours=-1), "-PT1H"), (timedelta(days=400, seconds=1), "PT9600H1S")],
)
async def test_durations(given: timedelta, shown: str) -> None:
    server = Server(said(201, MADE))
    async with server.client() as client:
        await client.jobs.create("office.ring", delay=given)
    assert orjson.loads(server.asked[0].content)["delay"] == shown


async def test_what_cannot_be_meant_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="url: "):
        Client("127.0.0.1:8080", "a-key")
    with pytest.raises(InvalidInput, match="attempts: "):
        Client("http://127.0.0.1:8080", "a-key", attempts=0)
    async with Server().client() as client:
        with pytest.raises(InvalidInput, match="whole seconds"):
            await client.jobs.create("office.ring", delay=timedelta(milliseconds=1))


class Parts(httpx2.AsyncByteStream):
    """The parts of a body, and how it ends."""

    def __init__(self, parts: Sequence[str], failure: Exception | None) -> None:
        self._parts = parts
        self._failure = failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part.encode()
        if self._failure is not None:
            raise self._failure


def stream(*parts: str, failure: Exception | None = None) -> httpx2.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, stream=Parts(parts, failure))


def entry(seq: int) -> str:
    at = "2026-03-01T09:00:00Z"
    content = {
        "id": str(PERSON),
        "seq": seq,
        "type": "reminder",
        "title": f"Entry {seq}",
        "description": "",
        "status": "unseen",
        "priority": "normal",
        "payload": {},
        "subject": None,
        "due_at": at,
        "created_at": at,
        "updated_at": at,
    }
    return f"id: {seq}\ndata: {orjson.dumps(content).decode()}\n\n"


OPENING = "retry: 1000\nid: {0}\n\n"


async def take(server: Server, count: int, **options: Any) -> list[int]:
    found: list[int] = []
    async with server.client() as client:
        entries: AsyncIterator[InboxEntry] = client.person(PERSON).inbox.stream(**options)
        async for each in entries:
            found.append(each.seq)
            if len(found) == count:
                break
    return found


async def test_a_stream_goes_on_where_it_was_over_every_kind_of_end() -> None:
    lost = httpx2.ReadError("cut off")
    server = Server(
        stream(OPENING.format(4), failure=lost),
        httpx2.ConnectError("it starts again"),
        refusal(503, "unavailable"),
        stream(OPENING.format(4), entry(5), ":\n\n", entry(6)[:-9], failure=lost),
        stream(OPENING.format(5), entry(6), 'event: end\ndata: {"reason":"renew"}\n\n'),
        stream(OPENING.format(6), entry(7), entry(8)),
    )
    assert await take(server, 4) == [5, 6, 7, 8]
    assert server.header("last-event-id") == [None, "4", "4", "4", "5", "6"]
    assert set(server.header("timebell-actor")) == {str(PERSON)}


async def test_a_stream_from_a_place() -> None:
    server = Server(stream(OPENING.format(0), entry(1)))
    assert await take(server, 1, after=0) == [1]
    assert server.header("last-event-id") == ["0"]


@pytest.mark.parametrize(
    ("replies", "failure"),
    [
        ([refusal(401, "unauthenticated")], Refused),
        ([stream(OPENING.format(1)), refusal(401, "unauthenticated")], Refused),
        ([httpx2.ConnectError("nobody there")] * 5, NoAnswer),
        ([refusal(503, "unavailable")] * 5, Refused),
        ([stream(OPENING.format(3), 'event: resync\nid: 3\ndata: {"after":"3"}\n\n')], ReadAnew),
        ([said(200, {"not": "a stream"})] * 5, NoAnswer),
        ([stream() for _ in range(5)], NoAnswer),
    ],
)
async def test_a_stream_that_cannot_go_on(replies: list[Reply], failure: type[Exception]) -> None:
    server = Server(*replies)
    with pytest.raises(failure) as raised:
        await take(server, 1)
    assert not server.replies
    if isinstance(raised.value, ReadAnew):
        assert raised.value.after == "3"


async def test_a_stream_that_is_one_too_many_waits_as_long_as_it_is_told() -> None:
    full = refusal(429, "too_many_streams", retry_after="30")
    server = Server(full, stream(OPENING.format(0), entry(1)))
    assert await take(server, 1) == [1]
    [waited] = server.waits.seconds
    assert 30 <= waited <= 38
