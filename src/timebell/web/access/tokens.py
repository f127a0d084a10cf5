"""Tokens that live shortly and are kept nowhere: for a person who calls for themselves, and for a stream in a browser.

They are signed with a key of their own, drawn from `secret_key`, so that nothing else that it signs can pass for one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

import orjson

from timebell.config import Settings
from timebell.errors import InvalidInput
from timebell.rules.signing import signer_of
from timebell.web.operation.problems import CHALLENGE, Problem
from timebell.web.operation.refusals import TOKEN_EXPIRED

if TYPE_CHECKING:
    from timebell.web.access.access import Caller

Purpose = Literal["recipient", "stream"]
_PREFIX: Final = {"recipient": "tbr_", "stream": "tbs_"}
SECONDS_MAX: Final[dict[Purpose, int]] = {"recipient": 24 * 3600, "stream": 600}
_TOKEN_MAX = 1_000
# A page that does not mind the end of its token comes with it again and again.
_EXPIRED_RETRY_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a token says: for a stream without a recipient, that it may follow the tenant's events. It is as good as the
    key that it was made with, whose id it carries."""

    purpose: Purpose
    tenant: str
    recipient: UUID | None
    key_id: UUID | None
    expires_at: datetime


class Tokens:
    """Makes and reads them. Both sides of a cluster need the same `secret_key`."""

    def __init__(self, settings: Settings, uses: Counter[str] | None = None) -> None:
        signers = {
            purpose: signer_of(settings, f"timebell {purpose} token v1", uses) for purpose in SECONDS_MAX
        }
        self._signers = {purpose: signer for purpose, signer in signers.items() if signer is not None}

    @staticmethod
    def is_token(secret: str) -> bool:
        return secret.startswith(tuple(_PREFIX.values()))

    @staticmethod
    def is_for_stream(secret: str) -> bool:
        return secret.startswith(_PREFIX["stream"])

    def make(
        self,
        purpose: Purpose,
        *,
        tenant: str,
        recipient: UUID | None,
        seconds: int,
        key_id: UUID | None = None,
    ) -> tuple[str, datetime]:
        """A token and when it ends. It lives in real time, also in a sandbox."""
        if not 1 <= seconds <= SECONDS_MAX[purpose]:
            raise InvalidInput(f"give 1 to {SECONDS_MAX[purpose]}", field="seconds")
        expires = _real_seconds() + seconds
        # The driver's own ids are ids too, but not to whoever writes JSON.
        body = orjson.dumps([tenant, recipient, expires, key_id], default=str)
        signer = self._signers.get(purpose)
        if signer is None:
            raise Problem(
                503, "secret_key_missing", "secret_key is not set on this server; tokens cannot be made"
            )
        return _PREFIX[purpose] + signer.sign(body), datetime.fromtimestamp(expires, UTC)

    def read(self, purpose: Purpose, token: str) -> Token | None:
        """What it says, or None where it is not ours or is for something else. One that has ended is refused apart, for
        whoever has it only needs another."""
        signer = self._signers.get(purpose)
        if signer is None or len(token) > _TOKEN_MAX or not token.startswith(_PREFIX[purpose]):
            return None
        body = signer.read(token.removeprefix(_PREFIX[purpose]))
        if body is None:
            return None
        tenant, recipient, expires, key_id = orjson.loads(body)
        if expires <= _real_seconds():
            raise Problem(
                401,
                TOKEN_EXPIRED,
                "the token has ended; make another, and go on from the last place",
                headers={**CHALLENGE, "retry-after": str(_EXPIRED_RETRY_SECONDS)},
            )
        return Token(
            purpose=purpose,
            tenant=tenant,
            recipient=None if recipient is None else UUID(recipient),
            key_id=None if key_id is None else UUID(key_id),
            expires_at=datetime.fromtimestamp(expires, UTC),
        )

    def caller(self, secret: str, *, is_stream: bool) -> Caller | None:
        """Whoever calls with a recipient's token calls as that person, and may do what persons do. A stream's token
        opens streams, and nothing else."""
        from timebell.web.access.access import Caller

        token = self.read("recipient", secret)
        if token is None and is_stream:
            token = self.read("stream", secret)
        if token is None:
            return None
        return Caller(
            tenant=token.tenant,
            name=f"stream:{token.key_id}" if token.recipient is None else f"recipient:{token.recipient}",
            scope="write" if token.purpose == "recipient" else "read",
            is_token=True,
            recipient=token.recipient,
            key_id=token.key_id,
        )


def _real_seconds() -> int:
    """A token guards the door in real time, on every node, and no database is asked."""
    return int(time.time())  # noqa: TID251
