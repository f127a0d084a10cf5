"""What a push service is told, and what its answers mean."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.providers.http_server import Request, Response
from tests.contract.providers.other_sides import CONTACT, WebPushSide
from tests.contract.providers.parcels import NOW
from timebell.errors import InvalidInput
from timebell.notify.provider import Answer, Content, Rejected, Sent, Unavailable, Uncertain
from timebell.providers.push_encryption import VapidKey
from timebell.providers.safe_http import safe_caller
from timebell.providers.webpush import WebPush
from timebell.testing.provider_suite import Behaviour


@pytest_asyncio.fixture
async def side() -> AsyncIterator[WebPushSide]:
    made = WebPushSide()
    await made.open()
    yield made
    await made.close()


async def answer_to(side: WebPushSide, status: int, **headers: str) -> Answer:
    def answer(behaviour: Behaviour, request: Request) -> Response:
        return Response(status=status, headers=headers)

    side.answer = answer  # type: ignore[method-assign]
    return await side.provider.send(side.parcel())


@pytest.mark.req("M-5.8")
async def test_the_browser_reads_what_was_told(side: WebPushSide) -> None:
    answer = await side.provider.send(side.parcel())
    assert answer == Sent(provider_id=f"{side.server.url}/message/qDIYHNcfAIPP_5", detail={"status": 201})
    (message,) = side.messages
    assert message == {
        "title": "Meeting at ten",
        "body": "Your meeting begins at ten.",
        "tag": side.requests[0].headers["topic"],
        "data": {"url": "/meetings/42"},
    }
    assert b"ten" not in side.requests[0].body


@pytest.mark.parametrize(
    ("fields", "ttl", "urgency"),
    [
        ({}, "1800", "normal"),
        ({"is_urgent": True}, "1800", "high"),
        ({"expires_at": None}, "86400", "normal"),
        ({"expires_at": NOW - timedelta(seconds=1)}, "0", "normal"),
        ({"expires_at": NOW + timedelta(days=365)}, str(28 * 86_400), "normal"),
        ({"attempted_at": NOW + timedelta(minutes=20)}, "600", "normal"),
    ],
)
async def test_how_long_it_is_kept_and_whether_it_wakes(
    side: WebPushSide, fields: dict[str, Any], ttl: str, urgency: str
) -> None:
    assert isinstance(await side.provider.send(replace(side.parcel(), **fields)), Sent)
    headers = side.requests[0].headers
    assert (headers["ttl"], headers["urgency"]) == (ttl, urgency)


async def test_a_second_copy_replaces_the_first(side: WebPushSide) -> None:
    first = side.parcel()
    await side.provider.send(first)
    await side.provider.send(replace(first, attempted_at=NOW + timedelta(hours=1)))
    await side.provider.send(replace(first, key="another"))
    await side.provider.send(replace(first, tenant="another"))
    one, again, other, elsewhere = (request.headers["topic"] for request in side.requests)
    assert one == again
    assert len({one, other, elsewhere}) == 3


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_ended(side: WebPushSide, status: int) -> None:
    answer = await answer_to(side, status)
    assert answer == Rejected(reason="unsubscribed", blame="address", is_gone=True, detail={"status": status})


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (200, Uncertain, "garbled"),
        (202, Sent, None),
        (301, Rejected, "redirected"),
        (400, Rejected, "refused"),
        (401, Unavailable, "unauthorized"),
        (403, Rejected, "bound_to_another_key"),
        (413, Rejected, "too_large"),
        (500, Uncertain, "server_error"),
        (503, Unavailable, "down"),
    ],
)
async def test_what_the_service_answers(
    side: WebPushSide, status: int, kind: type, reason: str | None
) -> None:
    answer = await answer_to(side, status)
    assert isinstance(answer, kind)
    assert getattr(answer, "reason", None) == reason
    assert not (isinstance(answer, Rejected) and answer.is_gone)


@pytest.mark.parametrize(
    ("fields", "blame"),
    [
        ({"detail": {}}, "address"),
        ({"detail": {"keys": "none"}}, "address"),
        ({"detail": {"keys": {"p256dh": "x", "auth": "y"}}}, "address"),
        ({"address": "not a URL"}, "address"),
        ({"address": "ftp://push.example/1"}, "address"),
        ({"address": "https://[::1/"}, "address"),
        ({"content": Content(text="x" * 5_000, subject="s")}, "content"),
    ],
)
async def test_what_cannot_be_pushed_never_leaves(
    side: WebPushSide, fields: dict[str, Any], blame: str
) -> None:
    answer = await side.provider.send(replace(side.parcel(), **fields))
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.blame, answer.is_gone) == ("not_pushable", blame, False)
    assert side.server.connections == 0


@pytest.mark.parametrize("data", [{"n": 2**70}, {"text": "\ud800"}])
async def test_what_json_cannot_hold_never_leaves(side: WebPushSide, data: dict[str, Any]) -> None:
    answer = await side.provider.send(replace(side.parcel(), content=Content(text="x", data=data)))
    assert answer == Rejected(reason="unwritable")
    assert side.server.connections == 0


@pytest.mark.req("U-17")
def test_each_push_service_fails_for_itself() -> None:
    """Browsers name their service, so a stranger could else shut the breaker for everybody's messages."""
    assert WebPush(safe_caller(), key=VapidKey.new(), contact=CONTACT).traits.is_per_host


@pytest.mark.parametrize("keys", ["keys", ""])
async def test_the_keys_may_lie_flat(side: WebPushSide, keys: str) -> None:
    flat = side.browser.keys()
    detail: dict[str, Any] = {keys: flat} if keys else dict(flat)
    assert isinstance(await side.provider.send(replace(side.parcel(), detail=detail)), Sent)


async def test_an_endpoint_inside_is_not_called(side: WebPushSide) -> None:
    provider = WebPush(safe_caller(), key=VapidKey.new(), contact=CONTACT)
    try:
        answer = await provider.send(side.parcel())
    finally:
        await provider.close()
    assert answer == Rejected(reason="unsafe_url", blame="address")
    assert side.server.connections == 0


async def test_a_message_is_signed_with_its_time(side: WebPushSide) -> None:
    with pytest.raises(InvalidInput, match="attempted_at: a push message is signed"):
        await side.provider.send(replace(side.parcel(), attempted_at=None, first_tried_at=None))
