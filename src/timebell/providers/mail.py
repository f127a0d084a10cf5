"""One mail from one parcel: the same bytes at every attempt, one recipient, and no header that a value could add.

Header values are written here and not by the library. It reads `=?utf-8?q?…?=` in a value as an encoded word, so that a
subject could bring a line break past every check for one, and older releases write that line break out.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from email.utils import format_datetime
from typing import Final

from email_validator import EmailNotValidError, ValidatedEmail, validate_email

from timebell.errors import InvalidInput
from timebell.notify.provider import Parcel
from timebell.providers.lines import one_line

ADDRESS_CHARS_MAX: Final = 320
SUBJECT_CHARS_MAX: Final = 400
NAME_CHARS_MAX: Final = 150
URL_CHARS_MAX: Final = 900
BODY_CHARS_MAX: Final = 2_000_000

# An encoded word has at most 75 characters (RFC 2047, 2), and its line at most 76, the name of the header included.
_WORD_BYTES: Final = 36
_LINE_CHARS: Final = 76
_UNSUBSCRIBE_URL: Final = re.compile(r"https?://[!-;=?-~]+", re.ASCII)
_METHOD: Final = re.compile(r"^METHOD:([A-Z]{1,20})\r?$", re.MULTILINE)
INVITATION_FILE: Final = "invite.ics"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailAddress:
    """An address that was taken apart. `needs_utf8`: only a server with SMTPUTF8 can carry it."""

    spec: str
    domain: str
    needs_utf8: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail with its envelope."""

    sender: MailAddress
    recipient: MailAddress
    message_id: str
    content: bytes

    @property
    def needs_utf8(self) -> bool:
        return self.sender.needs_utf8 or self.recipient.needs_utf8


class _Header(str):
    """A header as it will stand in the message; `EmailPolicy` leaves alone what has a name and folds itself."""

    name: str
    max_count = 1

    def fold(self, *, policy: EmailPolicy) -> str:
        return f"{self.name}: {self}{policy.linesep}"


def read_address(text: str, *, field: str) -> MailAddress:
    """One address and nothing else, without asking whether its domain exists."""
    if len(text) > ADDRESS_CHARS_MAX:
        raise InvalidInput(
            f"an address of {len(text)} characters; the limit is {ADDRESS_CHARS_MAX}", field=field
        )
    try:
        parts: ValidatedEmail = validate_email(text, check_deliverability=False, globally_deliverable=False)
    except EmailNotValidError as error:
        raise InvalidInput(f"{error} Give one address, such as ann@example.org.", field=field) from error
    return MailAddress(
        spec=f"{parts.local_part}@{parts.ascii_domain}",
        domain=parts.ascii_domain,
        needs_utf8=not parts.local_part.isascii(),
    )


def message_id_of(parcel: Parcel, domain: str) -> str:
    """The same for every attempt at a delivery, so that two copies can be known for one."""
    return f"<{parcel.delivery_id}@{domain}>"


def subject_of(parcel: Parcel) -> str:
    return one_line(parcel.content.subject or "", SUBJECT_CHARS_MAX)


def calendar_method(calendar: str) -> str:
    """What an iCalendar object asks for. The part that carries it must say the same (RFC 6047, 2.4)."""
    found = _METHOD.search(calendar)
    if found is None:
        raise InvalidInput("an iCalendar object without a METHOD; give one such as REQUEST", field="content")
    return found[1]


