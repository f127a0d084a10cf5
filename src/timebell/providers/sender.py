"""Whom a mail is from: as the tenant's policy says (`email`, `email_name`, `reply_to`), else as the provider does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from timebell.errors import InvalidInput
from timebell.notify.provider import Parcel, Rejected
from timebell.providers.lines import one_line
from timebell.providers.mail import NAME_CHARS_MAX, read_address

_PLAIN_NAME = re.compile(r"[\w ]*")
_QUOTED = re.compile(r'(["\\])')


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Whom a mail is from and to, each one address and nothing else."""

    sender: str
    recipient: str
    sender_name: str = ""
    reply_to: str | None = None

    @property
    def author(self) -> str:
        """The sender as it stands in a mail."""
        if not self.sender_name:
            return self.sender
        name = self.sender_name
        if not _PLAIN_NAME.fullmatch(name):
            name = '"' + _QUOTED.sub(r"\\\1", name) + '"'
        return f"{name} <{self.sender}>"


def envelope_of(parcel: Parcel, *, sender: str, sender_name: str = "") -> Envelope | Rejected:
    """The envelope of a mail; `sender` and `sender_name` are used where the tenant names none."""
    own = parcel.sender.get("email")
    name = parcel.sender.get("email_name", "") if own else sender_name
    reply_to = parcel.sender.get("reply_to")
    try:
        author = read_address(own or sender, field="sender")
        answer_to = read_address(reply_to, field="reply_to").spec if reply_to else None
    except InvalidInput as error:
        return Rejected(reason="invalid_sender", blame="account", detail={"field": error.field or "sender"})
    try:
        recipient = read_address(parcel.address, field="address")
    except InvalidInput:
        return Rejected(reason="invalid_address", blame="address")
    return Envelope(
        sender=author.spec,
        recipient=recipient.spec,
        sender_name=one_line(name, NAME_CHARS_MAX),
        reply_to=answer_to,
    )


def unsubscribe_headers(parcel: Parcel) -> dict[str, str]:
    """The way out of a mail, one click and no GET that changes anything (RFC 8058)."""
    if parcel.unsubscribe_url is None:
        return {}
    return {
        "List-Unsubscribe": f"<{one_line(parcel.unsubscribe_url)}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
