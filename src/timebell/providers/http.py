"""One HTTP call, bounded in time and size, that follows nothing and says truthfully how far it got.

What matters to a delivery is whether the request was handed over before a call failed: until then it certainly was not
taken, and from then on nobody knows. The body is what is handed over; a server that has the head alone cannot act.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, Literal

import httpx2
import orjson

from timebell.errors import UnsafeUrl
from timebell.notify.provider import Handover, Rejected, Unavailable, Uncertain
from timebell.providers.lines import one_line
from timebell.version import __version__

BODY_BYTES_MAX: Final = 65_536
CONNECT_SECONDS_MAX: Final = 10.0
CONNECTIONS_MAX: Final = 100
KEPT_CONNECTIONS_MAX: Final = 20
KEPT_SECONDS: Final = 5.0
NOTE_LENGTH_MAX: Final = 300
# Under this name a request says whose it is, to whatever shares something between tenants.
TENANT: Final = "timebell.tenant"
RETRY_AFTER_MAX: Final = timedelta(hours=24)

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,200}")
_CONNECTED = "connection.connect_tcp.complete"
_NOT_ENCRYPTED = "connection.start_tls.failed"
_HANDED_OVER = "http11.send_request_body.started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answered. `is_cut`: its body broke off, was too long or did not come in time."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False

    @property
    def is_success(self) -> bool:
        return 200 <= self.status <= 299

    def json(self) -> Any:
        """The body, or None where it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """Why no server answered, and whether one may have acted nonetheless."""

    reason: Literal["unreachable", "timed_out", "closed", "unsafe_url"]
    was_handed_over: bool = False


class _Progress:
    """How far a call has come, as the library tells it on the way."""

    def __init__(self, handover: Handover | None) -> None:
        self.was_handed_over = False
        self._handover = handover
        self._connection: Any = None

    async def note(self, event: str, detail: Mapping[str, Any]) -> None:
        if event == _HANDED_OVER:
            self.was_handed_over = True
            if self._handover is not None:
                self._handover.begin()
        elif event == _CONNECTED:
            self._connection = detail["return_value"]
        elif event == _NOT_ENCRYPTED:
            # The library forgets a connection whose handshake is given up, and the server would hold the other end.
            await self._connection.aclose()


class HttpCaller:
    """Calls over HTTP. Neither proxies nor certificates nor passwords are taken from the environment.

    There is no client of the library around the transport: it would write every URL into the log, and those of
    webhooks and browsers are secrets; and it would keep the cookies of strangers.
    """

    def __init__(
        self,
        *,
        verify: ssl.SSLContext | None = None,
        make_transport: Callable[[], httpx2.AsyncBaseTransport] | None = None,
    ) -> None:
        self._make_transport = make_transport or partial(plain_transport, verify)
        self._transport: httpx2.AsyncBaseTransport | None = None

    async def call(
        self,
        method: Literal["GET", "POST"],
        url: str,
        *,
        timeout: timedelta,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        content: bytes = b"",
        body_bytes_max: int = BODY_BYTES_MAX,
        handover: Handover | None = None,
        tenant: str = "",
    ) -> Reply | NoReply:
        """One request and its answer, all of it within the timeout, and as much of its body as is asked for. `handover`
        is marked before the body is written. The `tenant` is whose call it is, where the URL is a stranger's."""
        seconds = timeout.total_seconds()
        deadline = asyncio.get_running_loop().time() + seconds
        progress = _Progress(handover)
        limits = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS_MAX))
        try:
            async with asyncio.timeout_at(deadline):
                request = httpx2.Request(
                    method,
                    url,
                    params=params,
                    headers={
                        "user-agent": f"timebell/{__version__}",
                        "accept": "*/*",
                        "accept-encoding": "identity",
                        **(headers or {}),
                    },
                    content=content,
                    extensions={"trace": progress.note, "timeout": limits.as_dict(), TENANT: tenant},
                )
                response = await self._open().handle_async_request(request)
        except (TimeoutError, httpx2.TimeoutException):
            return NoReply(reason="timed_out", was_handed_over=progress.was_handed_over)
        except (UnsafeUrl, httpx2.InvalidURL):
            return NoReply(reason="unsafe_url")
        except httpx2.TransportError:
            reason: Literal["closed", "unreachable"] = "closed" if progress.was_handed_over else "unreachable"
            return NoReply(reason=reason, was_handed_over=progress.was_handed_over)
        return await _read(response, deadline, body_bytes_max)

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()

    def _open(self) -> httpx2.AsyncBaseTransport:
        """Made by the first call: certificates take a while to load, and a process may never call."""
        if self._transport is None:
            self._transport = self._make_transport()
        return self._transport


