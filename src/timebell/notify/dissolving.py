"""Digests that are not going to be told after all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from timebell.kernel import Timebell, Transaction
from timebell.kernel.transaction import check_transaction
from timebell.notify.delivery_store import Columns, DeliveryStore
from timebell.notify.digest_store import DigestStore

_CANCELLED_MAX: Final = 10_000


class Dissolver:
    """Takes digests back, with everything in them, in the transaction of the caller."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = DigestStore(bell.clock)
        self._notes = DeliveryStore(bell.clock)

    async def dissolve(
        self, tx: Transaction, notification_ids: Sequence[UUID], *, reason: str, actor: str | None = None
    ) -> None:
        """Withdraw what waits in the digests that these notifications, which were withdrawn, would have told.

        Whatever is beyond the bound, or runs just then, finds that it is settled.
        """
        check_transaction(tx)
        digests = await self._store.dissolve_digests(
            tx.session, tenant=tx.tenant, notification_ids=list(notification_ids)
        )
        if not digests:
            return
        members = await self._store.list_members(
            tx.session, tenant=tx.tenant, digest_ids=[row["id"] for row in digests], limit=_CANCELLED_MAX
        )
        for id in members:
            await self._bell.cancel(tx, id=id, reason=reason, actor=actor)
        columns: Columns = {
            "tenants": [tx.tenant] * len(digests),
            "digest_ids": [row["id"] for row in digests],
            "notification_ids": [row["notification_id"] for row in digests],
            "states": [row["state"] for row in digests],
            "reasons": ["withdrawn"] * len(digests),
        }
        await self._notes.settle_digest_members(tx.session, columns=columns)

    async def late(
        self, tx: Transaction, *, subject: str | None = None, id: UUID | None = None
    ) -> list[UUID]:
        """What is about the subject, or is named, and is in a digest that is being told."""
        return await self._store.list_late_members(tx.session, tenant=tx.tenant, subject=subject, id=id)
