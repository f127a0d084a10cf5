"""The providers that speak HTTP keep the contract, each with a real server that its own documentation describes."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.contract.providers.http_server import Request, Response, as_json
from tests.contract.providers.http_side import LONG_TIMEOUT, HttpSide, has_a_crowd
from tests.contract.providers.mail_sides import ResendSide, SendGridSide
from tests.contract.providers.message_sides import (
    SECRET,
    InfobipSmsSide,
    InfobipWhatsAppSide,
    WebhookSide,
)
from tests.contract.providers.other_sides import WebPushSide
from tests.contract.providers.parcels import INVITATION, NOW
from timebell.notify.delivery.answers import within
from timebell.notify.provider import Answer, Parcel, Rejected, Sent, Unavailable, Uncertain
from timebell.testing.provider_suite import CHECKS, Behaviour, Check, Counterpart, name_of

# A date whose offset no clock has.
FAR_EAST = "Sun, 15 Nov 2026 12:00:00 +99999999999999999"
SIDES: list[type[HttpSide]] = [ResendSide, SendGridSide, InfobipSmsSide, InfobipWhatsAppSide, WebhookSide]


@pytest_asyncio.fixture
async def side(request: pytest.FixtureRequest) -> AsyncIterator[HttpSide]:
    made: HttpSide = request.param()
    if has_a_crowd(request):
        made.timeout = LONG_TIMEOUT
    await made.open()
    yield made
    await made.close()


def with_side(*sides: type[HttpSide]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("side", sides, indirect=True, ids=lambda it: it.__name__)


@pytest.mark.req("U-19", "X-C13")
@with_side(*SIDES)
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
async def test_it_conforms(check: Check, side: Counterpart) -> None:
    await check(side)


async def answer_to(side: HttpSide, response: Response, parcel: Parcel | None = None) -> Answer:
    """What the provider makes of this response of its service."""

    def answer(behaviour: Behaviour, request: Request) -> Response:
        return response

    side.answer = answer  # type: ignore[method-assign]
    return await side.provider.send(parcel or side.parcel())


@with_side(*SIDES)
@pytest.mark.parametrize("status", [408, 503])
async def test_a_status_that_says_it_was_not_taken_is_certain(side: HttpSide, status: int) -> None:
    assert isinstance(await answer_to(side, Response(status=status)), Unavailable)


@with_side(ResendSide, SendGridSide, InfobipSmsSide, InfobipWhatsAppSide)
@pytest.mark.parametrize("status", [500, 502, 504, 520])
async def test_a_server_that_failed_on_the_way_may_have_taken_it(side: HttpSide, status: int) -> None:
    assert isinstance(await answer_to(side, Response(status=status)), Uncertain)


@with_side(WebhookSide)
@pytest.mark.parametrize("status", [400, 401, 404, 500, 502, 504])
async def test_a_receiver_that_failed_gets_it_again(side: HttpSide, status: int) -> None:
    assert isinstance(await answer_to(side, Response(status=status)), Unavailable)


@pytest.mark.req("A-6.4")
@with_side(*SIDES)
@pytest.mark.parametrize("asked", ["Sun, 15 Nov 2026 12:00:30 GMT", "30"])
async def test_the_wait_may_be_a_date_of_the_server(side: HttpSide, asked: str) -> None:
    headers = {"Date": "Sun, 15 Nov 2026 12:00:00 GMT", "Retry-After": asked}
    answer = await answer_to(side, Response(status=429, headers=headers))
    assert isinstance(answer, Unavailable)
    assert answer.retry_after == timedelta(seconds=30)


@with_side(*SIDES)
@pytest.mark.parametrize("asked", ["soon", "-5", "9" * 400, "Sun, 99 Nov 2026 12:00:00 GMT", "1e9", FAR_EAST])
async def test_a_wait_that_makes_no_sense_is_bounded_or_left_out(side: HttpSide, asked: str) -> None:
    answer = await answer_to(side, Response(status=429, headers={"Retry-After": asked}))
    assert isinstance(answer, Unavailable)
    assert answer.retry_after is None or timedelta(0) <= answer.retry_after <= timedelta(hours=24)


@with_side(*SIDES)
async def test_an_answer_is_read_up_to_a_limit(side: HttpSide) -> None:
    answer = await answer_to(side, Response(status=400, body=b"x" * 10_000_000))
    assert isinstance(answer, Rejected | Unavailable)
    assert len(str(answer.detail)) < 1_000


@with_side(ResendSide)
async def test_resend_takes_one_key_once(side: HttpSide) -> None:
    """.../idempotency-keys: the same key gives the same response, and no second mail."""
    first = await side.provider.send(side.parcel())
    assert first == await side.provider.send(side.parcel())
    assert len({key for _, key in side.taken()}) == 1


@with_side(ResendSide)
@pytest.mark.parametrize(
    ("status", "name", "expected"),
    [
        (409, "concurrent_idempotent_requests", Uncertain),
        (409, "invalid_idempotent_request", Uncertain),
        (429, "daily_quota_exceeded", Unavailable),
        (403, "validation_error", Rejected),
        (401, "missing_api_key", Unavailable),
        (422, "invalid_from_address", Rejected),
    ],
)
async def test_what_resends_errors_mean(
    side: HttpSide, status: int, name: str, expected: type[Answer]
) -> None:
    """https://resend.com/docs/api-reference/errors"""
    answer = await answer_to(side, as_json(status, {"name": name, "message": "Words about it."}))
    assert isinstance(answer, expected)


