"""The counterparts of the providers that are no web API: a mail server, a push service, and what lets nothing leave."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from ipaddress import ip_network
from typing import ClassVar
from urllib.parse import unquote

import trustme

from tests.contract.providers.browser import Browser, claims_of
from tests.contract.providers.http_server import Request, Response
from tests.contract.providers.http_side import HttpSide
from tests.contract.providers.mail_server import MailServer, mail_server
from tests.contract.providers.parcels import DELIVERY, NOW, parcel
from timebell.notify.provider import Answer, Parcel, Provider
from timebell.providers.apprise import Apprise
from timebell.providers.log import Captured, Log
from timebell.providers.push_encryption import VapidKey
from timebell.providers.safe_http import Reach, safe_caller
from timebell.providers.smtp import Smtp, SmtpServer
from timebell.providers.webpush import WebPush
from timebell.testing.provider_suite import RETRY_AFTER, Behaviour

# A handshake, two keys and a signature take their time on a machine that is busy.
TIMEOUT = timedelta(seconds=2)
CONTACT = "mailto:ops@example.org"


class SmtpSide:
    """RFC 5321 and, for a password and the certificate, RFC 3207 and RFC 4954, as aiosmtpd implements them."""

    behaviours: ClassVar[frozenset[Behaviour]] = frozenset(
        {
            "accept",
            "refuse",
            "gone",
            "unauthorized",
            "defer",
            "fail",
            "garble",
            "hang",
            "close",
            "down",
            "untrusted",
        }
    )
    _SCRIPTS: ClassVar[dict[Behaviour, dict[str, str]]] = {
        "refuse": {"content": "554 5.7.1 not wanted"},
        "gone": {"RCPT": "550 5.1.1 no such user"},
        "defer": {"RCPT": "450 4.2.0 greylisted, come back in a while"},
        "unauthorized": {"MAIL": "530 5.7.0 authentication required"},
        "fail": {"content": "451 4.3.0 out of order"},
        "garble": {"content": "welcome to the network"},
        "hang": {"content": "hang"},
        "close": {"content": "drop"},
    }

    timeout = TIMEOUT

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._stack = AsyncExitStack()
        self._server = MailServer()
        self._behaviour: Behaviour = "accept"
        self._before: list[tuple[str, str]] = []
        self._provider: Smtp | None = None

    @property
    def provider(self) -> Provider:
        assert self._provider is not None
        return self._provider

    async def open(self, *, is_trusted: bool = True) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issuer = self._authority if is_trusted else trustme.CA()
        issuer.issue_cert("127.0.0.1").configure_cert(context)
        port = self._server.port
        self._server = await self._stack.enter_async_context(mail_server(port=port, starttls=context))
        if self._provider is None:
            trust = ssl.create_default_context()
            self._authority.configure_trust(trust)
            server = SmtpServer(host="127.0.0.1", port=self._server.port, timeout=self.timeout)
            self._provider = Smtp(server, sender="no-reply@example.com", tls_context=trust)

    async def close(self) -> None:
        await self.provider.close()
        await self._stack.aclose()

    async def behave(self, behaviour: Behaviour) -> None:
        was, self._behaviour = self._behaviour, behaviour
        self._before = list(self.taken())
        if {was, behaviour} & {"down", "untrusted"}:
            await self._stack.aclose()
        if behaviour == "untrusted":
            await self.open(is_trusted=False)
        elif behaviour != "down" and was in {"down", "untrusted"}:
            await self.open()
        self._server.mails.clear()
        self._server.script = dict(self._SCRIPTS.get(behaviour, {}))

    def parcel(self) -> Parcel:
        return parcel(html="<p>Your meeting begins at ten.</p>", recipient_name="Ann")

    def taken(self) -> Sequence[tuple[str, str]]:
        if self._behaviour in {"refuse", "fail", "garble"}:
            return self._before
        return self._before + [
            (address, _message_id(mail.content)) for mail in self._server.mails for address in mail.rcpt_tos
        ]


def _message_id(content: bytes | str | None) -> str:
    assert isinstance(content, bytes)
    found = re.findall(rb"(?m)^Message-ID: (<\S+>)\r$", content)
    assert len(found) == 1
    return str(found[0].decode())


class WebPushSide(HttpSide):
    """RFC 8030, 5: a POST to the push resource with `TTL`, which answers 201 and where it put the message. RFC 8291, 4:
    the body is one record of aes128gcm. RFC 8292, 4.2: 403 for a key that the subscription was not made for."""

    behaviours: ClassVar[frozenset[Behaviour]] = HttpSide.behaviours | {"gone"}
    timeout = TIMEOUT

    def __init__(self) -> None:
        super().__init__()
        self.browser = Browser()
        self.key = VapidKey.new()
        self.messages: list[dict[str, object]] = []

    def make(self) -> Provider:
        reach = Reach(ports=frozenset({self.server.port}), networks=(ip_network("127.0.0.0/8"),))
        caller = safe_caller(reach=reach, verify=self.verify())
        return WebPush(caller, key=self.key, contact=CONTACT, timeout=self.timeout)

    def parcel(self) -> Parcel:
        return parcel(
            "push",
            f"{self.server.url}/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
            data={"url": "/meetings/42"},
            detail={"keys": self.browser.keys()},
            expires_at=NOW + timedelta(minutes=30),
        )

    def examine(self, request: Request) -> tuple[str, str]:
        assert request.method == "POST"
        assert request.headers["content-encoding"] == "aes128gcm"
        assert "crypto-key" not in request.headers, "that was for an older draft"
        assert re.fullmatch(r"\d+", request.headers["ttl"])
        assert request.headers["urgency"] in {"very-low", "low", "normal", "high"}
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,32}", request.headers["topic"])
        assert len(request.body) <= 4_096
        claims, public_key = claims_of(request.headers["authorization"])
        assert public_key == self.key.public
        assert set(claims) == {"aud", "exp", "sub"}
        assert claims["aud"] == self.server.url
        assert claims["sub"] == CONTACT
        assert 0 < claims["exp"] - NOW.timestamp() <= 24 * 3_600
        message = json.loads(self.browser.decrypt(request.body))
        assert message["tag"] == request.headers["topic"]
        self.messages.append(message)
        return f"{self.server.url}{request.path}", message["tag"]

    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        match behaviour:
            case "refuse":
                return Response(status=403)
            case "unauthorized":
                return Response(status=401)
            case "gone":
                return Response(status=410)
            case "busy":
                return Response(status=429, headers={"Retry-After": str(int(RETRY_AFTER.total_seconds()))})
            case "fail":
                return Response(status=500)
            case _:
                return Response(status=201, headers={"Location": f"{self.server.url}/message/qDIYHNcfAIPP_5"})


class AppriseSide(HttpSide):
    """The `json://` service of Apprise, which posts `title` and `message` to a URL."""

    behaviours: ClassVar[frozenset[Behaviour]] = frozenset({"accept", "fail", "hang", "close"})
    timeout = TIMEOUT

    def __init__(self) -> None:
        super().__init__()
        self.server._trusted = None

    def make(self) -> Provider:
        url = f"json://localhost:{self.server.port}/sms/{{address}}?rto={self.timeout.seconds}"
        return Apprise(url, channel="sms", timeout=self.timeout)

    def parcel(self) -> Parcel:
        return parcel("sms", "+41793026727", subject=None)

    def examine(self, request: Request) -> tuple[str, str]:
        sent = request.json()
        assert sent["message"]
        return unquote(request.path.removeprefix("/sms/")), str(DELIVERY)

    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        return Response(status=500 if behaviour == "fail" else 200)


class _Noting:
    """Hands everything on to a provider, and notes what it was given."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.name = provider.name
        self.traits = provider.traits
        self.look_up = provider.look_up
        self.close = provider.close
        self.given: list[tuple[str, str]] = []

    async def send(self, given: Parcel) -> Answer:
        answer = await self._provider.send(given)
        self.given.append((given.address, given.key))
        return answer


class LogSide:
    """Nothing is on the other side. What was handed over is noted on the way."""

    behaviours: ClassVar[frozenset[Behaviour]] = frozenset({"accept"})

    def __init__(self) -> None:
        self._noting = _Noting(self.make())

    @property
    def provider(self) -> Provider:
        return self._noting

    def make(self) -> Provider:
        return Log()

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def behave(self, behaviour: Behaviour) -> None:
        return None

    def parcel(self) -> Parcel:
        return parcel()

    def taken(self) -> Sequence[tuple[str, str]]:
        return self._noting.given


class CapturedSide(LogSide):
    def make(self) -> Provider:
        return Captured("email")