def plain_transport(verify: ssl.SSLContext | None = None, *, keeps: bool = True) -> httpx2.AsyncHTTPTransport:
    """Connections to wherever they are asked to go. `keeps`: they are kept for the next request to the same host."""
    return httpx2.AsyncHTTPTransport(
        verify=verify or True,
        trust_env=False,
        limits=httpx2.Limits(
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=KEPT_CONNECTIONS_MAX if keeps else 0,
            keepalive_expiry=KEPT_SECONDS,
        ),
    )


async def _read(response: httpx2.Response, deadline: float, bytes_max: int) -> Reply:
    """The answer with as much of its body as came. Its status is known by now, whatever becomes of the body."""
    body = bytearray()
    is_cut = False
    try:
        async with asyncio.timeout_at(deadline):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > bytes_max:
                    is_cut = True
                    break
    except (TimeoutError, httpx2.TransportError):
        is_cut = True
    finally:
        await response.aclose()
    return Reply(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=bytes(body[:bytes_max]),
        is_cut=is_cut,
    )


def plain_key(key: str) -> str:
    """The key as every header can carry it: as it is, or by its hash."""
    return key if _PLAIN_KEY.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()


def as_json(value: Mapping[str, Any]) -> bytes | Rejected:
    """What is to be sent as JSON; Rejected where it holds half a character or a number that JSON's readers lose."""
    try:
        return orjson.dumps(value, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        return Rejected(reason="unwritable")


def answer_to_silence(outcome: NoReply) -> Rejected | Unavailable | Uncertain:
    """What it means for a delivery that nobody answered."""
    if outcome.was_handed_over:
        return Uncertain(reason=outcome.reason)
    if outcome.reason == "unsafe_url":
        return Rejected(reason="unsafe_url", blame="address")
    return Unavailable(reason=outcome.reason, error_class="unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What a service said about a request that it did not accept: a code of its own, and words."""

    code: str = ""
    note: str = ""


_UNSAID: Final = Refusal()


def answer_to_refusal(
    reply: Reply, refusal: Refusal = _UNSAID, *, hidden: Sequence[str] = ()
) -> Rejected | Unavailable | Uncertain:
    """What an answer other than success means, as the services have it in common.

    A wrong key or an empty purse is the account's fault and can be mended, so it counts as a service that is down: what
    was to be told waits, or another service tells it. What is `hidden` is kept out of what is written down.
    """
    detail = _detail(reply, refusal, hidden)
    match reply.status:
        case 401 | 402 | 403:
            return Unavailable(reason="unauthorized", error_class="unavailable", detail=detail)
        case 408 | 425:
            return Unavailable(reason="try_again", detail=detail)
        case 413:
            return Rejected(reason="too_large", detail=detail)
        case 429:
            return Unavailable(
                reason="rate_limited",
                error_class="rate_limited",
                retry_after=retry_after(reply),
                detail=detail,
            )
        case 404 | 405 | 406:
            return Unavailable(reason="wrong_endpoint", error_class="unavailable", detail=detail)
        case 501 | 503:
            return Unavailable(
                reason="down", error_class="unavailable", retry_after=retry_after(reply), detail=detail
            )
        case status if 400 <= status <= 499:
            return Rejected(reason="refused", detail=detail)
        case status if status >= 500:
            # It had the request and failed somewhere on the way, and says nothing of where.
            return Uncertain(reason="server_error", detail=detail)
        case _:
            return Unavailable(reason="wrong_endpoint", error_class="unavailable", detail=detail)


def answer_to_garbage(reply: Reply) -> Uncertain:
    """A success that cannot be read may be that of another server on the way."""
    return Uncertain(reason="garbled", detail={"status": reply.status})


def retry_after(reply: Reply) -> timedelta | None:
    """How long the server asked to wait. A date is read against the server's own, so that no clock of ours matters."""
    asked = reply.headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return min(timedelta(seconds=int(asked[:9])), RETRY_AFTER_MAX)
    return wait_until(_date(asked), reply)


def wait_until(instant: datetime | None, reply: Reply) -> timedelta | None:
    """From the server's time to an instant that it named."""
    now = served_at(reply)
    if instant is None or now is None:
        return None
    return min(max(instant - now, timedelta(0)), RETRY_AFTER_MAX)


def served_at(reply: Reply) -> datetime | None:
    """The server's own time when it answered."""
    return _date(reply.headers.get("date", ""))


def _date(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _detail(reply: Reply, refusal: Refusal, hidden: Sequence[str]) -> Mapping[str, Any]:
    said = {"code": refusal.code, "note": refusal.note}
    kept = {name: _kept(words, hidden) for name, words in said.items()}
    return {"status": reply.status, **{name: words for name, words in kept.items() if words}}


def _kept(words: str, hidden: Sequence[str]) -> str:
    for each in filter(None, hidden):
        words = words.replace(each, "…")
    return one_line(words[:NOTE_LENGTH_MAX])
