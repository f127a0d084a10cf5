"""Erasing a recipient: who it is and what it was told are forgotten, and that something was told is not.

Ids, states and instants stay, so that counts, invoices and reports still add up. Suppressions stay too, as hashes: a
person who complained and was then erased must not be written to again because somebody imports an old list. From a
hash no list of addresses can be read; whoever knows an address can ask whether it is there, and that is all it is for.

What jobs hold is beyond its reach. The log keeps what a withdrawn notification was to say until that day's log is
dropped, after `log_days`, and a dead job keeps it for `dead_days`. A step of an agenda or a schedule that was never due
is not looked for: it keeps what it was to say until its time comes, and is skipped then. What was answered to a request
with an idempotency key that was not made for the person, such as the one that added them, is kept for its day.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from timebell.kernel.models import check_name
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.delivery.digests import Dissolver
from timebell.notify.people.erasure_store import ErasureStore
from timebell.notify.people.recipient_changes import RecipientChanges, no_recipient
from timebell.notify.planning.telling_store import TellingStore
from timebell.notify.rules.recipient_checks import check_recipient_id

_OPEN_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What became of what was still to be told: `withdrawn`, or `too_late` since it was being told just then. Of what
    another transaction held it is `undecided` which of the two it is.

    What is being told goes on to its end, and writes down no more than how it ended.
    """

    recipient_id: UUID
    withdrawn: tuple[UUID, ...] = ()
    too_late: tuple[UUID, ...] = ()
    undecided: tuple[UUID, ...] = ()


class Eraser:
    """Erases recipients, each in the transaction of the caller."""

    def __init__(self, changes: RecipientChanges) -> None:
        self._changes = changes
        self._store = ErasureStore(changes.bell.clock)
        self._notifications = TellingStore(changes.bell.clock)
        self._dissolver = Dissolver(changes.bell)

    async def erase(self, tx: Transaction, id: UUID, *, actor: str | None = None) -> Erasure:
        """One that was erased before is erased again, which is harmless."""
        check_transaction(tx)
        check_recipient_id(id)
        check_name("actor", actor)
        if not await self._store.lock_for_erasure(tx.session, tenant=tx.tenant, id=id):
            raise no_recipient(id)
        erasure = await self._withdraw(tx, id, actor)
        await self._dissolver.dissolve(tx, erasure.withdrawn, reason="erased", actor=actor)
        # The list is looked up by the addresses, so it comes before they are gone.
        suppressions = self._changes.suppressions
        await suppressions.lock_addresses(tx.session, tenant=tx.tenant, recipient_id=id, is_erasure=True)
        await suppressions.hide_suppressions(tx.session, tenant=tx.tenant, recipient_id=id)
        ended = [*erasure.withdrawn, *erasure.too_late, *erasure.undecided]
        await self._notifications.withdraw_notifications(tx.session, tenant=tx.tenant, ids=ended)
        await self._store.erase_messages(tx.session, tenant=tx.tenant, recipient_id=id)
        await self._store.erase_outbox(tx.session, tenant=tx.tenant, recipient_id=id)
        await self._store.erase_recipient(tx.session, tenant=tx.tenant, id=id)
        for app in self._changes.bell.registry.apps:
            if app.on_erase is not None:
                await app.on_erase(self._changes.bell, tx, id)
        await self._changes.record(
            tx, id, "recipient.erased", {"withdrawn_count": len(erasure.withdrawn)}, actor
        )
        return erasure

    async def _withdraw(self, tx: Transaction, id: UUID, actor: str | None) -> Erasure:
        """What is beyond the bound is skipped when its time comes, since there is nobody left to tell."""
        answers: dict[str, list[UUID]] = {"cancelled": [], "too_late": [], "undecided": []}
        waiting = await self._store.list_open_of_recipient(
            tx.session, tenant=tx.tenant, recipient_id=id, limit=_OPEN_MAX
        )
        for one in waiting:
            for cancelled in await self._changes.bell.cancel(tx, id=one, reason="erased", actor=actor):
                answers.setdefault(cancelled.answer, []).append(one)
        return Erasure(
            recipient_id=id,
            withdrawn=tuple(answers["cancelled"]),
            too_late=tuple(answers["too_late"]),
            undecided=tuple(answers["undecided"]),
        )
