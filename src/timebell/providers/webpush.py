"""Push messages to browsers (RFC 8030), encrypted for the one that subscribed.

A push service takes no keys, but a second copy does no harm: it replaces the first at the service by its topic, and on
the screen by its tag. So what is uncertain is simply sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from timebell.errors import InvalidInput
from timebell.notify.provider import Answer, Blame, Parcel, Rejected, Sent, Traits
from timebell.providers.deadlines import deadline_around
from timebell.providers.http import (
    HttpCaller,
    NoReply,
    Reply,
    answer_to_garbage,
    answer_to_refusal,
    answer_to_silence,
    as_json,
)
from timebell.providers.push_encryption import (
    Subscription,
    VapidKey,
    check_contact,
    encode_base64url,
    encrypt,
)

KEPT_FOR: Final = timedelta(days=1)
KEPT_FOR_MAX: Final = timedelta(days=28)
TIMEOUT: Final = timedelta(seconds=20)
LOCATION_CHARS_MAX: Final = 500

_TOPIC_BYTES: Final = 24
_BLAMED: Final[dict[str | None, Blame]] = {
    "p256dh": "address",
    "auth": "address",
    "keys": "address",
    "address": "address",
}


class WebPush:
    """Carries push messages. The endpoint is a stranger's URL, so `caller` is one of `safe_http.safe_caller()`."""

    def __init__(
        self,
        caller: HttpCaller,
        *,
        key: VapidKey,
        contact: str,
        name: str = "webpush",
        timeout: timedelta = TIMEOUT,
    ) -> None:
        self._caller = caller
        self._key = key
        self._contact = check_contact(contact)
        self._name = name
        self._timeout = timeout
        self._traits = Traits(
            channels=frozenset({"push"}),
            when_uncertain="retry",
            is_per_host=True,
            marks_handover=True,
            timeout=deadline_around(timeout),
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    async def send(self, parcel: Parcel) -> Answer:
        now = parcel.attempted_at or parcel.first_tried_at
        if now is None:
            raise InvalidInput(
                "a push message is signed with its time; say when it is sent", field="attempted_at"
            )
        message = as_json(_message(parcel))
        if isinstance(message, Rejected):
            return message
        try:
            body = encrypt(message, _subscription(parcel.detail))
            headers = {
                "authorization": self._key.authorization(
                    origin=_origin(parcel.address), contact=self._contact, now=now
                ),
                "content-type": "application/octet-stream",
                "content-encoding": "aes128gcm",
                "ttl": str(_seconds_kept(parcel.expires_at, now)),
                "urgency": "high" if parcel.is_urgent else "normal",
                "topic": topic_of(parcel),
            }
        except InvalidInput as error:
            blame = _BLAMED.get(error.field, "content")
            return Rejected(reason="not_pushable", blame=blame, detail={"text": str(error)})
        outcome = await self._caller.call(
            "POST",
            parcel.address,
            tenant=parcel.tenant,
            timeout=self._timeout,
            headers=headers,
            content=body,
            handover=parcel.handover,
        )
        return answer_to_silence(outcome) if isinstance(outcome, NoReply) else _answer(outcome)

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError(
            "a push service cannot be asked what became of a message; its traits say so"
        )

    async def close(self) -> None:
        await self._caller.close()


def topic_of(parcel: Parcel) -> str:
    """The same for every attempt at a delivery, in the 32 characters that a topic may have (RFC 8030, 5.4)."""
    digest = hashlib.sha256(f"{parcel.tenant}\0{parcel.key}".encode()).digest()
    return encode_base64url(digest[:_TOPIC_BYTES])


def _message(parcel: Parcel) -> Mapping[str, Any]:
    """What the service worker is given: the fields of a notification by the names that browsers have for them."""
    content = parcel.content
    message: dict[str, Any] = {"title": content.subject or "", "body": content.text, "tag": topic_of(parcel)}
    if content.data:
        message["data"] = dict(content.data)
    return message


def _subscription(detail: Mapping[str, Any]) -> Subscription:
    keys = detail.get("keys", detail)
    p256dh, auth = (keys.get("p256dh"), keys.get("auth")) if isinstance(keys, Mapping) else (None, None)
    if not isinstance(p256dh, str) or not isinstance(auth, str):
        raise InvalidInput("p256dh and auth are missing; store the whole subscription", field="keys")
    return Subscription.read(p256dh, auth)


def _origin(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        origin = f"{parts.scheme}://{parts.netloc}"
    except ValueError as error:
        raise InvalidInput("the endpoint is not a URL", field="address") from error
    if not parts.netloc or parts.scheme not in {"https", "http"}:
        raise InvalidInput("the endpoint is not a URL with https", field="address")
    return origin


def _seconds_kept(expires_at: datetime | None, now: datetime) -> int:
    """For how long the service keeps it for a device that is away. Zero: now or never."""
    kept = KEPT_FOR if expires_at is None else expires_at - now
    return int(min(max(kept, timedelta(0)), KEPT_FOR_MAX).total_seconds())


def _answer(reply: Reply) -> Answer:
    detail = {"status": reply.status}
    match reply.status:
        case 201 | 202:
            location = reply.headers.get("location", "")[:LOCATION_CHARS_MAX]
            return Sent(provider_id=location or None, detail=detail)
        case 404 | 410:
            return Rejected(reason="unsubscribed", blame="address", is_gone=True, detail=detail)
        case 403:
            # The subscription was made for another key than ours (RFC 8292, 4.2), and is only of use with that one.
            return Rejected(reason="bound_to_another_key", blame="address", detail=detail)
        case status if 300 <= status <= 399:
            return Rejected(reason="redirected", blame="address", detail=detail)
        case _:
            return answer_to_garbage(reply) if reply.is_success else answer_to_refusal(reply)
