"""Signatures of Standard Webhooks 1.0.0: for what we send, and for what providers that use the scheme send us.

Signed is `id.timestamp.body`, with HMAC-SHA256 and a secret for each endpoint; several signatures stand side by side
while a secret is exchanged. See spec/standard-webhooks.md of standard-webhooks/standard-webhooks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from timebell.errors import InvalidInput, UnverifiedReport

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  (how every secret begins, and none itself)
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
SECRETS_MAX: Final = 4
SIGNATURES_MAX: Final = 16
TOLERANCE: Final = timedelta(minutes=5)

# A full stop would let one id and timestamp be read as another.
_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")
# Seconds since 1970, as many as a date can hold.
_TIMESTAMP = re.compile(r"[0-9]{1,11}")


def read_secret(secret: str, *, field: str = "secret") -> bytes:
    """The bytes of a secret as it is written, `whsec_` and base64."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise InvalidInput(
            f"is no secret; give {SECRET_PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64",
            field=field,
        )
    return key


def sign(*, message_id: str, signed_at: datetime, body: bytes, secrets: Sequence[bytes]) -> Mapping[str, str]:
    """The headers that go with the body, with one signature for each secret, the newest first."""
    if not _ID.fullmatch(message_id):
        raise InvalidInput("may have letters, digits, _ and - only", field="message_id")
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise InvalidInput(f"are {len(secrets)}; give between 1 and {SECRETS_MAX}", field="secrets")
    timestamp = str(int(signed_at.timestamp()))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, message_id, timestamp, body) for secret in secrets),
    }


def verify(
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Sequence[bytes],
    now: datetime,
    prefix: str = "webhook",
) -> str:
    """The id of the message, if one of the secrets signed exactly these bytes within the tolerance.

    Without a secret everything is refused: a door that was not fitted with a lock stays shut.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id = given.get(f"{prefix}-id", "")
    timestamp = given.get(f"{prefix}-timestamp", "")
    signatures = given.get(f"{prefix}-signature", "").split(" ")[:SIGNATURES_MAX]
    if not secrets:
        raise UnverifiedReport("no secret is set up to check it with", field="secret")
    if not _ID.fullmatch(message_id) or not _TIMESTAMP.fullmatch(timestamp):
        raise UnverifiedReport(
            "is missing or malformed; send the headers of the scheme", field=f"{prefix}-id"
        )
    if abs(now - datetime.fromtimestamp(int(timestamp), tz=UTC)) > TOLERANCE:
        raise UnverifiedReport("is not within five minutes of now", field=f"{prefix}-timestamp")
    expected = [_signature(secret, message_id, timestamp, body).encode() for secret in secrets[:SECRETS_MAX]]
    matches = [
        hmac.compare_digest(signature.encode("utf-8", "replace"), one)
        for signature in signatures
        for one in expected
    ]
    if not any(matches):
        raise UnverifiedReport("fits none of the secrets", field=f"{prefix}-signature")
    return message_id


def _signature(secret: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
