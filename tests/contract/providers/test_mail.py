"""A mail is one mail to one person, whatever its fields are made of."""

from __future__ import annotations

import re
from datetime import timedelta
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parseaddr
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.contract.providers.parcels import DELIVERY, INVITATION, NOW, parcel
from timebell.errors import InvalidInput
from timebell.notify.provider import Parcel
from timebell.providers.mail import Mail, build_mail

QUICK = settings(max_examples=60, deadline=None)
ONCE = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"]
HOSTILE = [
    "x\r\nBcc: eve@example.net",
    "x\nBcc: eve@example.net\n\nanother body",
    "x\rBcc: eve@example.net",
    "x\x0bBcc: eve@example.net\x0cTo: eve@example.net\x85Cc: eve@example.net",
    "x\u2028Bcc: eve@example.net\u2029To: eve@example.net",
    "=?utf-8?q?x=0d=0aBcc:_eve@example.net?=",
    "=?utf-8?b?eA0KQmNjOiBldmVAZXhhbXBsZS5uZXQ=?=",
    '"><eve@example.net>, "',
    "eve@example.net, ",
    "\0\x1b[2J",
    "ü" * 200,
    "a" * 2_000,
    "\N{PARTY POPPER}" * 120,
    "",
]
texts = st.one_of(
    st.text(max_size=200), st.sampled_from(HOSTILE), st.text('\r\n:=? \u2028ü\\"<>,@', max_size=60)
)


def made(of: Parcel, *, sender_name: str | None = "Timebell") -> Mail:
    return build_mail(of, sender="no-reply@example.com", sender_name=sender_name)


def read(mail: Mail) -> EmailMessage:
    message = message_from_bytes(mail.content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def name_in(mail: Mail, header: str) -> str:
    """The name beside an address, read the older way: the newer one puts a space between encoded words."""
    display_name, _ = parseaddr(message_from_bytes(mail.content, policy=policy.compat32)[header])
    return str(make_header(decode_header(display_name)))


def shown(text: str, chars_max: int) -> str:
    """What a person should see of a header: its words on one line, cut where it is too long."""
    line = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


@QUICK
@given(subject=texts, name=texts, sender_name=texts, text=texts, html=texts)
@example(*HOSTILE[:5])
@example(*HOSTILE[5:10])
def test_no_field_adds_a_header_or_a_recipient(
    subject: str, name: str, sender_name: str, text: str, html: str
) -> None:
    mail = made(parcel(subject=subject, recipient_name=name, text=text, html=html), sender_name=sender_name)
    message = read(mail)
    assert sorted(message.keys()) == sorted(
        ONCE if html.replace("\0", "") else [*ONCE, "Content-Transfer-Encoding"]
    )
    assert [str(address.addr_spec) for address in message["To"].addresses] == ["ann@example.org"]
    assert [str(address.addr_spec) for address in message["From"].addresses] == ["no-reply@example.com"]
    assert str(message["Subject"]) == shown(subject, 400)
    assert name_in(mail, "To") == shown(name, 150)
    assert name_in(mail, "From") == shown(sender_name, 150)


@QUICK
@given(text=texts, html=texts)
def test_the_bodies_come_back_as_they_were(text: str, html: str) -> None:
    message = read(made(parcel(text=text, html=html)))
    for subtype, body in (("plain", text), ("html", html)):
        part = message.get_body((subtype,))
        if subtype == "html" and not html.replace("\0", ""):
            assert part is None
            continue
        assert part is not None
        lines = body.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
        assert part.get_content().replace("\r\n", "\n").rstrip("\n") == lines.rstrip("\n")


@QUICK
@given(subject=texts, name=texts, text=texts, html=texts)
def test_every_line_fits_and_ends_as_smtp_wants_it(subject: str, name: str, text: str, html: str) -> None:
    """A line feed of its own, or a carriage return, is how a second mail is smuggled into the first."""
    content = made(parcel(subject=subject, recipient_name=name, text=text, html=html)).content
    assert content.isascii()
    assert content.endswith(b"\r\n")
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)
    assert max(len(line) for line in content.split(b"\r\n")) <= 998
    encoded = [line for line in content.split(b"\r\n\r\n")[0].split(b"\r\n") if b"=?utf-8?" in line]
    assert all(len(line) <= 76 for line in encoded)


def test_text_alone_and_text_with_html() -> None:
    assert read(made(parcel())).get_content_type() == "text/plain"
    message = read(made(parcel(html="<p>Your meeting begins at <b>ten</b>.</p>")))
    assert message.get_content_type() == "multipart/alternative"
    kinds = [part.get_content_type() for part in message.iter_parts()]
    assert kinds == ["text/plain", "text/html"], "the last part is the one that a reader prefers"


