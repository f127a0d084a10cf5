"""A browser that subscribed to push messages, and the push service between it and us.

Written from RFC 8291 (3 and 4) and RFC 8188 (2) with nothing but hashes and the cipher, and RFC 8292 (2 and 3) for the
token, so that it shares no code with what it checks.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


class Browser:
    """The keys of one subscription."""

    def __init__(self, private: bytes | None = None, auth: bytes | None = None) -> None:
        number = int.from_bytes(private, "big") if private else None
        self._key = (
            ec.derive_private_key(number, ec.SECP256R1())
            if number is not None
            else ec.generate_private_key(ec.SECP256R1())
        )
        self._auth = auth or os.urandom(16)
        self._public = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def keys(self) -> dict[str, str]:
        return {"p256dh": text_of(self._public), "auth": text_of(self._auth)}

    def decrypt(self, body: bytes) -> bytes:
        salt, record_size, key_length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        assert key_length == 65
        sender, record = body[21:86], body[86:]
        assert 17 <= len(record) <= record_size
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self._key.exchange(ec.ECDH(), point)
        keying = _hmac(_hmac(self._auth, shared), b"WebPush: info\x00" + self._public + sender + b"\x01")
        extracted = _hmac(salt, keying)
        key = _hmac(extracted, b"Content-Encoding: aes128gcm\x00\x01")[:16]
        nonce = _hmac(extracted, b"Content-Encoding: nonce\x00\x01")[:12]
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\x00")
        assert padded.endswith(b"\x02"), "the last record ends with 2"
        return padded[:-1]


def claims_of(authorization: str) -> tuple[dict[str, Any], str]:
    """The verified claims of a VAPID token, and the public key it came with."""
    scheme, _, rest = authorization.partition(" ")
    assert scheme == "vapid"
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    signed, _, signature = parts["t"].rpartition(".")
    head, claims = (json.loads(bytes_of(part)) for part in signed.split("."))
    assert head == {"typ": "JWT", "alg": "ES256"}
    raw = bytes_of(signature)
    assert len(raw) == 64
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes_of(parts["k"]))
    encoded = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    point.verify(encoded, signed.encode(), ec.ECDSA(hashes.SHA256()))
    assert isinstance(claims, dict)
    return claims, parts["k"]


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()
