"""Infobip and a receiver of webhooks as their documentation describes them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network
from typing import ClassVar, Literal

from standardwebhooks.webhooks import Webhook as Receiver

from tests.contract.providers.http_server import Request, Response, as_json
from tests.contract.providers.http_side import HttpSide
from tests.contract.providers.parcels import NOW, parcel
from timebell.notify.provider import Parcel, Provider
from timebell.providers.http import HttpCaller
from timebell.providers.infobip import Infobip
from timebell.providers.safe_http import Reach, safe_caller
from timebell.providers.webhook import Webhook
from timebell.testing.provider_suite import RETRY_AFTER, Behaviour

PHONE = "+41793026727"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GONE: frozenset[Behaviour] = frozenset({"gone"})
RETRY = {"Retry-After": str(int(RETRY_AFTER.total_seconds()))}


class InfobipSide(HttpSide):
    """https://www.infobip.com/docs/developer-resources/quickstart: POST /sms/3/messages with `sender`, `destinations`
    and `content`; `messageId` of a destination has up to 200 characters. WhatsApp: POST /whatsapp/1/message/text with
    `from`, `to`, `messageId` and `content.text`, https://www.infobip.com/docs/api/channels/whatsapp. Addresses are in
    international format, such as 41793026727. The answer is an acceptance, in the group PENDING."""

    behaviours: ClassVar[frozenset[Behaviour]] = HttpSide.behaviours | {"defer"}
    channel: ClassVar[Literal["sms", "whatsapp"]]
    sender: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[str, tuple[str, str]] = {}
        self.now = NOW + timedelta(hours=1)

    def make(self) -> Provider:
        return Infobip(
            channel=self.channel,
            api_key="key-123",
            sender=self.sender,
            base_url=self.server.url,
            caller=HttpCaller(verify=self.verify()),
            timeout=self.timeout,
        )

    def parcel(self) -> Parcel:
        return parcel(self.channel, PHONE, subject=None)

    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        match behaviour:
            case "refuse":
                return self._standing(request, "REJECTED", "REJECTED_MESSAGE_TOO_LONG")
            case "defer":
                return self._standing(request, "REJECTED", "REJECTED_NOT_REACHABLE")
            case "unauthorized":
                return as_json(401, {"errorCode": "E401", "description": "Invalid login details."})
            case "busy":
                # The form of errors is from .../developer-resources/api-fundamentals/rate-limits-and-throttling.
                return as_json(429, {"errorCode": "E429", "description": "Too many requests sent."}, RETRY)
            case "fail":
                return as_json(500, {"errorCode": "E500", "description": "Something went wrong."})
            case _ if self._message_id(request) in self.statuses:
                return self._standing(request, "REJECTED", "REJECTED_DUPLICATE_MESSAGE_ID")
            case _:
                self.statuses[self._message_id(request)] = ("PENDING", "PENDING_ACCEPTED")
                return self._standing(request, "PENDING", "PENDING_ACCEPTED")

    def _check_head(self, request: Request) -> None:
        assert request.headers["authorization"] == "App key-123"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept"] == "application/json"

    def _message_id(self, request: Request) -> str:
        raise NotImplementedError

    def _standing(self, request: Request, group: str, name: str) -> Response:
        raise NotImplementedError


class InfobipSmsSide(InfobipSide):
    channel = "sms"
    sender = "InfoSMS"

    def examine(self, request: Request) -> tuple[str, str]:
        self._check_head(request)
        assert (request.method, request.path) == ("POST", "/sms/3/messages")
        (message,) = request.json()["messages"]
        assert set(message) == {"sender", "destinations", "content"}
        assert message["sender"] == "InfoSMS"
        assert list(message["content"]) == ["text"]
        (destination,) = message["destinations"]
        assert re.fullmatch(r"[1-9][0-9]{6,14}", destination["to"])
        assert 1 <= len(destination["messageId"]) <= 200
        return f"+{destination['to']}", destination["messageId"]

    def read(self, request: Request) -> Response | None:
        """https://infobip.com/docs/api/channels/sms/logs-and-status-reports: GET /sms/3/logs?messageId=…"""
        if request.method != "GET":
            return None
        self._check_head(request)
        assert request.path == "/sms/3/logs"
        wanted = request.query["messageId"]
        found = [(wanted, *self.statuses[wanted])] if wanted in self.statuses else []
        results = [
            {"messageId": it, "status": {"groupName": group, "name": name}} for it, group, name in found
        ]
        return as_json(200, {"results": results}, {"Date": format_datetime(self.now, usegmt=True)})

    def _message_id(self, request: Request) -> str:
        return str(request.json()["messages"][0]["destinations"][0]["messageId"])

    def _standing(self, request: Request, group: str, name: str) -> Response:
        status = {"groupId": 1, "groupName": group, "id": 26, "name": name, "description": "Words."}
        return as_json(200, {"messages": [{"messageId": self._message_id(request), "status": status}]})