@pytest.mark.req("A-6.2")
@with_side(InfobipSmsSide)
@pytest.mark.parametrize(
    ("group", "name", "expected", "blame"),
    [
        ("PENDING", "PENDING_ENROUTE", Sent, None),
        ("REJECTED", "REJECTED_NOT_ENOUGH_CREDITS", Unavailable, None),
        ("REJECTED", "REJECTED_SYSTEM_ERROR", Unavailable, None),
        ("REJECTED", "REJECTED_DESTINATION", Rejected, "address"),
        ("REJECTED", "REJECTED_DUPLICATE_MESSAGE_ID", Uncertain, None),
        ("REJECTED", "REJECTED_SENDER", Rejected, "account"),
        ("REJECTED", "REJECTED_MESSAGE_TOO_LONG", Rejected, "content"),
        ("WHO_KNOWS", "WHO_KNOWS", Uncertain, None),
    ],
)
async def test_what_infobips_statuses_mean(
    side: HttpSide, group: str, name: str, expected: type[Answer], blame: str | None
) -> None:
    status = {"groupName": group, "name": name}
    answer = await answer_to(side, as_json(200, {"messages": [{"messageId": "m", "status": status}]}))
    assert isinstance(answer, expected)
    assert blame is None or (isinstance(answer, Rejected) and answer.blame == blame)


@with_side(InfobipSmsSide)
async def test_a_duplicate_that_had_been_refused_is_found_out(side: HttpSide) -> None:
    """Had it been taken for sent because its id was known, it would have been lost."""
    assert isinstance(side, InfobipSmsSide)
    side.statuses[str(side.parcel().delivery_id)] = ("REJECTED", "REJECTED_NOT_ENOUGH_CREDITS")
    assert isinstance(await side.provider.send(side.parcel()), Uncertain)
    assert isinstance(await side.provider.look_up(side.parcel()), Rejected)


@with_side(InfobipSmsSide)
@pytest.mark.parametrize(("hours", "expected"), [(1, Unavailable), (45, Unavailable), (47, Uncertain)])
async def test_a_log_that_no_longer_reaches_so_far_says_nothing(
    side: HttpSide, hours: int, expected: type[Answer]
) -> None:
    """Logs are available for 48 hours. Taken for one that never arrived, it would be sent a second time."""
    assert isinstance(side, InfobipSmsSide)
    side.now = NOW + timedelta(hours=hours)
    assert isinstance(await side.provider.look_up(side.parcel()), expected)


@with_side(SendGridSide)
@pytest.mark.parametrize(("field", "expected"), [("from", Rejected), (None, Unavailable)])
async def test_a_sender_that_was_not_verified_is_no_wrong_key(
    side: HttpSide, field: str | None, expected: type[Answer]
) -> None:
    """Both are 403; an answer of SendGrid's with `from` is quoted in https://github.com/sendgrid/sendgrid-ruby/pull/489.
    A tenant may name any sender, and must not open the breaker of all."""
    answer = await answer_to(side, as_json(403, {"errors": [{"field": field, "message": "Words about it."}]}))
    assert isinstance(answer, expected)
    assert not isinstance(answer, Rejected) or answer.blame == "account"


