"""The meaning of a mail server's reply for one mail (RFC 5321, 4.2; RFC 3463 where the reply has its finer code)."""

from __future__ import annotations

import re
from typing import Final, Literal

from timebell.notify.provider import About, Blame, Rejected, Unavailable, Uncertain
from timebell.providers.lines import one_line

Stage = Literal["connect", "sender", "recipient", "data", "content"]

TEXT_CHARS_MAX: Final = 200
CLOSING: Final = 421
REFUSED_FOR_GOOD: Final = 500

# Log in first, with another mechanism, with other credentials, or over TLS (RFC 4954, 6).
_LOGIN: Final = frozenset({530, 534, 535, 538})

# The mailbox does not exist, its domain takes no mail, it has moved away, or it is closed.
_GONE: Final = frozenset({"5.1.1", "5.1.2", "5.1.6", "5.1.10", "5.2.1"})
_SENDER_AT_FAULT: Final = frozenset({"5.1.7", "5.1.8"})
_BLAME_BY_SUBJECT: Final[dict[str, Blame]] = {
    "1": "address",
    "2": "address",
    "3": "content",
    "4": "address",
    "5": "content",
    "6": "content",
}
_BLAME_BY_STAGE: Final[dict[Stage, Blame]] = {
    "sender": "account",
    "recipient": "address",
    "data": "content",
    "content": "content",
}
# The subject of a finer code that speaks of the mail system itself (RFC 3463, 3.4).
_SYSTEM: Final = "3"
# "Local error" and "insufficient system storage", where no finer code says more (RFC 5321, 4.2.2). After MAIL the first
# is what filters say of one mail.
_SYSTEM_CODES: Final[dict[Stage, frozenset[int]]] = {
    "sender": frozenset({451, 452}),
    "data": frozenset({452}),
    "content": frozenset({452}),
}
_FINER_CODE: Final = re.compile(r"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)", re.ASCII)
# What may be an address, which is asked of each as a whole: to look for the @ from every letter on takes time that
# grows with the square of the length.
_WORD: Final = re.compile(r"[^\s<>,;:\"()]+")


def answer_to_reply(stage: Stage, code: int, text: str) -> Rejected | Unavailable | Uncertain:
    """The answer to a reply that is not the one hoped for."""
    finer = _FINER_CODE.match(text)
    finer_code = finer.group(1) if finer else None
    detail = {"stage": stage, "code": code, "finer_code": finer_code, "text": without_addresses(text)}
    if not 400 <= code <= 599:
        # No reply that SMTP knows. Once the content is there, the server may have meant yes.
        if stage == "content":
            return Uncertain(reason="garbled_reply", detail=detail)
        return Unavailable(reason="garbled_reply", detail=detail)
    if stage == "connect" or code == CLOSING or code in _LOGIN:
        # Said of the connection or the account and not of this mail: a wrong password is mended, and the mail can wait.
        return Unavailable(reason="server_refused", error_class="unavailable", detail=detail)
    if code < REFUSED_FOR_GOOD:
        about = _about(stage, code, finer_code)
        return Unavailable(reason=f"{stage}_deferred", about=about, detail=detail)
    return Rejected(
        reason=f"{stage}_refused",
        blame=_blame(stage, finer_code),
        is_gone=finer_code in _GONE and stage != "sender",
        detail=detail,
    )


def answer_to_silence(stage: Stage, reason: str) -> Unavailable | Uncertain:
    """The answer where no reply came: nothing is taken before the content was handed over, and perhaps after."""
    if stage == "content":
        return Uncertain(reason=reason, detail={"stage": stage})
    return Unavailable(reason=reason, error_class="unavailable", detail={"stage": stage})


def without_addresses(text: str) -> str:
    """The text of a reply, short and on one line, without the addresses that servers like to repeat."""
    return _WORD.sub(_hidden, one_line(text))[:TEXT_CHARS_MAX]


def _hidden(word: re.Match[str]) -> str:
    return "<address>" if "@" in word[0][1:-1] else word[0]


def _about(stage: Stage, code: int, finer_code: str | None) -> About:
    """Whom a refusal for now is about. Whatever is said to a recipient is said of that recipient: a server that makes
    strangers wait, a mailbox that is full, a domain that cannot be asked. It must not hold up everybody's mail."""
    if stage == "recipient":
        return "parcel"
    if finer_code is not None:
        return "provider" if finer_code.split(".")[1] == _SYSTEM else "parcel"
    return "provider" if code in _SYSTEM_CODES[stage] else "parcel"


def _blame(stage: Stage, finer_code: str | None) -> Blame:
    if finer_code in _SENDER_AT_FAULT:
        return "account"
    subject = finer_code.split(".")[1] if finer_code else ""
    if subject == "7" and stage == "recipient":
        # Before it has seen the mail, a server that speaks of policy speaks of who may send through it.
        return "account"
    if stage == "sender" and subject != "3":
        return "account"
    return _BLAME_BY_SUBJECT.get(subject, _BLAME_BY_STAGE[stage])