@pytest.mark.parametrize("html", [None, "<p>Ten.</p>"])
def test_an_invitation_is_a_part_that_programs_act_on_and_a_file(html: str | None) -> None:
    """RFC 6047, 2.4: the part says the same METHOD as what is in it."""
    message = read(made(parcel(html=html, calendar=INVITATION)))
    assert message.get_content_type() == "multipart/mixed"
    bodies, file = message.iter_parts()
    kinds = [part.get_content_type() for part in bodies.iter_parts()]
    assert kinds == ["text/plain", *(["text/html"] if html else []), "text/calendar"]
    invitation = list(bodies.iter_parts())[-1]
    assert invitation.get_param("method") == "REQUEST"
    assert invitation.get_content_charset() == "utf-8"
    assert invitation.get_content().replace("\r\n", "\n") == INVITATION.replace("\r\n", "\n")
    assert (file.get_content_type(), file.get_filename()) == ("application/ics", "invite.ics")
    assert file.get_content() == INVITATION.encode()
    boundaries = [part.get_boundary() or "" for part in message.walk() if part.is_multipart()]
    assert len({*boundaries}) == 2
    assert not any(one != other and other.startswith(one) for one in boundaries for other in boundaries)


@pytest.mark.parametrize("line", ["VERSION:2.0", "METHOD:A; boundary=x", "METHOD:", "X-METHOD:REQUEST"])
def test_a_calendar_without_a_method_is_no_invitation(line: str) -> None:
    with pytest.raises(InvalidInput, match="METHOD"):
        made(parcel(calendar=f"BEGIN:VCALENDAR\r\n{line}\r\nEND:VCALENDAR\r\n"))


def test_every_attempt_makes_the_same_mail() -> None:
    assert made(parcel(calendar=INVITATION)) == made(parcel(calendar=INVITATION))
    first = parcel(html="<p>Ten.</p>")
    later = parcel(html="<p>Ten.</p>", attempted_at=NOW + timedelta(minutes=5))
    assert made(first) == made(later)
    assert made(first).message_id == f"<{DELIVERY}@example.com>"
    other = made(parcel(html="<p>Ten.</p>", delivery_id=UUID(int=7)))
    assert other.message_id != made(first).message_id


def test_a_body_cannot_end_its_part() -> None:
    first = made(parcel(text="x", html="<p>y</p>"))
    boundary = read(first).get_boundary()
    assert boundary is not None
    text = f"x\n--{boundary}--\nContent-Type: text/html\n\n<script>"
    message = read(made(parcel(text=text, html="<p>y</p>")))
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]


def test_the_date_is_that_of_the_first_attempt() -> None:
    assert read(made(parcel()))["Date"] == "Sun, 01 Mar 2026 09:30:00 +0000"
    assert "Date" not in read(made(parcel(first_tried_at=None)))


def test_one_click_unsubscribe() -> None:
    url = "https://bell.example.com/u/" + "t" * 300
    mail = made(parcel(unsubscribe_url=url))
    message = read(mail)
    assert str(message["List-Unsubscribe"]) == f"<{url}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert f"List-Unsubscribe: <{url}>\r\n".encode() in mail.content, (
        "folded, it would break the signature of a relay"
    )
    assert "List-Unsubscribe" not in read(made(parcel()))


@pytest.mark.parametrize(
    "url",
    [
        "mailto:x@example.org",
        "https://x/ y",
        "https://x/>,<https://y",
        "https://x/\r\nBcc: y",
        "https://ü/",
        "https://" + "x" * 900,
    ],
)
def test_an_unsubscribe_url_that_no_header_can_carry(url: str) -> None:
    with pytest.raises(InvalidInput, match="unsubscribe_url: not a URL"):
        made(parcel(unsubscribe_url=url))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "ann@example.org, eve@example.net",
        "ann@example.org\r\nRCPT TO:<eve@example.net>",
        "Ann <ann@example.org>",
        "<ann@example.org>",
        "ann@example.org>",
        "ann @example.org",
        '"a b"@example.org',
        "a" * 400 + "@example.org",
    ],
)
def test_an_address_is_one_address(address: str) -> None:
    with pytest.raises(InvalidInput, match="address: "):
        made(parcel(address=address))


def test_addresses_that_are_not_ascii() -> None:
    idn = made(parcel(address="ann@bücher.example"))
    assert idn.recipient.spec == "ann@xn--bcher-kva.example"
    assert not idn.needs_utf8
    local = made(parcel(address="jörg@example.org"))
    assert local.needs_utf8
    assert "<jörg@example.org>" in local.content.decode("utf-8")


def test_a_tenant_sends_as_itself() -> None:
    sender = {"email": "hello@acme.example", "email_name": "Acme", "reply_to": "desk@acme.example"}
    mail = made(parcel(sender=sender))
    message = read(mail)
    assert message["From"] == "Acme <hello@acme.example>"
    assert message["Reply-To"] == "desk@acme.example"
    assert mail.sender.spec == "hello@acme.example"
    assert mail.message_id.endswith("@acme.example>")


@pytest.mark.parametrize("field", ["email", "reply_to"])
def test_a_sender_that_is_no_address(field: str) -> None:
    with pytest.raises(InvalidInput, match=r"(sender|reply_to): .*Give one address"):
        made(parcel(sender={"email": "hello@acme.example", field: "x\r\nBcc: eve@example.net"}))


def test_a_body_has_a_limit() -> None:
    with pytest.raises(InvalidInput, match="content: a body of 2000001 characters"):
        made(parcel(text="x" * 2_000_001))
