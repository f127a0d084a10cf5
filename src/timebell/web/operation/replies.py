"""Idempotency keys: the reply to a request is kept in the transaction of its effect, and given again to the same key.

Two requests with one key that are under way at once exclude each other by a lock that ends with the transaction. So a
request that fails or dies leaves nothing behind, and may simply be sent again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson

from timebell.clock import Clock
from timebell.kernel import Timebell, Transaction
from timebell.web.access.keys import CHOSEN_KEY
from timebell.web.operation.problems import Problem
from timebell.web.store import WebStore

KEPT_SECONDS: Final = 24 * 3600
_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyScope:
    """Which request it is: a key means something for one caller and one operation. The same request has the same
    fingerprint."""

    tenant: str
    caller: str
    operation: str
    key: str
    fingerprint: bytes

    @property
    def name(self) -> str:
        return "\x1f".join((self.tenant, self.caller, self.operation, self.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReply:
    """A reply as it was sent."""

    status: int
    media_type: str | None
    headers: Mapping[str, str]
    body: bytes
    expires_at: datetime | None = None


def check_key(given: str) -> str:
    """The key without the quotes that the structured form of the header has."""
    key = given.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not _KEY.fullmatch(key):
        raise Problem(
            400, "idempotency_key_invalid", "idempotency-key: give 1 to 255 visible ASCII characters"
        )
    return key


async def prune_web(bell: Timebell, limit: int) -> int:
    """Forget replies whose day is over, and keys that have been good for nothing for long; answers how many."""
    store, days = WebStore(bell.clock), bell.settings.dead_days
    async with bell.database.connection() as session:
        replies = await store.prune_replies(session, limit=limit)
        keys = await store.prune_api_keys(session, chosen=CHOSEN_KEY, days=days, limit=limit)
    return max(replies, keys)


async def erase_replies(bell: Timebell, tx: Transaction, recipient: UUID) -> None:
    """Forget what was answered to calls that were made for a person who is erased."""
    await WebStore(bell.clock).erase_replies(tx.session, tenant=tx.tenant, caller=f"recipient:{recipient}")


class Replies:
    """The replies that are kept, a day each."""

    def __init__(self, clock: Clock, *, kept_seconds: float = KEPT_SECONDS) -> None:
        self._store = WebStore(clock)
        self._kept_seconds = kept_seconds

    async def begin(self, tx: Transaction, scope: ReplyScope) -> KeptReply | None:
        """The reply of the first time, or None where this is it; then the effect and `keep` follow in `tx`."""
        if not await self._store.lock_reply(tx.session, name=scope.name):
            raise Problem(
                409,
                "idempotency_key_in_use",
                "a request with this idempotency key is under way; wait for its answer, or ask again soon",
                headers={"retry-after": "1"},
            )
        row = await self._store.read_reply(
            tx.session, tenant=scope.tenant, caller=scope.caller, operation=scope.operation, key=scope.key
        )
        if row is None:
            return None
        if row["fingerprint"] != scope.fingerprint:
            raise Problem(
                422,
                "idempotency_key_reused",
                "this idempotency key was used with another request; use a new one for each request",
            )
        return KeptReply(
            status=row["status"],
            media_type=row["media_type"],
            headers=orjson.loads(row["headers"]),
            body=row["body"],
            expires_at=row["expires_at"],
        )

    async def keep(self, tx: Transaction, scope: ReplyScope, reply: KeptReply) -> datetime:
        """Answers with how long it is kept."""
        return await self._store.keep_reply(
            tx.session,
            tenant=scope.tenant,
            caller=scope.caller,
            operation=scope.operation,
            key=scope.key,
            fingerprint=scope.fingerprint,
            status=reply.status,
            media_type=reply.media_type,
            headers=orjson.dumps(dict(reply.headers)).decode(),
            body=reply.body,
            kept_seconds=self._kept_seconds,
        )