def build_mail(parcel: Parcel, *, sender: str, sender_name: str | None = None) -> Mail:
    """The mail of a parcel; `sender` and `sender_name` are used where the tenant names none.

    Its date is that of the first attempt. Without one it is left out, and the server that takes the mail adds its own.
    """
    own = parcel.sender.get("email")
    name = parcel.sender.get("email_name") if own else sender_name
    author = read_address(own or sender, field="sender")
    recipient = read_address(parcel.address, field="address")
    message_id = message_id_of(parcel, author.domain)
    policy = SMTP.clone(cte_type="7bit", utf8=author.needs_utf8 or recipient.needs_utf8)
    message = EmailMessage(policy=policy)
    _set(message, "From", _mailbox("From", author, name))
    _set(message, "To", _mailbox("To", recipient, parcel.recipient_name))
    if reply_to := parcel.sender.get("reply_to"):
        _set(message, "Reply-To", f"<{read_address(reply_to, field='reply_to').spec}>")
    _set(message, "Subject", _unstructured("Subject", subject_of(parcel)))
    if parcel.first_tried_at is not None:
        _set(message, "Date", _date(parcel.first_tried_at))
    _set(message, "Message-ID", message_id)
    # Out-of-office replies and other robots do not answer what says that a machine sent it (RFC 3834, 5).
    _set(message, "Auto-Submitted", "auto-generated")
    if parcel.unsubscribe_url is not None:
        # One click is a POST of this very text (RFC 8058, 3.1), so that a robot which follows links does no harm.
        _set(message, "List-Unsubscribe", f"<{_checked_url(parcel.unsubscribe_url)}>")
        _set(message, "List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
    _set_bodies(message, parcel)
    return Mail(sender=author, recipient=recipient, message_id=message_id, content=message.as_bytes())


def _set_bodies(message: EmailMessage, parcel: Parcel) -> None:
    content = parcel.content
    text, html, calendar = _body(content.text), _body(content.html), _body(content.calendar)
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    if calendar:
        # As an alternative it is an invitation to the programs that know what that is; to others it is a file.
        method = calendar_method(calendar)
        message.add_alternative(calendar, subtype="calendar", params={"method": method})
        message.add_attachment(
            calendar.encode("utf-8"), maintype="application", subtype="ics", filename=INVITATION_FILE
        )
    # The library would draw lots for a boundary, and no two attempts would be alike. Nobody can write a text that
    # contains the hash of itself, so no body can end its part before its time.
    digest = hashlib.sha256("\0".join((str(parcel.delivery_id), text, html, calendar)).encode()).hexdigest()
    for depth, part in enumerate(part for part in message.walk() if part.is_multipart()):
        part.set_boundary(f"=_{depth}_{digest[:40]}")


def _body(text: str | None) -> str:
    if text is None:
        return ""
    if len(text) > BODY_CHARS_MAX:
        raise InvalidInput(
            f"a body of {len(text)} characters; the limit is {BODY_CHARS_MAX}", field="content"
        )
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _set(message: EmailMessage, name: str, line: str) -> None:
    header = _Header(line)
    header.name = name
    message[name] = header


def _unstructured(name: str, line: str) -> str:
    if line.isascii() and "=?" not in line and len(name) + 2 + len(line) <= _LINE_CHARS:
        return line
    return "\r\n ".join(_encoded_words(line))


def _mailbox(name: str, address: MailAddress, display_name: str | None) -> str:
    shown = one_line(display_name or "", NAME_CHARS_MAX)
    if not shown:
        return f"<{address.spec}>"
    quoted = '"' + re.sub(r'(["\\])', r"\\\1", shown) + '"'
    if not shown.isascii() or "=?" in shown or len(name) + 2 + len(quoted) > _LINE_CHARS:
        quoted = "\r\n ".join(_encoded_words(shown))
    fits = len(name) + 2 + len(quoted) + 3 + len(address.spec) <= _LINE_CHARS
    return quoted + (" " if fits else "\r\n ") + f"<{address.spec}>"


def _encoded_words(line: str) -> Iterator[str]:
    """The line as encoded words, none of which parts a character in two."""
    word = b""
    for char in line:
        encoded = char.encode("utf-8")
        if len(word) + len(encoded) > _WORD_BYTES:
            yield f"=?utf-8?b?{b64encode(word).decode('ascii')}?="
            word = b""
        word += encoded
    yield f"=?utf-8?b?{b64encode(word).decode('ascii')}?="


def _date(instant: datetime) -> str:
    return format_datetime(instant.astimezone(UTC))


def _checked_url(url: str) -> str:
    if len(url) > URL_CHARS_MAX or _UNSUBSCRIBE_URL.fullmatch(url) is None:
        raise InvalidInput(
            f"not a URL that a header can carry; give http or https and at most {URL_CHARS_MAX} visible characters",
            field="unsubscribe_url",
        )
    return url