@with_side(ResendSide, SendGridSide)
async def test_an_invitation_is_a_file_whose_type_says_what_it_asks(side: HttpSide) -> None:
    parcel = side.parcel()
    content = replace(parcel.content, calendar=INVITATION)
    assert isinstance(await side.provider.send(replace(parcel, content=content)), Sent)
    message = side.requests[0].json()
    (file,) = message["attachments"]
    assert b64decode(file["content"]).decode() == INVITATION
    assert file["filename"] == "invite.ics"
    kinds = [file.get("content_type"), *(part["type"] for part in message.get("content", ()))]
    assert any(kind and kind.startswith("text/calendar;") and "method=REQUEST" in kind for kind in kinds)


@with_side(ResendSide, SendGridSide)
async def test_a_calendar_that_asks_nothing_is_no_invitation(side: HttpSide) -> None:
    parcel = side.parcel()
    content = replace(parcel.content, calendar="BEGIN:VCALENDAR")
    answer = await side.provider.send(replace(parcel, content=content))
    assert isinstance(answer, Rejected)
    assert answer.blame == "content"
    assert side.server.connections == 0


@with_side(*SIDES, WebPushSide)
async def test_what_never_got_a_connection_is_certain_at_the_deadline_too(side: HttpSide) -> None:
    """It knows that nothing was handed over, which a deadline that ran out around it would not; and it hangs up."""
    has_ended = asyncio.Event()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.transport.abort()
        has_ended.set()

    await side.behave("down")
    mute = await asyncio.start_server(stay_silent, "127.0.0.1", side.server.port)
    try:
        answer = await within(side.provider.traits.timeout, side.provider.send(side.parcel()))
        assert isinstance(answer, Unavailable)
        async with asyncio.timeout(5):
            await has_ended.wait()
    finally:
        mute.close()


@with_side(ResendSide, SendGridSide, InfobipSmsSide)
async def test_a_kept_connection_that_was_closed_is_not_written_to(side: HttpSide) -> None:
    """Writing to it would leave a mail uncertain that nobody ever saw."""
    for number in range(2):
        parcel = replace(side.parcel(), delivery_id=UUID(int=number), key=str(number))
        assert isinstance(await side.provider.send(parcel), Sent)
    assert side.server.connections == 1
    await side.behave("down")
    await side.behave("accept")
    other = replace(side.parcel(), delivery_id=UUID(int=7), key="seven")
    assert isinstance(await side.provider.send(other), Sent)
    assert side.server.connections == 2


@with_side(InfobipWhatsAppSide)
async def test_a_conversation_is_begun_with_a_template(side: HttpSide) -> None:
    """https://www.infobip.com/docs/api/channels/whatsapp: templateName, templateData.body.placeholders, language."""
    template = {"name": "meeting_reminder", "language": "de", "placeholders": ["Ann", 10]}
    parcel = side.parcel()
    parcel = replace(parcel, content=replace(parcel.content, data={"whatsapp_template": template}))

    def examine(request: Request) -> tuple[str, str]:
        assert request.path == "/whatsapp/1/message/template"
        (message,) = request.json()["messages"]
        assert message["content"] == {
            "templateName": "meeting_reminder",
            "templateData": {"body": {"placeholders": ["Ann", "10"]}},
            "language": "de",
        }
        return message["to"], message["messageId"]

    side.examine = examine  # type: ignore[method-assign]
    status = {"groupName": "PENDING", "name": "PENDING_ENROUTE"}
    answer = await answer_to(side, as_json(200, {"messages": [{"messageId": "m", "status": status}]}), parcel)
    assert isinstance(answer, Sent)


@with_side(*SIDES)
async def test_a_key_that_no_header_can_carry_is_carried_by_its_hash(side: HttpSide) -> None:
    parcel = replace(side.parcel(), key="a\r\nX-Injected: 1\r\n" + "ü" * 400)
    assert isinstance(await side.provider.send(parcel), Sent)
    assert "x-injected" not in side.requests[0].headers


