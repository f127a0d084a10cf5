"""Mail through Resend: https://resend.com/docs/api-reference/emails/send-email and the pages named below."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from timebell.notify.provider import (
    Answer,
    Parcel,
    Rejected,
    Report,
    ReportKind,
    Sent,
    Traits,
    Unavailable,
    Uncertain,
)
from timebell.providers.deadlines import deadline_around
from timebell.providers.http import (
    HttpCaller,
    Refusal,
    Reply,
    answer_to_garbage,
    answer_to_refusal,
    plain_key,
    retry_after,
)
from timebell.providers.mail import INVITATION_FILE, calendar_method, subject_of
from timebell.providers.mail_account import MailAccount
from timebell.providers.reports import check_length, instant, mapping, parse, text, uuid
from timebell.providers.sender import Envelope, unsubscribe_headers
from timebell.providers.standard_webhooks import read_secret, verify

BASE_URL: Final = "https://api.resend.com"
# https://resend.com/docs/dashboard/emails/idempotency-keys: 24 hours, up to 256 characters.
KEY_LIFETIME: Final = timedelta(hours=24)
# https://resend.com/docs/api-reference/rate-limit: 2 requests per second for a team, unless raised.
RATE_PER_SECOND: Final = 2.0
TAG: Final = "timebell_delivery"

# https://resend.com/docs/webhooks/event-types
_KINDS: Final[Mapping[str, ReportKind]] = {
    "email.sent": "sent",
    "email.delivered": "delivered",
    "email.bounced": "bounced",
    "email.complained": "complained",
    "email.failed": "failed",
    "email.suppressed": "failed",
}
_QUOTAS: Final = frozenset({"daily_quota_exceeded", "monthly_quota_exceeded"})


class Resend:
    """One account at Resend. Without `webhook_secrets` its reports are refused."""

    def __init__(
        self,
        *,
        api_key: str,
        sender: str,
        sender_name: str = "",
        name: str = "resend",
        webhook_secrets: Sequence[str] = (),
        base_url: str = BASE_URL,
        caller: HttpCaller | None = None,
        timeout: timedelta = timedelta(seconds=30),
        rate_per_second: float | None = RATE_PER_SECOND,
    ) -> None:
        self._name = name
        self._account = MailAccount(
            url=f"{base_url.rstrip('/')}/emails",
            api_key=api_key,
            sender=sender,
            sender_name=sender_name,
            caller=caller if caller is not None else HttpCaller(),
            timeout=timeout,
        )
        self._secrets = [read_secret(secret, field="webhook_secrets") for secret in webhook_secrets]
        self._traits = Traits(
            channels=frozenset({"email"}),
            key_lifetime=KEY_LIFETIME,
            reports=bool(webhook_secrets),
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
        key = {"idempotency-key": plain_key(parcel.key)}
        outcome = await self._account.post(parcel, _message, key)
        if not isinstance(outcome, Reply):
            return outcome
        return _answer(outcome, hidden=(parcel.address, self._account.api_key))

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("Resend is not asked what became of a mail; its traits say so")

    async def close(self) -> None:
        await self._account.caller.close()

    def read_reports(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Sequence[Report]:
        """Its webhooks are Svix's: https://resend.com/docs/webhooks/verify-webhooks-requests."""
        check_length(body)
        report_id = verify(headers, body, secrets=self._secrets, now=now, prefix="svix")
        event = mapping(parse(body))
        kind = _KINDS.get(str(event.get("type")))
        if kind is None:
            return ()
        data = mapping(event.get("data"))
        bounce = mapping(data.get("bounce"))
        to = data.get("to")
        return [
            Report(
                report_id=report_id,
                kind=kind,
                provider_id=text(data.get("email_id")),
                delivery_id=uuid(_tags(data.get("tags")).get(TAG)),
                address=text(to[0]) if isinstance(to, list) and to else None,
                is_permanent=bounce.get("type") not in {"Transient", "Undetermined"},
                reason=text(bounce.get("message")) or text(mapping(data.get("failed")).get("reason")),
                occurred_at=instant(event.get("created_at")),
            )
        ]


def _message(parcel: Parcel, envelope: Envelope) -> Mapping[str, Any]:
    content = parcel.content
    message: dict[str, Any] = {
        "from": envelope.author,
        "to": [envelope.recipient],
        "subject": subject_of(parcel),
        "text": content.text,
        "tags": [{"name": TAG, "value": str(parcel.delivery_id)}],
    }
    if content.html is not None:
        message["html"] = content.html
    if content.calendar is not None:
        message["attachments"] = [
            {
                "filename": INVITATION_FILE,
                "content": b64encode(content.calendar.encode()).decode("ascii"),
                "content_type": f"text/calendar; charset=utf-8; method={calendar_method(content.calendar)}",
            }
        ]
    if envelope.reply_to is not None:
        message["reply_to"] = envelope.reply_to
    if parcel.unsubscribe_url is not None:
        message["headers"] = unsubscribe_headers(parcel)
    return message


def _answer(reply: Reply, *, hidden: Sequence[str]) -> Answer:
    """See https://resend.com/docs/api-reference/errors."""
    said = mapping(reply.json())
    if reply.is_success:
        provider_id = text(said.get("id"))
        return Sent(provider_id=provider_id) if provider_id else answer_to_garbage(reply)
    refusal = Refusal(code=text(said.get("name")) or "", note=str(said.get("message", "")))
    detail = {"status": reply.status, "code": refusal.code}
    if reply.status == 409:
        # Another request with this key is under way, or had other content; either way it may have been taken.
        return Uncertain(reason="key_in_use", about="parcel", detail=detail)
    if reply.status == 429 and refusal.code in _QUOTAS:
        return Unavailable(
            reason="quota_used_up", error_class="unavailable", retry_after=retry_after(reply), detail=detail
        )
    if reply.status == 403 and refusal.code == "validation_error":
        return Rejected(reason="sender_not_verified", blame="account", detail=detail)
    return answer_to_refusal(reply, refusal, hidden=hidden)


def _tags(value: Any) -> Mapping[str, Any]:
    """The tags are sent as a list of names and values, and come back as an object."""
    if isinstance(value, list):
        return {str(tag.get("name")): tag.get("value") for tag in value if isinstance(tag, dict)}
    return mapping(value)
