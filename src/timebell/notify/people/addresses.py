"""Validation of addresses: each kind is checked, and written in the one way in which it is compared.

Nothing is asked of a network here. Whether a mailbox or a number exists is for the provider to find out.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, get_args
from urllib.parse import urlsplit

import phonenumbers
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from email_validator import EmailNotValidError, validate_email

from timebell.errors import InvalidInput
from timebell.kernel.models import check_instant, check_name
from timebell.notify.models import Address, AddressKind
from timebell.notify.provider import Channel

# The kind of address that a channel needs; the inbox needs none.
KIND_OF_CHANNEL: Final[Mapping[Channel, AddressKind]] = {
    "email": "email",
    "sms": "phone",
    "whatsapp": "phone",
    "push": "push",
    "webhook": "webhook",
}
ADDRESS_KINDS: Final[tuple[AddressKind, ...]] = get_args(AddressKind)

_URL_MAX = 2_000
_PHONE_MAX = 50
_E164_MAX = 16
_POINT_BYTES = 65
_AUTH_BYTES = 16
_SECRET_BYTES_MIN, _SECRET_BYTES_MAX = 24, 64
_NOT_IN_URL = re.compile(r"[\s\\\x00-\x20\x7f]")


def checked_email(value: object, field: str = "email") -> str:
    """The address in lower case. No mailbox is known to tell case apart, and a report of a bounce may spell it
    otherwise than we did; it must still be found on the suppression list."""
    check_name(field, value, longest=254, required=True)
    try:
        # The names that are reserved for tests lead nowhere, which is what somebody who tries things out wants.
        valid = validate_email(str(value), check_deliverability=False, test_environment=True)
    except EmailNotValidError as error:
        raise InvalidInput(f"{error} Give one address, such as name@example.org.", field=field) from None
    return valid.normalized.lower()


def checked_phone(value: object, field: str = "phone") -> str:
    """The number as E.164. Whether it is assigned is not asked: numbering plans change faster than copies of them."""
    check_name(field, value, longest=_PHONE_MAX, required=True)
    remedy = "give it with its country code, such as +49 170 1234567"
    try:
        number = phonenumbers.parse(str(value), None)
    except phonenumbers.NumberParseException:
        raise InvalidInput(f"{value!r} is not an international phone number; {remedy}", field=field) from None
    written = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    # What is possible only within a town, without its area code, is no number that a provider could dial.
    is_possible = (
        phonenumbers.is_possible_number_with_reason(number) == phonenumbers.ValidationResult.IS_POSSIBLE
    )
    if not is_possible or len(written) > _E164_MAX:
        raise InvalidInput(f"{value!r} is too long or too short for its country; {remedy}", field=field)
    if number.extension:
        raise InvalidInput(f"{value!r} has an extension, which no message reaches; leave it out", field=field)
    return written


def push_address(subscription: object, field: str = "push") -> Address:
    """The address of a push subscription as browsers give it: `{endpoint, keys: {p256dh, auth}}`."""
    if not isinstance(subscription, Mapping) or not isinstance(subscription.get("keys"), Mapping):
        raise InvalidInput(
            "must be {endpoint, keys: {p256dh, auth}}; give what PushSubscription.toJSON() answers",
            field=field,
        )
    address = Address(
        kind="push", value=subscription.get("endpoint", ""), detail={"keys": subscription["keys"]}
    )
    return checked_address(address, field)


def checked_address(address: object, field: str = "address") -> Address:
    """The address with its value in the one way of writing it, and of its detail only what belongs to its kind."""
    if not isinstance(address, Address):
        raise InvalidInput(
            f"{address!r:.100} is not an Address; give Address(kind=..., value=...)", field=field
        )
    if address.kind not in ADDRESS_KINDS:
        raise InvalidInput(f"must be one of {', '.join(ADDRESS_KINDS)}", field=f"{field}.kind")
    if not isinstance(address.detail, Mapping):
        raise InvalidInput("must be a mapping", field=f"{field}.detail")
    check_instant(f"{field}.verified_at", address.verified_at)
    value, detail = _CHECKS[address.kind](address, field)
    return replace(address, value=value, detail=detail)


def checked_value(channel: Channel, value: object, field: str = "address") -> str:
    """What stands for an address of a channel where there is no more than its value, as on the suppression list."""
    kind = KIND_OF_CHANNEL.get(channel)
    if kind is None:
        raise InvalidInput(f"{channel} has no addresses; name another channel", field="channel")
    if kind == "email":
        return checked_email(value, field)
    if kind == "phone":
        return checked_phone(value, field)
    return _checked_url(value, field, schemes=("https",) if kind == "push" else ("https", "http"))


def _email(address: Address, field: str) -> tuple[str, dict[str, Any]]:
    return checked_email(address.value, f"{field}.value"), {}


def _phone(address: Address, field: str) -> tuple[str, dict[str, Any]]:
    return checked_phone(address.value, f"{field}.value"), {}


def _push(address: Address, field: str) -> tuple[str, dict[str, Any]]:
    endpoint = _checked_url(address.value, f"{field}.endpoint", schemes=("https",))
    keys = address.detail.get("keys")
    if not isinstance(keys, Mapping):
        raise InvalidInput("must hold p256dh and auth, as the browser gave them", field=f"{field}.keys")
    point = _decoded(keys.get("p256dh"), f"{field}.keys.p256dh")
    try:
        if len(point) != _POINT_BYTES:
            raise ValueError("browsers give both coordinates, and so the encryption takes them")
        EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
    except ValueError:
        raise InvalidInput(
            "is no point of the curve P-256; give the key as the browser gave it",
            field=f"{field}.keys.p256dh",
        ) from None
    if len(_decoded(keys.get("auth"), f"{field}.keys.auth")) != _AUTH_BYTES:
        raise InvalidInput(
            f"must be {_AUTH_BYTES} bytes; give it as the browser gave it", field=f"{field}.keys.auth"
        )
    return endpoint, {"keys": {"p256dh": keys["p256dh"], "auth": keys["auth"]}}


def _webhook(address: Address, field: str) -> tuple[str, dict[str, Any]]:
    """Where the URL leads is checked when it is called; a name may lead elsewhere by then.

    While a secret is being replaced, `previous_secret` signs as well.
    """
    url = _checked_url(address.value, f"{field}.value", schemes=("https", "http"))
    secrets = {"secret": address.detail.get("secret")}
    if address.detail.get("previous_secret") is not None:
        secrets["previous_secret"] = address.detail["previous_secret"]
    for name, secret in secrets.items():
        _check_secret(secret, f"{field}.{name}")
    return url, secrets


def _check_secret(secret: object, field: str) -> None:
    remedy = f"give whsec_ and {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes in base64"
    if not isinstance(secret, str) or not secret.startswith("whsec_"):
        raise InvalidInput(f"is missing, and what is sent must be signed; {remedy}", field=field)
    try:
        length = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
    except (binascii.Error, ValueError):
        length = 0
    if not _SECRET_BYTES_MIN <= length <= _SECRET_BYTES_MAX:
        raise InvalidInput(f"is no secret of ours; {remedy}", field=field)


_CHECKS: Final[Mapping[AddressKind, Callable[[Address, str], tuple[str, dict[str, Any]]]]] = {
    "email": _email,
    "phone": _phone,
    "push": _push,
    "webhook": _webhook,
}


def _checked_url(value: object, field: str, *, schemes: tuple[str, ...]) -> str:
    check_name(field, value, longest=_URL_MAX, required=True)
    url = str(value)
    remedy = f"give one that begins with {' or '.join(f'{scheme}://' for scheme in schemes)} and a host"
    if not url.isascii() or _NOT_IN_URL.search(url):
        raise InvalidInput(f"holds characters that no URL has; {remedy}", field=field)
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise InvalidInput(f"is not a URL that can be called; {remedy}", field=field)
    if "@" in parts.netloc or parts.fragment:
        raise InvalidInput("must have neither a login nor a fragment; leave them out", field=field)
    return url


def _decoded(value: object, field: str) -> bytes:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isascii():
        raise InvalidInput("must be base64url; give it as the browser gave it", field=field)
    try:
        return base64.b64decode(value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("must be base64url; give it as the browser gave it", field=field) from None
