"""Words of ours that come back to us through others' hands, in a link or a header, and must be as we said them."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol


class Secrets(Protocol):
    """Where the secrets come from: one that signs, and those that did so before and are still believed."""

    @property
    def secret_key(self) -> str | None: ...

    @property
    def previous_secret_keys(self) -> Sequence[str]: ...


class Signer:
    """Signs for one purpose. Each has a key of its own, so that what was signed for one cannot pass for another.

    What was signed with a secret of before is read too, and counted in `uses`, so that one can see when nobody brings
    it any more.
    """

    def __init__(
        self, secret: str, purpose: str, *, previous: Sequence[str] = (), uses: Counter[str] | None = None
    ) -> None:
        self._purpose = purpose
        self._key, *self._previous = [
            hmac.digest(each.encode("ascii"), purpose.encode("ascii"), sha256) for each in (secret, *previous)
        ]
        self._uses = uses

    def sign(self, body: bytes) -> str:
        """The body with its signature, in letters that a URL can hold. Whoever has it can read the body."""
        return f"{_encoded(body)}.{_encoded(_signature(self._key, body))}"

    def read(self, signed: str) -> bytes | None:
        """The body, or None where it is not one that we signed."""
        body_text, _, signature_text = signed.partition(".")
        try:
            body, signature = _decoded(body_text), _decoded(signature_text)
        except (binascii.Error, ValueError):
            return None
        if hmac.compare_digest(signature, _signature(self._key, body)):
            return body
        if not any(hmac.compare_digest(signature, _signature(key, body)) for key in self._previous):
            return None
        if self._uses is not None:
            self._uses[self._purpose] += 1
        return body


def signer_of(secrets: Secrets, purpose: str, uses: Counter[str] | None = None) -> Signer | None:
    """The signer for a purpose, or None where there is no secret to sign with."""
    if secrets.secret_key is None:
        return None
    return Signer(secrets.secret_key, purpose, previous=secrets.previous_secret_keys, uses=uses)


def _signature(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _decoded(text: str) -> bytes:
    """Only the one way of writing it: several texts for one body would make several tokens of it."""
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
    if _encoded(data) != text:
        raise ValueError("not as we write it")
    return data
