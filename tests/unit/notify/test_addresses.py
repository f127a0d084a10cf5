"""Addresses: each kind is checked, and written in the one way in which it is compared."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from timebell.errors import InvalidInput
from timebell.notify.models import Address
from timebell.notify.people.addresses import (
    checked_address,
    checked_email,
    checked_phone,
    checked_value,
    push_address,
)

ENDPOINT = "https://push.example.org/send/abc"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def compressed_point() -> str:
    point = ec.generate_private_key(ec.SECP256R1()).public_key()
    return encoded(point.public_bytes(Encoding.X962, PublicFormat.CompressedPoint))


def subscription(**changes: Any) -> dict[str, Any]:
    point = ec.generate_private_key(ec.SECP256R1()).public_key()
    keys = {
        "p256dh": encoded(point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)),
        "auth": encoded(bytes(16)),
    }
    return {"endpoint": ENDPOINT, "keys": keys, "expirationTime": None} | changes


@pytest.mark.req("A-5.6")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("Ana.B@EXAMPLE.org", "ana.b@example.org"),
        ("ana+news@example.test", "ana+news@example.test"),
        ("jörg@exämple.de", "jörg@exämple.de"),
        ("a@xn--exmple-cua.de", "a@exämple.de"),
    ],
)
def test_a_mailbox_is_written_in_one_way(given: str, kept: str) -> None:
    assert checked_email(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "ana",
        "ana@",
        "ana@localhost",
        "ana@example.org\r\nBcc: bob@example.org",
        "ana@example.org\n",
        "Ana <ana@example.org>",
        "ana@example.org, bob@example.org",
        '"ana b"@example.org',
        "ana@[127.0.0.1]",
        "ana\x00@example.org",
        "a" * 250 + "@example.org",
        7,
        None,
    ],
)
def test_what_is_no_mailbox_is_refused_by_the_name_of_its_field(given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_email(given, "contact")
    assert refused.value.field == "contact"


@pytest.mark.req("A-5.6", "D-2.1")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("+49 170 1234567", "+491701234567"),
        ("+1 (202) 555-0123", "+12025550123"),
        ("tel:+44-7911-123456", "+447911123456"),
        ("+15551234567", "+15551234567"),
    ],
)
def test_a_number_is_written_as_e164(given: str, kept: str) -> None:
    assert checked_phone(given) == kept


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("0170 1234567", "country code"),
        ("+49", "country code"),
        ("+1 555 0123", "too long or too short"),
        ("+49 170 1234 5678 901", "too long or too short"),
        ("none", "country code"),
        ("+4917012345678901234", "too long or too short"),
        ("+1 202 555 0123 ext. 9", "leave it out"),
        ("+1" * 60, "1 to 50"),
        (49170, "not a text"),
    ],
)
@pytest.mark.req("A-6.2")
def test_what_is_no_number_is_refused_with_the_remedy(given: Any, remedy: str) -> None:
    with pytest.raises(InvalidInput, match=remedy) as refused:
        checked_phone(given)
    assert refused.value.field == "phone"


def test_a_push_subscription_is_taken_as_the_browser_gives_it() -> None:
    given = subscription()
    address = push_address(given)
    assert (address.kind, address.value, address.detail) == ("push", ENDPOINT, {"keys": given["keys"]})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"endpoint": "http://push.example.org/send"}, "push.endpoint"),
        ({"endpoint": None}, "push.endpoint"),
        ({"keys": None}, "push"),
        ({"keys": {}}, "push.keys.p256dh"),
        ({"keys": {"p256dh": encoded(b"\x04" + bytes(64)), "auth": encoded(bytes(16))}}, "push.keys.p256dh"),
        ({"keys": {"p256dh": compressed_point(), "auth": encoded(bytes(16))}}, "push.keys.p256dh"),
        ({"keys": {"p256dh": "!!!", "auth": encoded(bytes(16))}}, "push.keys.p256dh"),
        ({"keys": subscription()["keys"] | {"auth": encoded(bytes(15))}}, "push.keys.auth"),
        ({"keys": subscription()["keys"] | {"auth": "x" * 300}}, "push.keys.auth"),
    ],
)
def test_a_push_subscription_that_could_not_be_encrypted_for_is_refused(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        push_address(subscription(**changes))
    assert refused.value.field == field


def test_a_webhook_has_a_secret_and_while_it_changes_two() -> None:
    detail = {"secret": SECRET, "previous_secret": SECRET, "other": 1}
    address = checked_address(Address(kind="webhook", value="https://example.org/in?x=1", detail=detail))
    assert address.detail == {"secret": SECRET, "previous_secret": SECRET}


@pytest.mark.parametrize(
    ("value", "detail", "field"),
    [
        ("https://example.org/in", {}, "address.secret"),
        ("https://example.org/in", {"secret": "whsec_c2hvcnQ="}, "address.secret"),
        ("https://example.org/in", {"secret": "whsec_%%"}, "address.secret"),
        ("https://example.org/in", {"secret": SECRET, "previous_secret": "old"}, "address.previous_secret"),
        ("ftp://example.org/in", {"secret": SECRET}, "address.value"),
        ("https:///in", {"secret": SECRET}, "address.value"),
        ("https://example.org:99999/", {"secret": SECRET}, "address.value"),
        ("https://me:pass@example.org/", {"secret": SECRET}, "address.value"),
        ("https://example.org/#part", {"secret": SECRET}, "address.value"),
        ("https://example.org/\r\nHost: x", {"secret": SECRET}, "address.value"),
        ("https://example.org\\@evil.example/", {"secret": SECRET}, "address.value"),
        ("https://exämple.org/", {"secret": SECRET}, "address.value"),
    ],
)
def test_a_webhook_that_could_not_be_called_or_signed_is_refused(
    value: str, detail: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_address(Address(kind="webhook", value=value, detail=detail))
    assert refused.value.field == field


@pytest.mark.parametrize("given", [None, {"kind": "email"}, Address(kind="fax", value="1")])  # type: ignore[arg-type]
def test_only_an_address_of_a_known_kind_is_one(given: Any) -> None:
    with pytest.raises(InvalidInput):
        checked_address(given)


def test_an_address_is_checked_by_its_channel() -> None:
    assert checked_value("whatsapp", "+49 170 1234567") == "+491701234567"
    assert checked_value("email", "ANA@example.org") == "ana@example.org"
    assert checked_value("push", ENDPOINT) == ENDPOINT
    with pytest.raises(InvalidInput, match="has no addresses"):
        checked_value("inbox", "ana")
