"""Encryption for Web Push against the example of its RFC, and against a browser that knows nothing of our code."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.providers.browser import Browser, bytes_of, claims_of, text_of
from tests.contract.providers.parcels import NOW
from timebell.errors import ConfigurationError, InvalidInput
from timebell.providers.push_encryption import (
    PLAINTEXT_BYTES_MAX,
    Subscription,
    VapidKey,
    check_contact,
    encrypt,
)

# RFC 8291, section 5 and appendix A.
PLAINTEXT = b"When I grow up, I want to be a watermelon"
BROWSER_PRIVATE = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
BROWSER_PUBLIC = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
SERVER_PRIVATE = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A"
    "_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def subscription(of: Browser) -> Subscription:
    return Subscription.read(**of.keys())


def test_the_example_of_the_rfc() -> None:
    private_key = ec.derive_private_key(int.from_bytes(bytes_of(SERVER_PRIVATE), "big"), ec.SECP256R1())
    made = encrypt(
        PLAINTEXT, Subscription.read(BROWSER_PUBLIC, AUTH), private_key=private_key, salt=bytes_of(SALT)
    )
    assert text_of(made) == BODY


def test_the_browser_of_these_tests_reads_the_example() -> None:
    browser = Browser(bytes_of(BROWSER_PRIVATE), bytes_of(AUTH))
    assert browser.keys() == {"p256dh": BROWSER_PUBLIC, "auth": AUTH}
    assert browser.decrypt(bytes_of(BODY)) == PLAINTEXT


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200))
def test_a_browser_reads_what_was_meant_for_it(plaintext: bytes) -> None:
    browser = Browser()
    body = encrypt(plaintext, subscription(browser))
    assert browser.decrypt(body) == plaintext
    assert encrypt(plaintext, subscription(browser)) != body, "key and salt are new each time"
    with pytest.raises(InvalidTag):
        Browser().decrypt(body)


def test_the_longest_message_that_every_service_takes() -> None:
    browser = Browser()
    body = encrypt(b"x" * PLAINTEXT_BYTES_MAX, subscription(browser))
    assert len(body) == 4_096
    assert len(browser.decrypt(body)) == PLAINTEXT_BYTES_MAX
    with pytest.raises(InvalidInput, match="content: a push message of 3994 bytes; the limit is 3993"):
        encrypt(b"x" * (PLAINTEXT_BYTES_MAX + 1), subscription(browser))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"auth": "short"}, "auth: is not"),
        ({"auth": text_of(b"x" * 15)}, "auth: is not 16 bytes"),
        ({"auth": "!" * 22}, "auth: is not base64url"),
        ({"p256dh": text_of(b"\x04" + b"\x01" * 64)}, "p256dh: is no point on P-256"),
        ({"p256dh": text_of(b"x" * 65)}, "p256dh: is no point"),
        ({"p256dh": ""}, "p256dh: is not base64url"),
        ({"p256dh": "A" * 5_000}, "p256dh: is not base64url"),
    ],
)
def test_keys_that_no_browser_gave(keys: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Subscription.read(**{**Browser().keys(), **keys})


def test_keys_in_plain_base64_with_padding() -> None:
    keys = Browser().keys()
    padded = {name: text.replace("-", "+").replace("_", "/") + "=" for name, text in keys.items()}
    assert Subscription.read(**padded) == Subscription.read(**keys)


def test_a_secret_is_not_shown() -> None:
    made = Subscription.read(BROWSER_PUBLIC, AUTH)
    assert repr(made.auth) not in repr(made)


def test_the_token_names_the_service_and_ends() -> None:
    key = VapidKey.new()
    header = key.authorization(origin="https://push.example", contact="mailto:ops@example.org", now=NOW)
    claims, public = claims_of(header)
    assert public == key.public
    assert claims == {
        "aud": "https://push.example",
        "exp": int((NOW + timedelta(hours=12)).timestamp()),
        "sub": "mailto:ops@example.org",
    }


def test_a_key_is_kept_as_text() -> None:
    key = VapidKey.read(SERVER_PRIVATE)
    assert key.private == SERVER_PRIVATE
    assert VapidKey.read(f" {key.private}\n").public == key.public
    assert VapidKey.new().private != VapidKey.new().private


@pytest.mark.parametrize(
    "text", ["", "x", text_of(b"\0" * 32), text_of(b"\xff" * 32), text_of(b"x" * 31), "ü"]
)
def test_a_key_that_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="vapid_key: is no"):
        VapidKey.read(text)


@pytest.mark.parametrize(
    "contact", ["", "ops@example.org", "http://example.org", "mailto:x", "mailto:a@b\r\nX: y"]
)
def test_a_contact_that_nobody_can_be_reached_by(contact: str) -> None:
    with pytest.raises(ConfigurationError, match="contact: give mailto:"):
        check_contact(contact)
