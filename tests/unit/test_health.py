"""The port: what whoever watches the process may ask, what comes before and after the API, and bad questions."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from timebell.config import Settings
from timebell.errors import PortInUse
from timebell.kernel.insights.records import Pulse
from timebell.web.server import heads, listening
from timebell.web.server.health import health_of
from timebell.web.server.listening import Front, Listener

HOST = "127.0.0.1"
Ask = Callable[[bytes], Coroutine[Any, Any, tuple[int, bytes]]]


class Watched:
    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.front = Front(self.ask)

    async def ask(self) -> list[str]:
        return self.complaints


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest_asyncio.fixture
async def ask(watched: Watched) -> AsyncIterator[Ask]:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    listener = Listener(watched.front)
    await listener.start(HOST, port)

    async def send(request: bytes) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request)
        if b"\r\n\r\n" not in request:
            writer.write_eof()
        async with asyncio.timeout(10):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = await reader.readline()
                if not line:
                    break
                head += line
            length = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(length[0]) if length and b"HEAD" not in request[:4] else b""
        writer.close()
        return (int(head.split()[1]), body) if head else (0, b"")

    yield send
    await listener.close()


async def test_a_process_that_lives_and_is_ready(ask: Ask) -> None:
    assert await ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (200, b'{"status":"ok"}\n')
    assert await ask(b"GET /readyz?x=1 HTTP/1.1\r\n\r\n") == (200, b'{"status":"ready"}\n')
    assert await ask(b"HEAD /readyz HTTP/1.0\r\n\r\n") == (200, b"")


async def test_a_process_that_is_not_ready_says_why(ask: Ask, watched: Watched) -> None:
    watched.complaints = ["the database does not answer"]
    status, body = await ask(b"GET /readyz HTTP/1.1\r\n\r\n")
    assert status == 503
    assert json.loads(body)["reasons"] == ["the database does not answer"]
    assert (await ask(b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200


async def test_an_eventsource_that_comes_too_early_or_too_late_comes_again(
    ask: Ask, watched: Watched
) -> None:
    """It takes every status but 200 as final."""
    browser = b"GET /v1/inbox/stream HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n"
    program = b"GET /v1/inbox/stream HTTP/1.1\r\nAccept: */*\r\n\r\n"
    for reason in ("starting", "stopping"):
        status, body = await ask(browser)
        assert status == 200
        retry, event, data = body.decode().rstrip().split("\n")
        assert retry.startswith("retry: ")
        assert event == "event: end"
        assert json.loads(data.removeprefix("data: "))["reason"] == reason
        assert (await ask(program))[0] == 503
        await watched.front.close(0.1)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /readyz HTTP/1.1\r\ncontent-length: 0\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /readyz SMTP\r\n\r\n", 400),
        (b"GET /readyz HTTP/1.1\r\n", 0),
        (b"GET /" + b"x" * 100_000, 400),
        (b"GET / HTTP/1.1\r\nname: " + b"x" * 100_000, 400),
    ],
)
async def test_bad_questions(ask: Ask, request_: bytes, status: int) -> None:
    found, body = await ask(request_)
    assert found == status
    if status:
        assert json.loads(body)["code"] == {400: "malformed_http", 405: "method_not_allowed"}[status]
    assert (await ask(b"GET /healthz HTTP/1.1\r\n\r\n"))[0] == 200


async def test_a_head_that_does_not_end_is_given_up(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "_HEAD_SECONDS", 0.05)
    assert await ask(b"GET / HTTP/1.1\r\nx: \r\n\r\n".replace(b"\r\n\r\n", b"\r\n")) == (0, b"")


async def test_an_answer_may_take_longer_than_a_head(
    ask: Ask, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "_HEAD_SECONDS", 0.01)
    let_go = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        asyncio.get_running_loop().call_later(0.2, let_go.set)
        await let_go.wait()
        await PlainTextResponse("done")(scope, receive, send)

    watched.front.open(slow)
    assert await ask(b"POST /slow HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}") == (200, b"done")


async def test_before_and_after_the_api_whoever_asks_is_told_to_come_again(
    ask: Ask, watched: Watched
) -> None:
    question = b"GET /v1/jobs HTTP/1.1\r\n\r\n"
    status, body = await ask(question)
    assert (status, json.loads(body)["code"]) == (503, "starting")
    watched.front.open(PlainTextResponse("jobs"))
    assert await ask(question) == (200, b"jobs")
    await watched.front.close(1.0)
    status, body = await ask(question)
    assert (status, json.loads(body)["code"]) == (503, "stopping")


async def test_a_refusal_of_the_door_has_the_id_of_the_request(watched: Watched) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    for path, method in (("/v1/jobs", "GET"), ("/readyz", "POST")):
        sent.clear()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(b"x-correlation-id", b"order-7")],
        }
        await watched.front(scope, no_more, send)
        assert (b"x-correlation-id", b"order-7") in sent[0]["headers"]
        assert json.loads(sent[1]["body"])["correlation_id"] == "order-7"


async def no_more() -> Message:
    return {"type": "http.disconnect"}


async def test_where_too_many_are_under_way_nobody_is_told_that_it_is_starting(
    ask: Ask, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_IN_FLIGHT_MAX", 0)
    watched.front.open(PlainTextResponse("jobs"))
    status, body = await ask(b"GET /v1/jobs HTTP/1.1\r\n\r\n")
    assert (status, json.loads(body)["code"]) == (503, "unavailable")


async def test_what_is_being_answered_is_answered_to_the_end(ask: Ask, watched: Watched) -> None:
    reached, let_go = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        reached.set()
        await let_go.wait()
        await PlainTextResponse("done")(scope, receive, send)

    watched.front.open(slow)
    under_way = asyncio.create_task(ask(b"GET /slow HTTP/1.1\r\n\r\n"))
    await reached.wait()
    closing = asyncio.create_task(watched.front.close(10.0))
    await asyncio.sleep(0)
    assert (await ask(b"GET /slow HTTP/1.1\r\n\r\n"))[0] == 503
    let_go.set()
    assert await under_way == (200, b"done")
    await closing


async def test_what_never_ends_is_ended(ask: Ask, watched: Watched) -> None:
    reached = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        reached.set()
        await asyncio.Event().wait()

    watched.front.open(endless)
    under_way = asyncio.create_task(ask(b"GET /endless HTTP/1.1\r\n\r\n"))
    await reached.wait()
    await watched.front.close(0.0)
    status, body = await under_way
    assert (status, json.loads(body)["code"]) == (503, "stopping")


async def test_a_port_that_is_taken(watched: Watched) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PortInUse, match="--port"):
        await Listener(watched.front).start(HOST, taken.getsockname()[1])


async def test_an_address_that_is_none_of_this_machine(watched: Watched) -> None:
    with pytest.raises(PortInUse, match="host"):
        await Listener(watched.front).start("nowhere.invalid", 1)


NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)
SETTINGS = Settings(lease_seconds=30)


def pulse(**seconds_ago: float) -> Pulse:
    at = {name: NOW - timedelta(seconds=seconds) for name, seconds in seconds_ago.items()}
    return Pulse(now=NOW, passed_at=at.get("passed"), planned_at=at.get("planned"), lateness_seconds=1.5)


@pytest.mark.req("J-12.4")
@pytest.mark.parametrize(
    ("complaints", "found", "is_well"),
    [
        ([], pulse(passed=30), True),
        ([], pulse(passed=30.001), False),
        ([], pulse(planned=1), False),
        (["the sweep loop stands still"], pulse(passed=1), False),
        ([], None, False),
    ],
)
def test_health_is_that_of_whoever_pays(complaints: list[str], found: Pulse | None, is_well: bool) -> None:
    assert health_of(complaints, found, None, SETTINGS)[0] is is_well


@pytest.mark.req("J-12.4")
def test_health_says_when_and_how_late() -> None:
    assert health_of([], pulse(passed=1, planned=60), None, SETTINGS)[1] == {
        "status": "ok",
        "last_trigger_at": "2027-03-01T08:59:00Z",
        "last_pass_at": "2027-03-01T08:59:59Z",
        "queue_lag_seconds": 1.5,
    }
    assert health_of([], None, None, SETTINGS)[1] == {
        "status": "unhealthy",
        "last_trigger_at": None,
        "last_pass_at": None,
        "queue_lag_seconds": None,
    }


@pytest.mark.parametrize("is_well", [True, False])
async def test_health_is_answered_at_its_path(is_well: bool) -> None:
    async def health() -> tuple[bool, dict[str, object]]:
        return is_well, {"status": "as told"}

    async def no_complaints() -> list[str]:
        return []

    front = Front(no_complaints, health=health)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(front), base_url="http://bell.test"
    ) as client:
        answer = await client.get("/health")
    assert (answer.status_code, answer.json()) == (200 if is_well else 503, {"status": "as told"})
