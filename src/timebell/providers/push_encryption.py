"""Encryption of a push message for one browser only, and the VAPID key that shows the push service who sent it.

The names are those of RFC 8291 (encryption for Web Push) and RFC 8292 (VAPID).
"""

from __future__ import annotations

import re
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import orjson
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from timebell.errors import ConfigurationError, InvalidInput

# What fits into the 4,096 bytes that every push service takes (RFC 8291, 4): less the header, the mark that ends the
# padding, and the tag.
PLAINTEXT_BYTES_MAX: Final = 3_993
# A day is the most that a service may accept (RFC 8292, 2); half of it leaves room for a clock that is wrong.
TOKEN_LIFETIME: Final = timedelta(hours=12)

_RECORD_BYTES: Final = 4_096
_POINT_BYTES: Final = 65
_AUTH_BYTES: Final = 16
_SALT_BYTES: Final = 16
_END_OF_LAST_RECORD: Final = b"\x02"
_CONTACT: Final = re.compile(r"(?:mailto:[!-~]+@[!-~]+|https://[!-~]+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The keys that a browser gave out with its endpoint: `p256dh` is a point on P-256, `auth` is a secret."""

    p256dh: bytes
    auth: bytes = field(repr=False)

    @classmethod
    def read(cls, p256dh: str, auth: str) -> Subscription:
        """From base64url, as browsers give them."""
        keys = cls(p256dh=decode_base64url(p256dh, field="p256dh"), auth=decode_base64url(auth, field="auth"))
        if len(keys.auth) != _AUTH_BYTES:
            raise InvalidInput("is not 16 bytes; give what the browser gave", field="auth")
        keys.public_key()
        return keys

    def public_key(self) -> ec.EllipticCurvePublicKey:
        try:
            return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), self.p256dh)
        except ValueError as error:
            raise InvalidInput("is no point on P-256; give what the browser gave", field="p256dh") from error


def encrypt(
    plaintext: bytes,
    subscription: Subscription,
    *,
    private_key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """The body of a push message, in one record of `aes128gcm`. Key and salt are new each time but in a test."""
    if len(plaintext) > PLAINTEXT_BYTES_MAX:
        raise InvalidInput(
            f"a push message of {len(plaintext)} bytes; the limit is {PLAINTEXT_BYTES_MAX}, so shorten the text",
            field="content",
        )
    own = private_key or ec.generate_private_key(ec.SECP256R1())
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    own_point = _point(own.public_key())
    shared = own.exchange(ec.ECDH(), subscription.public_key())
    keying = _derive(
        shared, subscription.auth, b"WebPush: info\0" + subscription.p256dh + own_point, length=32
    )
    content_key = _derive(keying, salt, b"Content-Encoding: aes128gcm\0", length=16)
    nonce = _derive(keying, salt, b"Content-Encoding: nonce\0", length=12)
    header = salt + struct.pack("!LB", _RECORD_BYTES, _POINT_BYTES) + own_point
    return header + AESGCM(content_key).encrypt(nonce, plaintext + _END_OF_LAST_RECORD, None)


class VapidKey:
    """The key by which push services know this server again. A browser's subscription is bound to it."""

    def __init__(self, private_key: ec.EllipticCurvePrivateKey) -> None:
        self._private_key = private_key
        self.public = encode_base64url(_point(private_key.public_key()))

    @classmethod
    def new(cls) -> VapidKey:
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def read(cls, text: str) -> VapidKey:
        """From 32 bytes in base64url, the form in which such keys are commonly kept."""
        remedy = "make one with `timebell providers vapid`"
        try:
            number = decode_base64url(text.strip(), field="vapid_key")
            if len(number) != 32:
                raise ConfigurationError(f"vapid_key: is not 32 bytes in base64url; {remedy}")
            return cls(ec.derive_private_key(int.from_bytes(number, "big"), ec.SECP256R1()))
        except (InvalidInput, ValueError) as error:
            raise ConfigurationError(f"vapid_key: is no private key on P-256; {remedy}") from error

    @property
    def private(self) -> str:
        """The key as `read` takes it, and a secret."""
        number = self._private_key.private_numbers().private_value
        return encode_base64url(number.to_bytes(32, "big"))

    def authorization(self, *, origin: str, contact: str, now: datetime) -> str:
        """The header that identifies us to the push service at an origin, for half a day from now."""
        head = encode_base64url(orjson.dumps({"typ": "JWT", "alg": "ES256"}))
        expires = int((now + TOKEN_LIFETIME).timestamp())
        claims = encode_base64url(orjson.dumps({"aud": origin, "exp": expires, "sub": contact}))
        signed = f"{head}.{claims}"
        r, s = decode_dss_signature(self._private_key.sign(signed.encode("ascii"), ec.ECDSA(hashes.SHA256())))
        signature = encode_base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
        return f"vapid t={signed}.{signature}, k={self.public}"


def check_contact(contact: str) -> str:
    """Where a push service may complain: an address after `mailto:`, or a page with https."""
    if len(contact) > 300 or _CONTACT.fullmatch(contact) is None:
        raise ConfigurationError("contact: give mailto:ops@example.org or https://example.org/contact")
    return contact


def encode_base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str, *, field: str) -> bytes:
    """The bytes behind base64url, with or without padding; some browsers' libraries give plain base64."""
    plain = text.rstrip("=").replace("+", "-").replace("/", "_")
    if len(plain) > 1_000 or re.fullmatch(r"[A-Za-z0-9_-]+", plain) is None or len(plain) % 4 == 1:
        raise InvalidInput("is not base64url; give what the browser gave", field=field)
    return urlsafe_b64decode(plain + "=" * (-len(plain) % 4))


def _derive(secret: bytes, salt: bytes, info: bytes, *, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
