"""Mail through SendGrid: https://www.twilio.com/docs/sendgrid/api-reference/mail-send and the pages named below.

It takes no key, so a mail whose answer is lost waits for its report: each carries our id in `custom_args`, which comes
back with every event.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from timebell.errors import InvalidInput, UnverifiedReport
from timebell.notify.provider import Answer, Parcel, Rejected, Report, ReportKind, Sent, Traits, Unavailable
from timebell.providers.deadlines import deadline_around
from timebell.providers.http import (
    HttpCaller,
    Refusal,
    Reply,
    answer_to_garbage,
    answer_to_refusal,
    retry_after,
    wait_until,
)
from timebell.providers.mail import INVITATION_FILE, calendar_method, subject_of
from timebell.providers.mail_account import MailAccount
from timebell.providers.reports import check_length, header, instant, mapping, parse, records, text, uuid
from timebell.providers.sender import Envelope, unsubscribe_headers

BASE_URL: Final = "https://api.sendgrid.com"
ARGUMENT: Final = "timebell_delivery"
TOLERANCE: Final = timedelta(minutes=5)

# https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
SIGNATURE_HEADER: Final = "x-twilio-email-event-webhook-signature"
TIMESTAMP_HEADER: Final = "x-twilio-email-event-webhook-timestamp"

# https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event
_KINDS: Final[Mapping[str, ReportKind]] = {
    "processed": "sent",
    "delivered": "delivered",
    "bounce": "bounced",
    "dropped": "failed",
    "spamreport": "complained",
    "unsubscribe": "unsubscribed",
    "group_unsubscribe": "unsubscribed",
}
# Seconds since 1970, as many as a date can hold.
_TIMESTAMP = re.compile(r"[0-9]{1,11}")


class SendGrid:
    """One account at SendGrid. Without `webhook_keys`, the public keys of its event webhook, reports are refused."""

    def __init__(
        self,
        *,
        api_key: str,
        sender: str,
        sender_name: str = "",
        name: str = "sendgrid",
        webhook_keys: Sequence[str] = (),
        base_url: str = BASE_URL,
        caller: HttpCaller | None = None,
        timeout: timedelta = timedelta(seconds=30),
        rate_per_second: float | None = None,
    ) -> None:
        self._name = name
        self._account = MailAccount(
            url=f"{base_url.rstrip('/')}/v3/mail/send",
            api_key=api_key,
            sender=sender,
            sender_name=sender_name,
            caller=caller if caller is not None else HttpCaller(),
            timeout=timeout,
        )
        self._keys = [read_public_key(key) for key in webhook_keys]
        self._traits = Traits(
            channels=frozenset({"email"}),
            reports=bool(webhook_keys),
            rate_per_second=rate_per_second,
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
        outcome = await self._account.post(parcel, _message)
        if not isinstance(outcome, Reply):
            return outcome
        return _answer(outcome, hidden=(parcel.address, self._account.api_key))

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("SendGrid is not asked what became of a mail; its traits say so")

    async def close(self) -> None:
        await self._account.caller.close()

    def read_reports(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Sequence[Report]:
        """The events of a batch, if the timestamp and exactly these bytes were signed for one of the keys."""
        check_length(body)
        _verify(self._keys, header(headers, SIGNATURE_HEADER), header(headers, TIMESTAMP_HEADER), body, now)
        return [report for event in records(parse(body)) if (report := _report(event)) is not None]


def read_public_key(key: str) -> EllipticCurvePublicKey:
    """A public key as SendGrid shows it: DER in base64, without the lines that would begin and end it."""
    try:
        read = load_der_public_key(base64.b64decode(key, validate=True))
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        read = None
    if not isinstance(read, EllipticCurvePublicKey):
        raise InvalidInput(
            "is no public key; copy the verification key of the event webhook", field="webhook_keys"
        )
    return read


def _verify(
    keys: Sequence[EllipticCurvePublicKey], signature: str, timestamp: str, body: bytes, now: datetime
) -> None:
    if not keys:
        raise UnverifiedReport("no key is set up to check it with", field="webhook_keys")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise UnverifiedReport("is missing or malformed", field=TIMESTAMP_HEADER)
    if abs(now - datetime.fromtimestamp(int(timestamp), tz=UTC)) > TOLERANCE:
        raise UnverifiedReport("is not within five minutes of now", field=TIMESTAMP_HEADER)
    if not any(_is_signed(key, signature, timestamp.encode() + body) for key in keys):
        raise UnverifiedReport("fits none of the keys", field=SIGNATURE_HEADER)


def _is_signed(key: EllipticCurvePublicKey, signature: str, signed: bytes) -> bool:
    try:
        key.verify(base64.b64decode(signature, validate=True), signed, ECDSA(SHA256()))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _message(parcel: Parcel, envelope: Envelope) -> Mapping[str, Any]:
    content = parcel.content
    author = {"email": envelope.sender}
    if envelope.sender_name:
        author["name"] = envelope.sender_name
    # Plain text stands before HTML; the API refuses the other order.
    parts = [{"type": "text/plain", "value": content.text}]
    if content.html is not None:
        parts.append({"type": "text/html", "value": content.html})
    if content.calendar is not None:
        # It names the charset itself, and refuses a type that does (sendgrid/sendgrid-ruby#298).
        kind = f"text/calendar; method={calendar_method(content.calendar)}"
        parts.append({"type": kind, "value": content.calendar})
    message: dict[str, Any] = {
        "personalizations": [{"to": [{"email": envelope.recipient}]}],
        "from": author,
        "subject": subject_of(parcel),
        "content": parts,
        "custom_args": {ARGUMENT: str(parcel.delivery_id)},
    }
    if content.calendar is not None:
        file = base64.b64encode(content.calendar.encode()).decode("ascii")
        message["attachments"] = [
            {
                "content": file,
                "type": "application/ics",
                "filename": INVITATION_FILE,
                "disposition": "attachment",
            }
        ]
    if envelope.reply_to is not None:
        message["reply_to"] = {"email": envelope.reply_to}
    if parcel.unsubscribe_url is not None:
        message["headers"] = unsubscribe_headers(parcel)
    return message


def _answer(reply: Reply, *, hidden: Sequence[str]) -> Answer:
    """See https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/responses."""
    if reply.status == 202:
        return Sent(provider_id=text(reply.headers.get("x-message-id")))
    if reply.is_success:
        return answer_to_garbage(reply)
    errors = mapping(reply.json()).get("errors")
    said = mapping(errors[0]) if isinstance(errors, list) and errors else {}
    refusal = Refusal(code=str(said.get("field") or ""), note=str(said.get("message") or ""))
    if reply.status == 403 and refusal.code == "from":
        # A tenant's own address that was not verified here; the account is in order, and others go on with it.
        return Rejected(reason="sender_not_verified", blame="account", detail={"status": reply.status})
    if reply.status == 429:
        return Unavailable(
            reason="rate_limited",
            error_class="rate_limited",
            retry_after=retry_after(reply) or _until_reset(reply),
            detail={"status": reply.status},
        )
    return answer_to_refusal(reply, refusal, hidden=hidden)


def _until_reset(reply: Reply) -> timedelta | None:
    """The limit is lifted at an instant: .../how-to-use-the-sendgrid-v3-api/rate-limits."""
    reset = reply.headers.get("x-ratelimit-reset", "")
    if not _TIMESTAMP.fullmatch(reset):
        return None
    return wait_until(datetime.fromtimestamp(int(reset), tz=UTC), reply)


def _report(event: Mapping[str, Any]) -> Report | None:
    kind = _KINDS.get(str(event.get("event")))
    report_id = text(event.get("sg_event_id"))
    if kind is None or report_id is None:
        return None
    message_id = text(event.get("sg_message_id"))
    return Report(
        report_id=report_id,
        kind=kind,
        # What the API answered is the part before the first full stop of what events carry.
        provider_id=message_id.split(".", 1)[0] if message_id else None,
        delivery_id=uuid(event.get(ARGUMENT)),
        address=text(event.get("email")),
        # A block is a refusal of the moment, which says nothing about the address.
        is_permanent=not (event.get("event") == "bounce" and event.get("type") == "blocked"),
        reason=text(event.get("reason")),
        occurred_at=instant(event.get("timestamp")),
    )
