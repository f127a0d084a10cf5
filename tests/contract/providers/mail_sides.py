"""Resend and SendGrid as their documentation describes them."""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import UTC, datetime
from email.utils import format_datetime, parseaddr
from typing import Any

from tests.contract.providers.http_server import Request, Response, as_json
from tests.contract.providers.http_side import HttpSide
from tests.contract.providers.parcels import parcel
from timebell.notify.provider import Parcel, Provider
from timebell.providers.http import HttpCaller
from timebell.providers.resend import Resend
from timebell.providers.sendgrid import SendGrid
from timebell.testing.provider_suite import RETRY_AFTER, Behaviour

SENDER = "hello@acme.example"
UNSUBSCRIBE = "https://acme.example/u/token"
CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def mail() -> Parcel:
    return parcel(
        html="<p>Your meeting begins at ten.</p>",
        unsubscribe_url=UNSUBSCRIBE,
        sender={"email": SENDER, "email_name": "Acme, Inc."},
    )


class ResendSide(HttpSide):
    """https://resend.com/docs/api-reference/emails/send-email: from, to and subject are required strings, `to` may be a
    list, `headers` is an object, `tags` are a list of names and values of ASCII letters, digits, _ and - (.../tags).
    The key is a header of at most 256 characters (.../idempotency-keys); the same key gives the same answer."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, str] = {}

    def make(self) -> Provider:
        return Resend(
            api_key="re_123",
            sender=SENDER,
            base_url=self.server.url,
            caller=HttpCaller(verify=self.verify()),
            timeout=self.timeout,
        )

    def parcel(self) -> Parcel:
        return mail()

    def examine(self, request: Request) -> tuple[str, str]:
        assert (request.method, request.path) == ("POST", "/emails")
        assert request.headers["authorization"] == "Bearer re_123"
        assert request.headers["content-type"] == "application/json"
        key = request.headers["idempotency-key"]
        assert 1 <= len(key) <= 256
        message = request.json()
        known = {"from", "to", "subject", "html", "text", "headers", "tags", "reply_to", "attachments"}
        assert set(message) <= known
        for file in message.get("attachments", ()):
            # .../emails/attachments: the content is in base64, and the type may have parameters.
            assert set(file) == {"filename", "content", "content_type"}
            b64decode(file["content"], validate=True)
        assert parseaddr(message["from"])[1] == SENDER
        assert isinstance(message["subject"], str)
        assert not CONTROLS.search(message["from"] + message["subject"])
        assert isinstance(message["text"], str)
        assert isinstance(message["html"], str)
        _check_headers(message["headers"])
        for tag in message["tags"]:
            assert set(tag) == {"name", "value"}
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,256}", tag["name"])
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,256}", tag["value"])
        (to,) = message["to"]
        return to, key

    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        match behaviour:
            case "refuse":
                return _resend_error(422, "missing_required_field")
            case "unauthorized":
                return _resend_error(403, "invalid_api_key")
            case "busy":
                wait = str(int(RETRY_AFTER.total_seconds()))
                return _resend_error(
                    429, "rate_limit_exceeded", {"retry-after": wait, "ratelimit-reset": wait}
                )
            case "fail":
                return _resend_error(500, "application_error")
            case _:
                key = request.headers["idempotency-key"]
                email_id = self.ids.setdefault(key, f"49a3999c-0ce1-4ea6-ab68-{len(self.ids):012}")
                return as_json(200, {"id": email_id})


def _resend_error(status: int, name: str, headers: dict[str, str] | None = None) -> Response:
    """https://resend.com/docs/api-reference/errors"""
    return as_json(status, {"statusCode": status, "name": name, "message": "Words about it."}, headers)


class SendGridSide(HttpSide):
    """https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send: a personalization has `to`, a list of
    objects with `email`; `content` has text/plain before text/html; the values of `custom_args` are strings. It answers
    202 without a body and with X-Message-Id."""

    def make(self) -> Provider:
        return SendGrid(
            api_key="SG.123",
            sender=SENDER,
            base_url=self.server.url,
            caller=HttpCaller(verify=self.verify()),
            timeout=self.timeout,
        )

    def parcel(self) -> Parcel:
        return mail()

    def examine(self, request: Request) -> tuple[str, str]:
        assert (request.method, request.path) == ("POST", "/v3/mail/send")
        assert request.headers["authorization"] == "Bearer SG.123"
        assert request.headers["content-type"] == "application/json"
        message = request.json()
        known = {"personalizations", "from", "reply_to", "subject", "content", "headers", "custom_args"}
        assert set(message) <= known | {"attachments"}
        for file in message.get("attachments", ()):
            assert set(file) == {"content", "type", "filename", "disposition"}
            b64decode(file["content"], validate=True)
            # It answers 400 where a type has a parameter (sendgrid/sendgrid-php#250).
            assert ";" not in file["type"]
        assert message["from"]["email"] == SENDER
        assert not CONTROLS.search(message["from"].get("name", "") + message["subject"])
        kinds = [part["type"] for part in message["content"]]
        assert kinds[:2] == ["text/plain", "text/html"]
        # The one other type that it takes with a parameter, and no charset (sendgrid/sendgrid-ruby#298).
        assert kinds[2:] in ([], ["text/calendar; method=REQUEST"])
        assert all(part["value"] for part in message["content"])
        _check_headers(message["headers"])
        assert all(isinstance(value, str) for value in message["custom_args"].values())
        (personalization,) = message["personalizations"]
        assert set(personalization) == {"to"}
        (to,) = personalization["to"]
        return to["email"], message["custom_args"]["timebell_delivery"]

    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        now = datetime(2026, 11, 15, 12, tzinfo=UTC)
        match behaviour:
            case "refuse":
                return _sendgrid_error(400, "content", "The content value must be a string.")
            case "unauthorized":
                return _sendgrid_error(401, None, "The provided authorization grant is invalid.")
            case "busy":
                # .../how-to-use-the-sendgrid-v3-api/rate-limits: an instant, in seconds since 1970.
                reset = str(int((now + RETRY_AFTER).timestamp()))
                headers = {"Date": format_datetime(now, usegmt=True), "X-RateLimit-Reset": reset}
                return _sendgrid_error(429, None, "too many requests", headers)
            case "fail":
                return _sendgrid_error(500, None, "internal server error")
            case _:
                return Response(status=202, headers={"X-Message-Id": "14c5d75ce93", "Date": "a date"})


def _sendgrid_error(
    status: int, field: str | None, message: str, headers: dict[str, str] | None = None
) -> Response:
    """https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/errors"""
    return as_json(status, {"errors": [{"field": field, "message": message}]}, headers)


def _check_headers(headers: dict[str, Any]) -> None:
    """RFC 8058, 3.1"""
    assert headers == {
        "List-Unsubscribe": f"<{UNSUBSCRIBE}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
