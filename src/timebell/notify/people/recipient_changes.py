"""The common part of all changes of a recipient: each waits for a lock, is recorded, and what waits is tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from timebell.clock import Ids
from timebell.errors import NotFound, RevisionConflict
from timebell.kernel.bell import Timebell
from timebell.kernel.models import check_name, check_whole
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.models import Address, Recipient
from timebell.notify.people.addresses import KIND_OF_CHANNEL
from timebell.notify.people.recipient_rows import recipient_of
from timebell.notify.people.recipient_store import RecipientStore
from timebell.notify.people.suppression_store import SuppressionStore
from timebell.notify.rules.recipient_checks import check_recipient_id

ADDRESSES_MAX = 20
REVISION_MAX = 2**31 - 1
_HASTENED_MAX = 10_000

# What a change of the recipient may end: waiting for its quiet hours or its cap, or for a value that it lacks.
WAITS: Final = ("held_quiet_hours", "held_capped", "template_incomplete")
# A provider that failed at one address is given time before it is tried at the same one again, but not at a new one.
WAITS_FOR_ADDRESS: Final = (*WAITS, "held_retry", "held_breaker", "held_rate")


def no_recipient(name: object) -> NotFound:
    return NotFound(f"this tenant has no recipient {name}; it may have been erased")


class RecipientChanges:
    """Used by the verbs that change recipients, each in the transaction of its caller."""

    def __init__(self, bell: Timebell) -> None:
        self.bell = bell
        self.store = RecipientStore(bell.clock)
        self.suppressions = SuppressionStore(bell.clock)
        self.ids = Ids(bell.chance)

    async def lock(
        self, tx: Transaction, id: UUID, *, actor: str | None, if_revision: int | None = None
    ) -> Recipient:
        """The recipient as it is now, which nobody else changes until the transaction ends."""
        check_transaction(tx)
        check_recipient_id(id)
        check_name("actor", actor)
        check_whole("if_revision", if_revision, 0, REVISION_MAX)
        locked = await self.store.lock_recipient(tx.session, tenant=tx.tenant, id=id)
        if locked is None or locked["erased_at"] is not None:
            raise no_recipient(id)
        if if_revision is not None and locked["revision"] != if_revision:
            raise RevisionConflict(
                f"the recipient {id} has revision {locked['revision']}, not {if_revision}; "
                "read it again and decide anew"
            )
        return await self.read(tx, id)

    async def read(self, tx: Transaction, id: UUID) -> Recipient:
        row = await self.store.read_recipient(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise no_recipient(id)
        return recipient_of(row)

    async def write_addresses(self, tx: Transaction, id: UUID, addresses: Sequence[Address]) -> list[UUID]:
        """One that was suppressed while it was a recipient's that is erased by now is suppressed still."""
        addresses = list({(one.kind, one.value): one for one in addresses}.values())
        if not addresses:
            return []
        ids = await self.store.insert_addresses(
            tx.session,
            tenant=tx.tenant,
            recipient_id=id,
            ids=self.ids.many(len(addresses)),
            addresses=addresses,
        )
        await self.suppressions.lock_addresses(
            tx.session, tenant=tx.tenant, recipient_id=id, is_erasure=False
        )
        reached = [
            (channel, one.value)
            for one in addresses
            for channel, kind in KIND_OF_CHANNEL.items()
            if kind == one.kind
        ]
        await self.suppressions.show_suppressions(
            tx.session,
            tenant=tx.tenant,
            channels=[channel for channel, _ in reached],
            addresses=[value for _, value in reached],
        )
        return ids

    async def record(
        self, tx: Transaction, id: UUID, name: str, data: Mapping[str, Any], actor: str | None
    ) -> None:
        """Events outlive an erasure: they say which terms, topics and channels changed, and no name or address."""
        await self.bell.record(tx, name, data, subject=f"recipient:{id}", actor=actor)

    async def hasten(self, tx: Transaction, id: UUID, reasons: Sequence[str] = WAITS) -> None:
        """Whether what waits may be told now is decided anew by its own run."""
        held = await self.store.list_held_of_recipient(
            tx.session, tenant=tx.tenant, recipient_id=id, reasons=list(reasons), limit=_HASTENED_MAX
        )
        if held:
            await self.bell.hasten(tx, held)
