"""The one call by which a mail is handed to a service over HTTP, whichever service it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from timebell.errors import InvalidInput
from timebell.notify.provider import Parcel, Rejected, Unavailable, Uncertain
from timebell.providers.http import HttpCaller, NoReply, Reply, answer_to_silence, as_json
from timebell.providers.sender import Envelope, envelope_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MailAccount:
    """An account at such a service: where it is called, with which key, and whom its mail is from by default."""

    url: str
    api_key: str = field(repr=False)
    sender: str
    sender_name: str
    caller: HttpCaller
    timeout: timedelta

    async def post(
        self,
        parcel: Parcel,
        message: Callable[[Parcel, Envelope], Mapping[str, Any]],
        headers: Mapping[str, str] | None = None,
    ) -> Reply | Rejected | Unavailable | Uncertain:
        """What the service replied to the message, or what it means that it did not."""
        envelope = envelope_of(parcel, sender=self.sender, sender_name=self.sender_name)
        if isinstance(envelope, Rejected):
            return envelope
        try:
            content = as_json(message(parcel, envelope))
        except InvalidInput as error:
            return Rejected(reason="invalid_content", detail={"field": error.field or "content"})
        if isinstance(content, Rejected):
            return content
        outcome = await self.caller.call(
            "POST",
            self.url,
            timeout=self.timeout,
            headers={
                "authorization": f"Bearer {self.api_key}",
                "content-type": "application/json",
                "accept": "application/json",
                **(headers or {}),
            },
            content=content,
            handover=parcel.handover,
        )
        return answer_to_silence(outcome) if isinstance(outcome, NoReply) else outcome
