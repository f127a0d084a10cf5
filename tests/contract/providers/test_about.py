"""Whom a failure is about, by the answers of services over HTTP: only those about the provider open its breaker."""

from __future__ import annotations

import pytest

from tests.contract.providers.http_server import Request, Response, as_json
from tests.contract.providers.http_side import HttpSide
from tests.contract.providers.mail_sides import ResendSide, SendGridSide
from tests.contract.providers.message_sides import InfobipSmsSide, WebhookSide
from tests.contract.providers.other_sides import WebPushSide
from timebell.notify.delivery.answers import error_class_of
from timebell.notify.provider import About, Unavailable, Uncertain
from timebell.testing.provider_suite import Behaviour


def standing(name: str) -> Response:
    status = {"groupName": "REJECTED", "name": name}
    return as_json(200, {"messages": [{"messageId": "1", "status": status}]})


CASES: list[tuple[type[HttpSide], Response, About]] = [
    (ResendSide, as_json(409, {"name": "concurrent_idempotent_requests"}), "parcel"),
    (ResendSide, as_json(429, {"name": "daily_quota_exceeded"}), "provider"),
    (ResendSide, as_json(500, {"name": "application_error"}), "provider"),
    (SendGridSide, as_json(401, {"errors": [{"message": "no"}]}), "provider"),
    (SendGridSide, as_json(503, {}), "provider"),
    (InfobipSmsSide, standing("REJECTED_SYSTEM_ERROR"), "provider"),
    (InfobipSmsSide, standing("REJECTED_NOT_ENOUGH_CREDITS"), "provider"),
    (InfobipSmsSide, standing("REJECTED_PREPAID_PACKAGE_EXPIRED"), "provider"),
    (InfobipSmsSide, standing("REJECTED_NOT_REACHABLE"), "parcel"),
    (InfobipSmsSide, standing("REJECTED_FLOODING_FILTER"), "parcel"),
    (InfobipSmsSide, standing("REJECTED_ROUTE_NOT_AVAILABLE"), "parcel"),
    (InfobipSmsSide, standing("REJECTED_DUPLICATE_MESSAGE_ID"), "parcel"),
    (WebPushSide, Response(status=503), "provider"),
    (WebhookSide, Response(status=400), "parcel"),
    (WebhookSide, Response(status=401), "parcel"),
    (WebhookSide, Response(status=404), "parcel"),
    (WebhookSide, Response(status=408), "provider"),
    (WebhookSide, Response(status=500), "provider"),
    (WebhookSide, Response(status=503), "provider"),
]


@pytest.mark.parametrize(("kind", "response", "about"), CASES)
async def test_whom_an_answer_is_about(
    kind: type[HttpSide], response: Response, about: About, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(_side: HttpSide, _behaviour: Behaviour, _request: Request) -> Response:
        return response

    monkeypatch.setattr(kind, "answer", answered)
    side = kind()
    await side.open()
    try:
        await side.behave("refuse")
        answer = await side.provider.send(side.parcel())
    finally:
        await side.close()
    assert isinstance(answer, Unavailable | Uncertain)
    assert answer.about == about
    assert (error_class_of(answer) is None) == (about == "parcel")


@pytest.mark.parametrize("kind", [WebPushSide, WebhookSide])
async def test_an_endpoint_that_is_no_more_is_no_failure_of_its_host(kind: type[HttpSide]) -> None:
    side = kind()
    await side.open()
    try:
        await side.behave("gone")
        assert error_class_of(await side.provider.send(side.parcel())) is None
    finally:
        await side.close()
