"""Text messages and WhatsApp through Infobip: https://www.infobip.com/docs/developer-resources/quickstart for sms,
https://www.infobip.com/docs/api/channels/whatsapp for WhatsApp, and the pages named below.

Each message carries our id as its `messageId`. A second one with the same id is refused as a duplicate, for a time that
is nowhere promised, so the id is not taken for a key; but what became of a text message can be asked for by it.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from timebell.errors import UnverifiedReport
from timebell.notify.provider import (
    About,
    Answer,
    Blame,
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
    NoReply,
    Refusal,
    Reply,
    answer_to_garbage,
    answer_to_refusal,
    answer_to_silence,
    as_json,
    served_at,
)
from timebell.providers.reports import check_length, header, instant, mapping, parse, records, text, uuid

SMS_PATH: Final = "/sms/3/messages"
LOGS_PATH: Final = "/sms/3/logs"
WHATSAPP_TEXT_PATH: Final = "/whatsapp/1/message/text"
WHATSAPP_TEMPLATE_PATH: Final = "/whatsapp/1/message/template"
# Its log has 48 hours (.../sms/logs-and-status-reports). Two less: our clock and its own may differ.
LOGS_KEPT_FOR: Final = timedelta(hours=46)

# Where a message stands: https://www.infobip.com/docs/developer-resources/api-fundamentals/message-status-codes
_KINDS: Final[Mapping[str, ReportKind]] = {
    "PENDING": "sent",
    "DELIVERED": "delivered",
    "UNDELIVERABLE": "failed",
    "EXPIRED": "failed",
    "REJECTED": "failed",
}
# This one is in the group of the delivered, and yet the handset has not confirmed it.
_TO_OPERATOR: Final = "DELIVERED_TO_OPERATOR"
_DUPLICATE: Final = "REJECTED_DUPLICATE_MESSAGE_ID"
# What can be mended, or passes by itself; and whom each is about. A route is missing for some destinations only.
_OUR_ACCOUNT: Final[Mapping[str, About]] = {
    "REJECTED_NOT_ENOUGH_CREDITS": "provider",
    "REJECTED_PREPAID_PACKAGE_EXPIRED": "provider",
    "REJECTED_ROUTE_NOT_AVAILABLE": "parcel",
}
_FOR_NOW: Final[Mapping[str, About]] = {
    "REJECTED_SYSTEM_ERROR": "provider",
    "REJECTED_NOT_REACHABLE": "parcel",
    "REJECTED_FLOODING_FILTER": "parcel",
}
_OUR_SENDER: Final = frozenset({"REJECTED_SENDER", "REJECTED_SOURCE"})
_ADDRESS: Final = frozenset(
    {
        "REJECTED_DESTINATION",
        "REJECTED_DESTINATION_NOT_REGISTERED",
        "REJECTED_DND",
        "REJECTED_PREFIX_MISSING",
        "MISSING_TO",
    }
)


class Infobip:
    """One channel of an account at Infobip, which has a `base_url` of its own.

    `webhook_logins` are the names and passwords, each as `name:password`, with which it signs in when it reports;
    without one its reports are refused.
    """

    def __init__(
        self,
        *,
        channel: Literal["sms", "whatsapp"],
        base_url: str,
        api_key: str,
        sender: str,
        name: str | None = None,
        webhook_logins: Sequence[str] = (),
        caller: HttpCaller | None = None,
        timeout: timedelta = timedelta(seconds=30),
        rate_per_second: float | None = None,
    ) -> None:
        self._name = name if name is not None else f"infobip_{channel}"
        self._channel = channel
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._sender = sender
        self._logins = [b"Basic " + base64.b64encode(login.encode()) for login in webhook_logins if login]
        self._caller = caller if caller is not None else HttpCaller()
        self._timeout = timeout
        self._traits = Traits(
            channels=frozenset({channel}),
            can_look_up=channel == "sms",
            reports=bool(self._logins),
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
        sender = parcel.sender.get(self._channel) or self._sender
        if self._channel == "sms":
            path, message = SMS_PATH, _sms(parcel, sender)
        else:
            path, message = _whatsapp(parcel, sender)
        content = as_json(message)
        if isinstance(content, Rejected):
            return content
        outcome = await self._caller.call(
            "POST",
            self._base_url + path,
            timeout=self._timeout,
            headers=self._headers(),
            content=content,
            handover=parcel.handover,
        )
        if isinstance(outcome, NoReply):
            return answer_to_silence(outcome)
        return _answer(outcome, hidden=(_number(parcel.address), self._api_key))

    async def look_up(self, parcel: Parcel) -> Answer:
        """In its log: https://infobip.com/docs/api/channels/sms/logs-and-status-reports."""
        outcome = await self._caller.call(
            "GET",
            self._base_url + LOGS_PATH,
            timeout=self._timeout,
            headers=self._headers(),
            params={"messageId": str(parcel.delivery_id), "limit": "1"},
        )
        # A question that fails leaves matters as they were.
        if isinstance(outcome, NoReply):
            return Uncertain(reason=outcome.reason)
        results = mapping(outcome.json()).get("results")
        if not outcome.is_success or not isinstance(results, list):
            return Uncertain(reason="look_up_failed", detail={"status": outcome.status})
        found = [it for it in map(mapping, results) if it.get("messageId") == str(parcel.delivery_id)]
        if found:
            return _standing(found[0], was_asked=True)
        if not _would_show(outcome, parcel):
            return Uncertain(reason="no_longer_known")
        return Unavailable(reason="never_arrived")

    async def close(self) -> None:
        await self._caller.close()

    def read_reports(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Sequence[Report]:
        """Its reports sign in with a name and a password (security settings of the type BASIC), over TLS."""
        check_length(body)
        if not self._logins:
            raise UnverifiedReport("no login is set up to check it with", field="webhook_logins")
        given = header(headers, "authorization").encode("utf-8", "replace")
        if not any(hmac.compare_digest(given, login) for login in self._logins):
            raise UnverifiedReport("fits none of the logins", field="authorization")
        found = records(mapping(parse(body)).get("results"))
        return [report for it in found if (report := _report(it)) is not None]

    def _headers(self) -> Mapping[str, str]:
        return {
            "authorization": f"App {self._api_key}",
            "content-type": "application/json",
            "accept": "application/json",
        }


def _sms(parcel: Parcel, sender: str) -> Mapping[str, Any]:
    return {
        "messages": [
            {
                "sender": sender,
                "destinations": [{"to": _number(parcel.address), "messageId": str(parcel.delivery_id)}],
                "content": {"text": parcel.content.text},
            }
        ]
    }


def _whatsapp(parcel: Parcel, sender: str) -> tuple[str, Mapping[str, Any]]:
    """Free text is allowed for a day after the recipient wrote; a conversation is begun with an approved template.

    Content whose data has `whatsapp_template` (`name`, `language`, `placeholders`) is sent as that template.
    """
    message: dict[str, Any] = {
        "from": _number(sender),
        "to": _number(parcel.address),
        "messageId": str(parcel.delivery_id),
    }
    template = mapping(parcel.content.data.get("whatsapp_template"))
    if not template:
        return WHATSAPP_TEXT_PATH, {**message, "content": {"text": parcel.content.text}}
    placeholders = template.get("placeholders")
    filled = [str(it) for it in placeholders] if isinstance(placeholders, list) else []
    message["content"] = {
        "templateName": str(template.get("name", "")),
        "templateData": {"body": {"placeholders": filled}},
        "language": str(template.get("language", "en")),
    }
    return WHATSAPP_TEMPLATE_PATH, {"messages": [message]}


def _number(phone: str) -> str:
    """In its international form and without the plus, as every example of theirs has it."""
    return phone.removeprefix("+")


def _would_show(log: Reply, parcel: Parcel) -> bool:
    """Whether the log still has everything since the parcel was first tried, by the service's own clock."""
    now = served_at(log)
    if now is None or parcel.first_tried_at is None:
        return False
    return now - parcel.first_tried_at <= LOGS_KEPT_FOR


def _answer(reply: Reply, *, hidden: Sequence[str]) -> Answer:
    said = mapping(reply.json())
    if reply.is_success:
        messages = said.get("messages")
        message = mapping(messages[0]) if isinstance(messages, list) and messages else said
        return _standing(message) if mapping(message.get("status")) else answer_to_garbage(reply)
    service = mapping(mapping(said.get("requestError")).get("serviceException"))
    refusal = Refusal(
        code=str(said.get("errorCode") or service.get("messageId") or ""),
        note=str(said.get("description") or service.get("text") or ""),
    )
    return answer_to_refusal(reply, refusal, hidden=hidden)


def _standing(message: Mapping[str, Any], *, was_asked: bool = False) -> Answer:
    """What the status of a message means, as the answer to sending it or `was_asked` for later."""
    status = mapping(message.get("status"))
    group, name = str(status.get("groupName", "")), str(status.get("name", ""))
    detail = {"status": name}
    if name == _DUPLICATE and not was_asked:
        # An earlier attempt left this id behind; whether it was taken or refused, only the log can tell.
        return Uncertain(reason="duplicate", about="parcel", detail=detail)
    if group in {"PENDING", "DELIVERED"}:
        return Sent(provider_id=text(message.get("messageId")), detail=detail)
    if name in _OUR_ACCOUNT and not was_asked:
        return Unavailable(
            reason="account_refused", error_class="unavailable", about=_OUR_ACCOUNT[name], detail=detail
        )
    if name in _FOR_NOW and not was_asked:
        return Unavailable(reason="refused_for_now", about=_FOR_NOW[name], detail=detail)
    if group in {"REJECTED", "UNDELIVERABLE", "EXPIRED"}:
        return Rejected(reason="refused", blame=_blame(name), detail=detail)
    return Uncertain(reason="garbled", detail=detail)


def _blame(status: str) -> Blame:
    """Who is to blame for a refusal; a sender that this account may not use, another account may."""
    if status in _OUR_SENDER:
        return "account"
    return "address" if status in _ADDRESS else "content"


def _report(result: Mapping[str, Any]) -> Report | None:
    """See https://infobip.com/docs/api/channels/sms/sms-messaging/logs-and-status-reports and, for WhatsApp,
    whatsapp-message-status-reports. A report has no id of its own; it is told by the message and where it stands."""
    status, error = mapping(result.get("status")), mapping(result.get("error"))
    message_id, name = text(result.get("messageId")), text(status.get("name"))
    kind = _KINDS.get(str(status.get("groupName")))
    if kind is None or message_id is None or name is None:
        return None
    return Report(
        report_id=f"{message_id}:{name}",
        kind="sent" if name == _TO_OPERATOR else kind,
        provider_id=message_id,
        delivery_id=uuid(message_id),
        address=f"+{to}" if (to := text(result.get("to"))) else None,
        is_permanent=error.get("permanent") is True,
        reason=text(error.get("name")) or name,
        occurred_at=instant(result.get("doneAt")),
    )
