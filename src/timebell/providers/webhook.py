"""Notifications to an HTTP endpoint of the recipient's, signed by the scheme of Standard Webhooks 1.0.0.

See spec/standard-webhooks.md of standard-webhooks/standard-webhooks, "Delivery success and failure".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from timebell.errors import InvalidInput
from timebell.notify.provider import About, Answer, Parcel, Rejected, Sent, Traits, Unavailable
from timebell.providers.deadlines import deadline_around
from timebell.providers.http import (
    HttpCaller,
    NoReply,
    Reply,
    answer_to_silence,
    as_json,
    plain_key,
    retry_after,
)
from timebell.providers.safe_http import safe_caller
from timebell.providers.standard_webhooks import read_secret, sign

BODY_BYTES_MAX: Final = 20_000
TYPE: Final = "notification"

# Over so long the scheme's own ladder of retries sends one id, so a receiver has to know it again for that long.
KEY_LIFETIME: Final = timedelta(hours=75, minutes=35)

_TYPE = re.compile(r"[a-zA-Z0-9_]+(\.[a-zA-Z0-9_]+){0,7}")


class Webhook:
    """Posts to the URL that is the address, with the secret in the address's detail.

    `previous_secret` signs too, where it is given, so that a receiver may exchange its secret without losing any.
    """

    def __init__(
        self,
        *,
        name: str = "webhook",
        caller: HttpCaller | None = None,
        timeout: timedelta = timedelta(seconds=20),
        rate_per_second: float | None = None,
    ) -> None:
        self._name = name
        self._caller = caller if caller is not None else safe_caller()
        self._timeout = timeout
        self._traits = Traits(
            channels=frozenset({"webhook"}),
            key_lifetime=KEY_LIFETIME,
            rate_per_second=rate_per_second,
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
        body = as_json(_payload(parcel))
        if isinstance(body, Rejected):
            return body
        if len(body) > BODY_BYTES_MAX:
            return Rejected(reason="too_large", detail={"bytes": len(body)})
        try:
            headers = _signed(parcel, body)
        except InvalidInput:
            return Rejected(reason="no_secret", blame="address")
        outcome = await self._caller.call(
            "POST",
            parcel.address,
            tenant=parcel.tenant,
            timeout=self._timeout,
            headers={"content-type": "application/json", **headers},
            content=body,
            handover=parcel.handover,
        )
        return answer_to_silence(outcome) if isinstance(outcome, NoReply) else _answer(outcome)

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("a receiver cannot be asked what it took; the traits say so")

    async def close(self) -> None:
        await self._caller.close()


def _payload(parcel: Parcel) -> Mapping[str, Any]:
    """All attempts stand for one event, and say when the first was made. No data takes the place of what is told."""
    kind = parcel.content.data.get("type")
    return {
        "type": kind if isinstance(kind, str) and _TYPE.fullmatch(kind) else TYPE,
        "timestamp": parcel.first_tried_at or parcel.attempted_at,
        "data": {
            **{key: value for key, value in parcel.content.data.items() if key != "type"},
            "id": str(parcel.delivery_id),
            "subject": parcel.content.subject,
            "text": parcel.content.text,
        },
    }


def _signed(parcel: Parcel, body: bytes) -> Mapping[str, str]:
    secrets = [read_secret(str(parcel.detail.get("secret", "")))]
    if parcel.detail.get("previous_secret"):
        secrets.append(read_secret(str(parcel.detail["previous_secret"])))
    signed_at = parcel.attempted_at or parcel.first_tried_at
    assert signed_at is not None, "a parcel says when its attempt began"
    return sign(message_id=plain_key(parcel.key), signed_at=signed_at, body=body, secrets=secrets)


def _answer(reply: Reply) -> Answer:
    """What the receiver's status means. Its body is a stranger's and is not written down."""
    detail = {"status": reply.status}
    match reply.status:
        case status if 200 <= status <= 299:
            return Sent(detail=detail)
        case status if 300 <= status <= 399:
            return Rejected(reason="redirected", blame="address", detail=detail)
        case 410:
            return Rejected(reason="gone", blame="address", is_gone=True, detail=detail)
        case 413:
            return Rejected(reason="too_large", detail=detail)
        case 429:
            return Unavailable(
                reason="rate_limited",
                error_class="rate_limited",
                retry_after=retry_after(reply),
                detail=detail,
            )
        case 408 | 425:
            return Unavailable(reason="try_again", retry_after=retry_after(reply), detail=detail)
        case 502 | 503 | 504:
            return Unavailable(
                reason="down", error_class="unavailable", retry_after=retry_after(reply), detail=detail
            )
        case _:
            # The scheme has every other status mean that it was not taken, and be tried again. Below 500 it is said of
            # this one URL, and the host may well take others.
            about: About = "parcel" if reply.status <= 499 else "provider"
            return Unavailable(reason="refused", about=about, retry_after=retry_after(reply), detail=detail)