@with_side(ResendSide, SendGridSide)
@pytest.mark.parametrize(
    ("changes", "blame"),
    [
        ({"address": "ann@example.org, eve@example.org"}, "address"),
        ({"address": "ann@example.org\r\nBcc: eve@example.org"}, "address"),
        ({"sender": {"email": "not an address"}}, "account"),
        ({"sender": {"email": "a@acme.example", "reply_to": "x\ny"}}, "account"),
    ],
)
async def test_one_address_is_one_address(side: HttpSide, changes: dict[str, Any], blame: str) -> None:
    answer = await side.provider.send(replace(side.parcel(), **changes))
    assert isinstance(answer, Rejected)
    assert answer.blame == blame
    assert side.server.connections == 0


@with_side(*SIDES)
async def test_half_a_character_is_rejected(side: HttpSide) -> None:
    parcel = side.parcel()
    answer = await side.provider.send(replace(parcel, content=replace(parcel.content, text="\ud800")))
    assert isinstance(answer, Rejected)
    assert side.server.connections == 0


@with_side(WebhookSide)
async def test_a_number_that_json_loses_is_rejected(side: HttpSide) -> None:
    parcel = side.parcel()
    answer = await side.provider.send(replace(parcel, content=replace(parcel.content, data={"n": 2**70})))
    assert isinstance(answer, Rejected)


@with_side(ResendSide, SendGridSide)
async def test_what_a_service_says_is_kept_without_the_address_and_the_key(side: HttpSide) -> None:
    words = "ann@example.org\0is odd,\nas is Bearer re_123 SG.123"
    said = {"name": words, "message": words, "errors": [{"field": words, "message": words}]}
    answer = await answer_to(side, as_json(400, said))
    assert isinstance(answer, Rejected)
    own, other = ("re_123", "SG.123") if isinstance(side, ResendSide) else ("SG.123", "re_123")
    kept = words.replace(own, "…").replace("ann@example.org\0is odd,\n", "… is odd, ")
    assert other in kept
    assert answer.detail == {"status": 400, "code": kept, "note": kept}


@with_side(WebhookSide)
async def test_two_secrets_sign_while_one_is_exchanged(side: HttpSide) -> None:
    old = "whsec_" + "b2xkIHNlY3JldCBvZiB0aGUgcmVjZWl2ZXI="
    parcel = replace(side.parcel(), detail={"secret": old, "previous_secret": SECRET})
    assert isinstance(await side.provider.send(parcel), Sent)
    assert len(side.requests[0].headers["webhook-signature"].split(" ")) == 2


@with_side(WebhookSide)
@pytest.mark.parametrize("secret", [None, "", "whsec_", "whsec_c2hvcnQ=", "not base64!", 7])
async def test_nothing_is_sent_unsigned(side: HttpSide, secret: object) -> None:
    answer = await side.provider.send(replace(side.parcel(), detail={"secret": secret}))
    assert isinstance(answer, Rejected)
    assert side.server.connections == 0


@with_side(WebhookSide)
async def test_a_webhook_is_the_same_at_every_attempt(side: HttpSide) -> None:
    await side.provider.send(side.parcel())
    await side.provider.send(side.parcel())
    first, second = side.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


@with_side(WebhookSide)
async def test_a_webhook_that_is_too_large_is_rejected(side: HttpSide) -> None:
    parcel = side.parcel()
    large = replace(parcel, content=replace(parcel.content, text="x" * 20_001))
    assert isinstance(await side.provider.send(large), Rejected)
    assert side.server.connections == 0


@with_side(WebhookSide)
async def test_no_data_takes_the_place_of_what_a_webhook_tells(side: HttpSide) -> None:
    parcel = side.parcel()
    data = {"id": "mine", "subject": "mine", "text": "", "meeting": 7}
    assert isinstance(
        await side.provider.send(replace(parcel, content=replace(parcel.content, data=data))), Sent
    )
    told = json.loads(side.requests[0].body)["data"]
    assert (told["text"], told["meeting"]) == (parcel.content.text, 7)
    assert (told["id"], told["subject"]) == (str(parcel.delivery_id), parcel.content.subject)
