"""In whose name a tenant may send: what an approval stands for, and what it does not."""

from __future__ import annotations

import click
import pytest

from timebell.cli.tenants import _sender
from timebell.errors import InvalidInput
from timebell.notify.people.senders import as_approved, as_written, unapproved


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("email", "Desk@Example.ORG", "desk@example.org"),
        ("email", "Example.ORG", "example.org"),
        ("email", "b\u00fccher.example", "b\u00fccher.example"),
        ("sms", "Acme", "Acme"),
        ("whatsapp", "+4915112345678", "4915112345678"),
    ],
)
def test_one_form(kind: str, value: str, written: str) -> None:
    assert as_written(kind, value) == written


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        ("fax", "1", "kind"),
        ("email", "", "value"),
        ("email", "no domain", "value"),
        ("email", "a@b@example.org", "value"),
        ("email", "example.org\r\nBcc: eve@example.com", "value"),
        ("sms", "Ac\nme", "value"),
        ("sms", "x" * 255, "value"),
    ],
)
def test_what_is_no_sender(kind: str, value: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        as_written(kind, value)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("sender", "refused"),
    [
        ({"email": "any@example.org"}, []),
        ({"email": "ANY@EXAMPLE.ORG"}, []),
        ({"email": "any@mail.example.org"}, ["email"]),
        ({"email": "any@example.org.evil.example"}, ["email"]),
        ({"email": "any@notexample.org"}, ["email"]),
        ({"email": "desk@other.example"}, []),
        ({"email": "boss@other.example"}, ["email"]),
        ({"reply_to": "boss@other.example"}, ["reply_to"]),
        ({"sms": "Acme", "whatsapp": "+49151"}, []),
        ({"sms": "acme", "whatsapp": "49152"}, ["sms", "whatsapp"]),
        ({"sms": "example.org"}, ["sms"]),
        ({"email_name": "Anybody"}, []),
    ],
)
def test_what_an_approval_stands_for(sender: dict[str, str], refused: list[str]) -> None:
    approved = {
        ("email", "example.org"),
        ("email", "desk@other.example"),
        ("sms", "Acme"),
        ("whatsapp", "49151"),
    }
    assert unapproved(sender, approved) == refused


def test_a_name_goes_with_its_address() -> None:
    """Else anybody could be called anything beside the provider's own address."""
    sender = {"email": "a@example.org", "email_name": "A bank", "sms": "Acme"}
    assert as_approved("acme", sender, {("sms", "Acme")}) == {"sms": "Acme"}
    assert as_approved("acme", sender, {("email", "example.org")}) == {
        "email": "a@example.org",
        "email_name": "A bank",
    }
    assert as_approved("default", sender, ()) == sender


def test_what_the_command_takes_for_a_sender() -> None:
    assert _sender("email=example.org") == ("email", "example.org")
    assert _sender("sms=A=B") == ("sms", "A=B")
    for text in ("example.org", "fax=1", "email="):
        with pytest.raises(click.BadParameter, match="give KIND=VALUE"):
            _sender(text)
