"""`MagicLinks`: links that let a person in once. Each verb takes part in the transaction that it is given.

Whoever has the token is taken for the person, so what is kept of it is a hash, and no event or line of a log has it. It
is answered once to whoever issues it, and they bring it to the person: what notify sends, it keeps.
"""

from __future__ import annotations

import secrets
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.staffing.access import check_operator
from timebell.apps.marketplace.tokens.cleaning import Cleaning
from timebell.apps.marketplace.tokens.models import MagicLink, NewLink
from timebell.apps.marketplace.tokens.refusals import link_expired, link_used, no_link
from timebell.apps.marketplace.tokens.rules import TOKEN_MAX, hash_of, token_of
from timebell.apps.marketplace.tokens.store import TokenStore
from timebell.errors import NotFound
from timebell.kernel import Ids, Timebell, Transaction
from timebell.notify import Notify

_TOKEN_BYTES: Final = 32


class MagicLinks:
    """Issues links and redeems them."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._store = TokenStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def issue(self, tx: Transaction, person: UUID, minutes: int, *, by: By) -> NewLink:
        """One that is good for so many minutes. Those that a person has stay good."""
        check_operator(by)
        if not await self._notify.recipients.hold(tx, [person]):
            raise NotFound(f"there is no recipient {person}; add it first")
        await Cleaning(self._bell).ensure(tx, by=by)
        token = token_of(secrets.token_urlsafe(_TOKEN_BYTES))
        link = await self._store.insert_token(
            tx, id=self._ids.new(), user_id=person, token_hash=hash_of(token), minutes=minutes
        )
        await self._record(tx, "magic_link.issued", link, by)
        return NewLink(link=link, token=token)

    async def redeem(self, tx: Transaction, token: str, *, by: By) -> MagicLink:
        """Use a link. Of several who bring one at once, one does."""
        found = await self._store.lock_token(tx, token_hash=hash_of(token[: TOKEN_MAX + 1]))
        if found is None:
            raise no_link()
        if found.standing == "used":
            raise link_used()
        if found.standing == "expired":
            raise link_expired()
        used_at = await self._store.use_token(tx, id=found.link.id)
        if used_at is None:
            raise link_used()
        await self._record(tx, "magic_link.redeemed", found.link, by)
        link = found.link
        return MagicLink(
            id=link.id,
            user_id=link.user_id,
            expires_at=link.expires_at,
            created_at=link.created_at,
            used_at=used_at,
        )

    async def _record(self, tx: Transaction, event: str, link: MagicLink, by: By) -> None:
        await self._bell.record(
            tx,
            event,
            {"recipient_id": str(link.user_id), "expires_at": link.expires_at.isoformat()},
            subject=f"magic_link:{link.id}",
            actor=by.name,
            correlation_id=by.correlation_id,
        )