class InfobipWhatsAppSide(InfobipSide):
    channel = "whatsapp"
    sender = "447860099299"

    def examine(self, request: Request) -> tuple[str, str]:
        self._check_head(request)
        assert (request.method, request.path) == ("POST", "/whatsapp/1/message/text")
        message = request.json()
        assert set(message) == {"from", "to", "messageId", "content"}
        assert message["from"] == "447860099299"
        assert list(message["content"]) == ["text"]
        assert re.fullmatch(r"[1-9][0-9]{6,14}", message["to"])
        return f"+{message['to']}", message["messageId"]

    def _message_id(self, request: Request) -> str:
        return str(request.json()["messageId"])

    def _standing(self, request: Request, group: str, name: str) -> Response:
        message = request.json()
        status = {"groupId": 1, "groupName": group, "id": 7, "name": name, "description": "Words."}
        return as_json(200, {"to": message["to"], "messageId": message["messageId"], "status": status})


class WebhookSide(HttpSide):
    """A receiver that verifies with the library of Standard Webhooks itself, which reads the time of the machine; so
    the signature is checked here with the library's own signing, at the time that the parcel bears."""

    behaviours: ClassVar[frozenset[Behaviour]] = HttpSide.behaviours - {"garble", "unauthorized"} | GONE

    def make(self) -> Provider:
        reach = Reach(
            ports=frozenset({self.server.port}), networks=(ip_network("127.0.0.0/8"), ip_network("::1/128"))
        )
        return Webhook(caller=safe_caller(reach=reach, verify=self.verify()), timeout=self.timeout)

    def parcel(self) -> Parcel:
        return parcel(
            "webhook",
            f"{self.server.url}/hook",
            data={"type": "meeting.reminder", "meeting": 42},
            detail={"secret": SECRET},
            attempted_at=NOW + timedelta(hours=1),
        )

    def examine(self, request: Request) -> tuple[str, str]:
        assert (request.method, request.path) == ("POST", "/hook")
        assert request.headers["host"] == f"localhost:{self.server.port}"
        assert request.headers["content-type"] == "application/json"
        assert len(request.body) <= 20_000
        message_id = request.headers["webhook-id"]
        assert "." not in message_id
        sent_at = NOW + timedelta(hours=1)
        assert request.headers["webhook-timestamp"] == str(int(sent_at.timestamp()))
        expected = Receiver(SECRET).sign(message_id, sent_at, request.body.decode())
        assert expected in request.headers["webhook-signature"].split(" ")
        payload = request.json()
        assert set(payload) == {"type", "timestamp", "data"}
        assert datetime.fromisoformat(payload["timestamp"]) == NOW
        return f"{self.server.url}/hook", message_id

    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        match behaviour:
            case "refuse":
                return Response(status=302, headers={"Location": f"{self.server.url}/elsewhere"})
            case "gone":
                return Response(status=410)
            case "busy":
                return Response(status=429, headers=RETRY)
            case "fail":
                return Response(status=500)
            case _:
                return Response(status=204)
