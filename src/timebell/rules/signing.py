"""Words of ours that come back to us through others' hands, in a link or a header, and must be as we said them."""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import sha256


class Signer:
    """Signs for one purpose. Each has a key of its own, so that what was signed for one cannot pass for another."""

    def __init__(self, secret: str, purpose: str) -> None:
        self._key = hmac.digest(secret.encode("ascii"), purpose.encode("ascii"), sha256)

    def sign(self, body: bytes) -> str:
        """The body with its signature, in letters that a URL can hold. Whoever has it can read the body."""
        return f"{_encoded(body)}.{_encoded(self._signature(body))}"

    def read(self, signed: str) -> bytes | None:
        """The body, or None where it is not one that we signed."""
        body_text, _, signature_text = signed.partition(".")
        try:
            body, signature = _decoded(body_text), _decoded(signature_text)
        except (binascii.Error, ValueError):
            return None
        return body if hmac.compare_digest(signature, self._signature(body)) else None

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _decoded(text: str) -> bytes:
    """Only the one way of writing it: several texts for one body would make several tokens of it."""
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
    if _encoded(data) != text:
        raise ValueError("not as we write it")
    return data
